"""Write a run folder: the claim before anything is asked, and the results at the end."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from svr_async.adapters.pair_files import write_pairs
from svr_async.core.files import write_atomic, write_lines
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.errors import UsageError
from svr_async.evaluation import metrics as counting
from svr_async.evaluation.items import Item
from svr_async.evaluation.plan import OrderPolicy
from svr_async.evaluation.run_folder import ITEMS, MANIFEST, METRICS, PAIRS_FILE, SCHEMA_VERSION
from svr_async.evaluation.setup import PreparedRun
from svr_async.judges.limits import WHOLE, share_in_words
from svr_async.scoring.provenance import versions
from svr_async.version import __version__

PACKAGES = ("aiohttp", "diskcache", "orjson", "tenacity", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts of an ended run; `spent` are the blocks of metrics.json on calls, tokens and cost."""

    judge: Mapping[str, Any]
    spent: Mapping[str, Any]
    wall_s: float
    complete: bool
    notes: tuple[str, ...] = ()


def begin_run(run: PreparedRun, judge: Mapping[str, Any]) -> None:
    """Claim the run folder with a manifest; UsageError if it has items of another run, or another shard of this one."""
    folder, hint = run.folder, "name another folder with --out"
    path = folder / MANIFEST
    with suppress(AttributeError, OSError, TypeError, ValueError):  # a missing or damaged manifest is written again
        earlier = orjson.loads(path.read_bytes())
        number, count = earlier.get("config", {}).get("share") or WHOLE
        share, digest = (number, count), earlier.get("digest")
        if digest not in {None, run.digest} and (folder / ITEMS).exists():
            now = orjson.loads(_pretty(_manifest(run, judge, ended=None, complete=False)))
            differs = _differs(earlier, now)
            raise UsageError(f"{folder} holds another run: {differs}", hint=hint)
        if digest is not None and share != run.settings.limits.share:
            what = "all of this run" if share == WHOLE else f"shard {share_in_words(share)} of this run"
            raise UsageError(f"{folder} holds {what}", hint=hint)
    write_atomic(path, _pretty(_manifest(run, judge, ended=None, complete=False)))
    if run.settings.data == folder / PAIRS_FILE:
        write_pairs(run.settings.data, run.dataset.pairs)


def _differs(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say how two manifests of different runs differ."""
    for what, part in (("method", "method"), ("judge", "config"), ("data", "config"), ("bank", "config")):
        before, after = (one.get(part) if what == part else one[part].get(what) for one in (earlier, now))
        if before != after:
            return f"its {what} is {before or 'not set'}, this one has {after or 'not set'}"
    names = [name for name in now["config"] if name != "out" and earlier["config"].get(name) != now["config"][name]]
    if names:
        before, after = earlier["config"].get(names[0]), now["config"][names[0]]
        return f"its {names[0].replace('_', '-')} is {before}, this one has {after}"
    return "the data, the bank, the judge's profile or the version of svr-async has changed since"


def write_results(run: PreparedRun, items: Sequence[Item], facts: RunFacts) -> dict[str, Any]:
    """Write items, metrics and the manifest; return the metrics."""
    write_lines(run.folder / ITEMS, (item.to_line() for item in items))
    metrics = _metrics(run, items, facts)
    write_atomic(run.folder / METRICS, _pretty(metrics))
    manifest = _manifest(run, facts.judge, ended=datetime.now(UTC), complete=facts.complete)
    write_atomic(run.folder / MANIFEST, _pretty(manifest))
    return metrics


def _metrics(run: PreparedRun, items: Sequence[Item], facts: RunFacts) -> dict[str, Any]:
    """Return metrics.json; keys are stable, accuracies are fractions of 1."""
    settings, prompts = run.settings, dict[str, int]()

    def pairs() -> Iterator[PreferencePair]:  # may read each pair again, so one pass also notes its prompt
        for pair in run.pairs:
            prompts[pair.id] = hash(prompt_text(pair.prompt))
            yield pair

    official = counting.official_block(run.adapter, pairs(), items, float(settings.tie_credit))
    return {
        "benchmark": run.dataset.name,
        "method": run.method.name,
        "judge": run.judges.name,
        "judge_label": facts.judge["label"],
        "bank": settings.bank,
        **counting.accuracy_block(items, prompts),
        "by_domain": counting.by_domain(items, prompts),
        "official": official,
        "outcomes": dict(counting.outcome_counts(items)),
        "order": counting.order_block(items, OrderPolicy(settings.order), settings.audit_below),
        **counting.plan_block(items),
        **facts.spent,
        "wall_s": round(facts.wall_s, 3),
        "complete": facts.complete,
        "left_out": run.dataset.left_out(),
        "notes": [*run.dataset.notes, *facts.notes],
    }


def _manifest(run: PreparedRun, judge: Mapping[str, Any], *, ended: datetime | None, complete: bool) -> dict[str, Any]:
    data = run.dataset
    return {
        "schema_version": SCHEMA_VERSION,
        "digest": run.digest,
        "svr_version": __version__,
        "command": list(run.command),
        "config": run.settings.for_manifest(),
        "benchmark": data.name,
        "method": run.method.name,
        "data": {
            "path": str(data.source),
            "digest": data.digest,
            "n_rows": data.n_rows,
            "n_pairs": len(run.pairs),
            "official": data.official,
            "notes": list(data.notes),
            "skipped": dict(data.skipped),
            "readings": list(data.readings),
            "origin": data.origin,
        },
        "judge": dict(judge),
        "prompts": dict(run.judges.prompts),
        "sample": run.settings.sample,
        "started": run.started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds") if ended else None,
        "complete": complete,
        "device": platform.machine(),
        "versions": versions(PACKAGES),
    }


def _pretty(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
