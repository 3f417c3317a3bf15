"""The work behind `svr batch import`: the replies of a batch, read as live ones are, into the memo."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.commands.batch.remote import table_of
from svr_async.commands.batch.run import run_of
from svr_async.engine.batch.folder import Export, State, alone, awaited_in, load_export
from svr_async.engine.batch.results import LineKind, ResultFiles, custom_ids
from svr_async.errors import ArtefactError, CoverageError
from svr_async.judges.batch_export import next_folder
from svr_async.judges.batch_remote import fetch_results, secret_of
from svr_async.judges.batch_run import Imported, read_into_memo, refused_settings


def run_import(folder: Path, files: Sequence[Path], base_url: str, *, wait: bool, as_json: bool) -> int:
    """Import and return 0; CoverageError where replies are missing, ArtefactError where a file holds none of ours."""
    export = load_export(folder, checked=True)
    with alone(folder):
        paths = tuple(files) or _fetched(folder, export, base_url, wait=wait, quiet=as_json)
        own = {key for file in export.files for key in custom_ids(folder / file.name)}
        run = run_of(export.command)
        with ResultFiles.open(paths, own, secret_of(export)) as results:
            report = read_into_memo(run, results, own)
            profile = next((one for one in run.profiles if one.name == export.judge), None)
            usd = report.kept.dollars(None if profile is None else profile.price)
            facts = _facts(report, results, usd)
            click.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2) if as_json else _told(report, results, usd))
            settings = refused_settings(profile, results.tally.details.get(LineKind.FAILED, ()))
            return _verdict(folder, export, report, results, settings, quiet=as_json)


def _fetched(folder: Path, export: Export, base_url: str, *, wait: bool, quiet: bool) -> tuple[Path, ...]:
    """Download what the endpoint has ready, showing how its batches are, and return all files of results."""
    told = [""]

    def tell(state: State) -> None:
        table = table_of(state)
        if table != told and not quiet:
            click.echo("\n".join(table), err=True)
            told[:] = table

    paths, failed = fetch_results(folder, export, base_url, wait=wait, tell=tell)
    if failed is not None:
        click.echo(f"note: {failed.one_line()}", err=True)
    return paths


def _facts(report: Imported, results: ResultFiles, usd: float | None) -> dict[str, Any]:
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


def _told(report: Imported, results: ResultFiles, usd: float | None) -> str:
    """Say what was kept and what was not, with the first words of each kind of trouble."""
    kept = report.kept
    price = "" if usd is None else f", ${usd:.4f} as a batch"
    gain = f"{kept.new:,} replies kept{price}; {kept.known:,} were in the memo already"
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
        lines += [f"  {kind.value}: {_plain(detail)}" for detail in details]
    return "\n".join(lines)


def _plain(text: str) -> str:
    from svr_async.vocabulary.safetext import one_line

    return one_line(text, 200)


def _verdict(
    folder: Path, export: Export, report: Imported, results: ResultFiles, settings: str, *, quiet: bool
) -> int:
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
    if report.later.calls and not quiet:
        click.echo(f"The next stage has {report.later.calls:,} calls that can be asked now:\n  {again}")
    elif not quiet:
        click.echo(f"All of it is in the memo; no call is left:\n  {command}")
    return 0


def _ours(counts: Any) -> bool:
    """Whether a file has a line of ours, or none at all."""
    return not counts or any(kind not in {LineKind.FOREIGN, LineKind.DAMAGED} for kind in counts)
