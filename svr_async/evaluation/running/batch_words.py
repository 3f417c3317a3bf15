"""What people and programs are told of a batch: its export, how its files are, its import, and what comes next."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from svr_async.engine.batch.folder import Export, State, Submission, awaited_in
from svr_async.engine.batch.results import LineKind, ResultFiles
from svr_async.engine.money import BATCH_PRICE_SHARE
from svr_async.errors import ArtefactError, CoverageError
from svr_async.evaluation.wording import dollars
from svr_async.judges.batch_export import Exported, next_folder, tokens_of
from svr_async.judges.batch_run import Imported
from svr_async.judges.profile import Profile
from svr_async.vocabulary.safetext import one_line


def _written(export: Export | None) -> list[dict[str, Any]]:
    files = () if export is None else export.files
    return [{"name": file.name, "requests": file.requests, "bytes": file.bytes} for file in files]


def exported_facts(exported: Exported, profile: Profile, *, staged: bool) -> dict[str, Any]:
    """Return what machines are told of an export to one endpoint."""
    price, planned = profile.price, exported.planned
    usd = {"usd": planned.dollars(price), "max_usd": planned.dollars(price, worst=True)}
    return {
        "requests": exported.requests,
        "judge": profile.name,
        **tokens_of(planned),
        **usd,
        "cache_hits": exported.cache_hits,
        "too_long": exported.too_long,
        "staged": staged,
        "files": _written(exported.export),
    }


def exported_words(folder: Path, profile: Profile, facts: dict[str, Any], words: Sequence[str]) -> str:
    """Say what was exported and what to do next."""
    if not facts["requests"]:
        return f"0 requests: all {facts['cache_hits']:,} answers are in the cache — svr {shlex.join(words)}"
    sizes = sum(file["bytes"] for file in facts["files"]) / 1e6
    count = len(facts["files"])
    written = f"{facts['requests']:,} requests in {folder}, {count} file{'s' * (count != 1)}, {sizes:.1f} MB"
    lines = [
        f"{written}; {facts['cache_hits']:,} answers were in the cache already.",
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
        return "price unknown: give --price IN/OUT, or price = [in, cached, out] in judges.toml"
    live = facts["usd"] / BATCH_PRICE_SHARE
    return f"about {dollars(facts['usd'])} as a batch, {dollars(live)} live; at worst {dollars(facts['max_usd'])}"


def imported_facts(report: Imported, results: ResultFiles, usd: float | None) -> dict[str, Any]:
    """Return what machines are told of an import; `usd` is what its replies cost as a batch, None where unknown."""
    kept = report.kept
    return {
        "requests": report.requests,
        "answered": report.answered,
        "new": kept.new,
        "known": kept.known,
        "unreadable": kept.unreadable,
        "unasked": kept.unasked,
        "failed": report.failed,
        "expired": report.expired,
        "missing": report.missing,
        "next_stage": report.later.calls,
        "lines": {kind.value: count for kind, count in sorted(results.tally.counts.items())},
        "usage": {
            "prompt_tokens": kept.prompt_tokens,
            "cached_tokens": kept.cached_tokens,
            "completion_tokens": kept.completion_tokens,
        },
        "usd": usd,
    }


def imported_words(report: Imported, results: ResultFiles, usd: float | None) -> str:
    """Say what was kept and what was not, with the first words of each kind of trouble."""
    kept = report.kept
    price = "" if usd is None else f", ${usd:.4f} as a batch"
    gain = f"{kept.new:,} replies kept{price}; {kept.known:,} were in the cache already"
    lines = [f"{gain}; {report.answered:,} of {report.requests:,} requests are answered."]
    if kept.unasked:
        lines.append(f"{kept.unasked:,} of the replies are to questions that the command no longer asks.")
    counts = {
        "unreadable": kept.unreadable,
        "failed": report.failed,
        "expired or cancelled": report.expired,
        "missing": report.missing,
    }
    lines += [f"{count:,} {name}" for name, count in counts.items() if count]
    for kind, details in results.tally.details.items():
        lines += [f"  {kind.value}: {one_line(detail, 200)}" for detail in details]
    return "\n".join(lines)


def after_import(folder: Path, export: Export, report: Imported, results: ResultFiles, settings: str) -> str:
    """Say how to go on; raise for a file that holds nothing of ours, and for replies that are not there.

    `settings` are what is to be set in a profile whose model refused a setting.
    """
    command = f"svr {shlex.join(export.command)}"
    again = f"svr batch export {next_folder(folder)} {shlex.join(export.command)}"
    kept = f"{report.answered:,} of {report.requests:,} requests are answered, and kept"
    strange = [path for path, tally in results.by_file.items() if not _ours(tally.counts)]
    if strange:
        counts = results.by_file[strange[0]].counts
        what = f"{counts[LineKind.FOREIGN]} lines of others, {counts[LineKind.DAMAGED]} damaged"
        raise ArtefactError(f"{strange[0]} holds no result of {folder} ({what}); {kept}", hint="name the right file")
    if not report.complete and awaited_in(folder):
        raise CoverageError(kept, hint=f"the endpoint is at work on the rest: svr batch import {folder} --wait")
    if not report.complete and settings:
        raise CoverageError(f"{kept}; the model refuses a setting", hint=f"{settings}; {again} comes after that")
    if not report.complete:
        raise CoverageError(kept, hint=f"{again} asks the rest as a batch; {command} asks it live")
    if report.later.calls:
        return f"The next stage has {report.later.calls:,} calls that can be asked now:\n  {again}"
    return f"All of it is in the cache; no call is left:\n  {command}"


def _ours(counts: Any) -> bool:
    """Whether a file has a line of ours, or none at all."""
    return not counts or any(kind not in {LineKind.FOREIGN, LineKind.DAMAGED} for kind in counts)


def table_of(state: State) -> list[str]:
    """Return the state as the lines of a table; ids come last, since they are the longest."""
    heads = ("file", "state", "done", "failed", "of", "age", "batch")
    rows = [heads, *(_row(one) for one in state.batches)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        cells = [_aligned(row[column], widths[column], right=2 <= column < 6) for column in range(len(heads))]
        lines.append("  ".join(cells).rstrip())
    return lines


def _aligned(text: str, width: int, *, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _row(one: Submission) -> tuple[str, ...]:
    state = one_line(one.status, 40) if one.status else "not submitted"
    state += f": {one_line(one.problem, 120)}" if one.problem else ""
    name, batch = one_line(one.file, 120), one_line(one.batch_id, 120) or "–"  # of a folder, and of an endpoint
    return name, state, f"{one.done:,}", f"{one.failed:,}", f"{one.total:,}", _age(one), batch


def _age(one: Submission) -> str:
    if not one.created:
        return "–"
    minutes = max(0, int(time.time()) - one.created) // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def next_step(folder: Path, state: State) -> str:
    """Say what to do next."""
    if not all(one.batch_id for one in state.batches):
        return f"Next: svr batch submit {folder}"
    if all(one.ended for one in state.batches):
        return f"Next: svr batch import {folder}"
    return f"Next: svr batch import {folder} --wait, or look again: svr batch status {folder}"
