"""The work behind `svr batch export`: a run's missing calls into a folder of batch files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from svr_async.commands.batch.run import command_of, run_of
from svr_async.commands.screen import tell
from svr_async.engine.batch.requests import BatchLimits
from svr_async.evaluation.running.batch_words import exported_facts, exported_words
from svr_async.judges.batch_export import export
from svr_async.judges.batch_run import choose_endpoint


def run_export(folder: Path, words: Sequence[str], limits: BatchLimits, *, only: str | None, as_json: bool) -> int:
    """Export and return the exit code; a folder that holds another export is left as it is."""
    name, args = command_of(tuple(words))
    run = run_of((name, *args))
    profile = choose_endpoint(run, only)
    exported = export(run, profile, folder, (name, *args), limits)
    if exported.again:
        click.echo(f"{folder} holds this very export already", err=True)
    facts = exported_facts(exported, profile, staged=run.staged)
    tell(facts, exported_words(folder, profile, facts, (name, *args)), as_json=as_json)
    return 0
