"""The work behind `svr batch export`: a run's missing calls into a folder of batch files."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async import __version__
from svr_async.commands.batch.plan import BatchRun, Unanswered, choose_endpoint, command_of, plan_run
from svr_async.engine.batch.folder import EXPORT, Export, alone, awaited_beside, load_export, save_export
from svr_async.engine.batch.reader import Planned
from svr_async.engine.batch.requests import BatchLimits, RequestFiles
from svr_async.engine.batch.results import DamagedLineError, custom_ids
from svr_async.engine.loops import loop_factory
from svr_async.engine.money import BATCH_PRICE_SHARE
from svr_async.engine.request import Question
from svr_async.errors import UsageError
from svr_async.evaluation.wording import dollars
from svr_async.judges.opening import OpenJudge
from svr_async.judges.profiles import Profile
from svr_async.vocabulary.folders import open_folder


def run_export(folder: Path, words: Sequence[str], limits: BatchLimits, *, only: str | None, as_json: bool) -> int:
    """Export and return the exit code; a folder that holds another export is left as it is."""
    name, args = command_of(tuple(words))
    run = plan_run((name, *args))
    profile = choose_endpoint(run, only)
    open_folder(folder)
    with alone(folder), RequestFiles(folder, limits, dry=(folder / EXPORT).exists()) as files:
        planned = Planned()

        def take(question: Question[Any]) -> None:
            if files.add(question.request):
                planned.add(question)

        memo_hits = collect(run, profile, take)
        export = _settled(folder, profile, (name, *args), files, planned)
    facts = _facts(run.staged, profile, planned, files, memo_hits) | {"files": _written(export)}
    click.echo(
        orjson.dumps(facts, option=orjson.OPT_INDENT_2) if as_json else _told(folder, profile, facts, (name, *args))
    )
    return 0


def collect(run: BatchRun, profile: Profile, take: Callable[[Question[Any]], None]) -> int:
    """Go through a run without a call, handing over the questions to one endpoint; return the answers it found."""

    def missing(judge: OpenJudge, question: Question[Any]) -> None:
        if judge.profile == profile:
            take(question)

    async def main() -> int:
        opened = await run.open()
        try:
            await run.ask(opened, Unanswered.watch(opened, None, missing))
            return sum(judge.engine.stats().memo_hits for judge in opened.judges if judge.engine is not None)
        finally:
            await opened.close()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main())


def _settled(
    folder: Path, profile: Profile, words: tuple[str, ...], files: RequestFiles, planned: Planned
) -> Export | None:
    """Return the export that the folder holds now: a new one, or the same as before; None where there is nothing."""
    if not files.dry:
        if not files.keys:
            return None
        _refuse_twice(folder, files.keys)
        export = _export_of(profile, words, files, planned)
        save_export(folder, export)
        return export
    held = load_export(folder, checked=True)
    if held.digest != files.digest:
        raise UsageError(
            f"{folder} holds another export: {held.requests:,} requests of svr {shlex.join(held.command)}"[:400],
            hint=f"name another folder, e.g. {next_folder(folder)}",
        )
    click.echo(f"{folder} holds this very export already", err=True)
    return held


def _refuse_twice(folder: Path, keys: set[bytes]) -> None:
    """Refuse requests that are in a batch already whose results are still to come: they would be paid for twice."""
    for path in awaited_beside(folder):
        again = 0
        with contextlib.suppress(DamagedLineError, OSError):
            again = sum(key in keys for key in custom_ids(path))
        if again:
            raise UsageError(
                f"{again:,} of these requests are in {path.parent.name} too, whose batch is not imported yet",
                hint=f"svr batch import {path.parent.name} --wait, or svr batch cancel {path.parent.name}, comes first",
            )


def _written(export: Export | None) -> list[dict[str, Any]]:
    files = () if export is None else export.files
    return [{"name": file.name, "requests": file.requests, "bytes": file.bytes} for file in files]


def next_folder(folder: Path) -> Path:
    """Return the name of the next export's folder: batch, batch-2, batch-3."""
    stem, dash, number = folder.name.rpartition("-")
    if dash and number.isdecimal():
        return folder.with_name(f"{stem}-{int(number) + 1}")
    return folder.with_name(f"{folder.name}-2")


def _export_of(profile: Profile, words: tuple[str, ...], files: RequestFiles, planned: Planned) -> Export:
    return Export(
        command=words,
        judge=profile.name,
        model=profile.model,
        base_url=profile.base_url,
        key_env=profile.key_env,
        version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        digest=files.digest,
        files=files.finish(),
        plan=_tokens(planned) | {"usd": planned.dollars(profile.price)},
    )


def _tokens(planned: Planned) -> dict[str, Any]:
    return {
        "calls": planned.calls,
        "prompt_tokens": planned.prompt_tokens,
        "completion_tokens": planned.completion_tokens,
        "max_completion_tokens": planned.max_completion_tokens,
    }


def _facts(staged: bool, profile: Profile, planned: Planned, files: RequestFiles, memo_hits: int) -> dict[str, Any]:
    price = profile.price
    usd = {"usd": planned.dollars(price), "max_usd": planned.dollars(price, worst=True)}
    return {
        "requests": len(files.keys),
        "judge": profile.name,
        **_tokens(planned),
        **usd,
        "memo_hits": memo_hits,
        "too_long": files.too_long,
        "staged": staged,
    }


def _told(folder: Path, profile: Profile, facts: dict[str, Any], words: Sequence[str]) -> str:
    """Say what was exported and what to do next."""
    if not facts["requests"]:
        return f"0 requests: all {facts['memo_hits']:,} answers are in the memo — svr {shlex.join(words)}"
    sizes = sum(file["bytes"] for file in facts["files"]) / 1e6
    count = len(facts["files"])
    written = f"{facts['requests']:,} requests in {folder}, {count} file{'s' * (count != 1)}, {sizes:.1f} MB"
    lines = [
        f"{written}; {facts['memo_hits']:,} answers were in the memo already.",
        f"About {facts['prompt_tokens']:,} tokens in and {facts['completion_tokens']:,} out; {_cost(facts)}.",
    ]
    if facts["too_long"]:
        lines.append(f"{facts['too_long']} requests are longer than a file may be: the command itself asks them.")
    if facts["staged"]:
        lines.append(
            "Calls that depend on these replies are exported after the import, by the same command into another folder."
        )
    lines += ["Next:", f"  svr batch submit {folder}", f"  svr batch import {folder} --wait"]
    return "\n".join([*lines, *_vllm(folder, profile, facts)])


def _vllm(folder: Path, profile: Profile, facts: dict[str, Any]) -> list[str]:
    names = [file["name"] for file in facts["files"][:1]]
    return [
        f"or, without such an endpoint:\n  vllm run-batch -i {folder / name} "
        f"-o {folder / name.replace('requests', 'results')} --model {profile.model}"
        for name in names
    ]


def _cost(facts: dict[str, Any]) -> str:
    if facts["usd"] is None:
        return "price unknown: add price = [in, cached, out] to the judge in judges.toml"
    live = facts["usd"] / BATCH_PRICE_SHARE
    return f"about {dollars(facts['usd'])} as a batch, {dollars(live)} live; at worst {dollars(facts['max_usd'])}"
