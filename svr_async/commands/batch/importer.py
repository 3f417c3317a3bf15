"""The work behind `svr batch import`: the replies of a batch, read as live ones are, into the cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from svr_async.commands.batch.run import run_of
from svr_async.commands.screen import tell
from svr_async.engine.batch.folder import Export, State, alone, load_export
from svr_async.engine.batch.results import LineKind, ResultFiles, asked_keys
from svr_async.evaluation.running.batch_words import after_import, imported_facts, imported_words, table_of
from svr_async.judges.batch_remote import fetch_results, secret_of
from svr_async.judges.batch_run import read_into_cache, refused_settings
from svr_async.vocabulary.safetext import for_terminal


def run_import(folder: Path, files: Sequence[Path], base_url: str, *, wait: bool, as_json: bool) -> int:
    """Import and return 0; CoverageError where replies are missing, ArtefactError where a file holds none of ours."""
    export = load_export(folder, checked=True)
    with alone(folder):
        paths = tuple(files) or _fetched(folder, export, base_url, wait=wait, quiet=as_json)
        own = asked_keys(folder, [file.name for file in export.files])
        run = run_of(export.command)
        with ResultFiles.open(paths, own, secret_of(export)) as results:
            report = read_into_cache(run, results, own)
            profile = next((one for one in run.profiles if one.name == export.judge), None)
            usd = report.kept.dollars(None if profile is None else profile.price)
            tell(imported_facts(report, results, usd), imported_words(report, results, usd), as_json=as_json)
            settings = refused_settings(profile, results.tally.details.get(LineKind.FAILED, ()))
            told = after_import(folder, export, report, results, settings)
    if not as_json:
        click.echo(for_terminal(told))
    return 0


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
