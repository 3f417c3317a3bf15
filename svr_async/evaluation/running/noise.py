"""Measuring a judge's own noise: the same pairs asked several times over, each time with an empty cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svr_async.adapters.source import STDIN
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item
from svr_async.evaluation.judging import evaluation_of, open_judge_pool, run_evaluation
from svr_async.evaluation.noise import Noise, measured_noise, write_noise
from svr_async.evaluation.run import count_calls
from svr_async.evaluation.run_folder import RunFolder
from svr_async.evaluation.running.frontier import settings_of
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import Prepared, prepare
from svr_async.judges.doctor.findings import Finding, failed

FEW = "20"  # pairs asked where nothing else is said
MANY_FLIPS = 0.1


def noise_settings(
    judge: str | None, base_url: str, *, data: Path | None, benchmark: str, limit: str | None, like: Path | None
) -> EvalSettings:
    """Return what is asked: pairs of the shipped sample by their rubrics, of a file directly, or as a run asked.

    `limit` is N or A-B, by default the first 20 pairs.
    """
    limit = limit or FEW
    if like is not None:
        settings = settings_of(RunFolder.load(like))
        if settings.data == STDIN:
            raise UsageError(f"{like} judged what came on standard input, which is not kept", hint="--data FILE")
        limits = replace(settings.limits, offline=False)
        return replace(settings, limits=limits, limit=limit, audit=0.0)
    if judge is None:
        raise UsageError("--repeat asks a judge", hint="--judge J names it, --like RUN asks as a run did")
    common: dict[str, Any] = {"judge": judge, "base_url": base_url, "limit": limit, "audit": 0.0}
    if data is None:
        return EvalSettings(benchmark="rubricbench", sample=True, method="oracle", **common)
    return EvalSettings(benchmark=benchmark, data=data, **common)


def noise_finding(repeats: int, out: Path | None, told: Callable[[str], object], **asked: Any) -> Finding:
    """Measure noise, write it to `out` (by default noise-JUDGE.json) and say what was found; `told` hears the price.

    `asked` are what `noise_settings` takes.
    """
    try:
        found = measure(noise_settings(**asked), repeats, told)
        path = out or Path(f"noise-{''.join(c if c.isalnum() or c in '-_.' else '-' for c in found.judge)}.json")
        write_noise(path, found)
    except SvrError as error:
        return failed("noise", error)
    share = f"{wording.percent(found.flip_share)} [{wording.interval(found.flip_ci95)}]"
    spread = "" if found.margin_spread is None else f"; margins spread by {found.margin_spread:.2f} in the mean"
    askings = f"{found.repeats} askings of {wording.plural(found.pairs, 'pair')} ({found.method})"
    text = f"{share} of verdicts flip between two of {askings}{spread}; in {path}"
    cure = "svr gate --noise and svr compare --noise reckon with it" if found.flip_share else ""
    many = found.flip_share > MANY_FLIPS
    return Finding(name="noise", state="warn" if many else "ok", text=text, cure=cure)


def measure(settings: EvalSettings, repeats: int, told: Callable[[str], object] = len) -> Noise:
    """Ask every pair `repeats` times past the cache and return the noise; `told` hears calls and price first.

    UsageError for fewer than two askings, and for judges that send nothing.
    """
    if repeats < 2:
        raise UsageError(f"--repeat {repeats}: noise needs two askings or more", hint="--repeat 5")
    with tempfile.TemporaryDirectory() as folder:
        runs = [prepare(_aside(settings, Path(folder) / str(number))) for number in range(repeats)]
        planned = count_calls(runs[0])
        if planned is None:
            raise UsageError(f"{runs[0].judges.name} sends nothing", hint="noise is that of an endpoint")
        usd = None if planned["usd"] is None else repeats * planned["usd"]
        cost = f"about {wording.dollars(usd)}" if usd is not None else "price not entered"
        told(f"asking {wording.plural(len(runs[0].record.pairs), 'pair')} {repeats} times: "
             f"{wording.plural(repeats * planned['calls'], 'call')}, {cost}")  # fmt: skip
        passes, facts = run_whole(_ask(runs))
    panel = facts.get("judges") or [facts]
    return measured_noise(
        passes,
        judge=runs[0].judges.name,
        label=facts["label"],
        method=runs[0].method.name,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        models_seen=tuple(sorted({model for one in panel for model in one.get("models_seen", ())})),
    )


def _aside(settings: EvalSettings, folder: Path) -> EvalSettings:
    """Return the settings with a cache and a run folder of their own."""
    limits = replace(settings.limits, cache=folder / "cache")
    return replace(settings, limits=limits, out=folder / "run")


async def _ask(runs: list[Prepared]) -> tuple[list[list[Item]], dict[str, Any]]:
    """Judge each run's pairs, one run after the other; return the items, and what is known of the judges at the end."""
    passes, facts = [], dict[str, Any]()
    for run in runs:
        shutdown, pool = ShutdownController(), await open_judge_pool(run)
        try:
            items = await run_evaluation(evaluation_of(run, pool), shutdown)
            facts = pool.facts()
        finally:
            await pool.close()
        shutdown.reraise()
        passes.append([item for item in items if item is not None])
    return passes, facts
