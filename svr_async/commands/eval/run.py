"""The work behind `svr eval`: flags to settings, what the evaluation tells onto the screen, its end to an exit code."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from svr_async.commands.eval.notes import notes_of
from svr_async.commands.settings import eval_settings
from svr_async.commands.watching import Screen, print_count
from svr_async.core.integrity import require_coverage
from svr_async.evaluation.run import EvalResult, run_now
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import Prepared, prepare
from svr_async.tracking.facts import of_evaluation
from svr_async.tracking.hand_over import hand_over


def run_command(flags: Mapping[str, Any], given: frozenset[str]) -> int:
    """Evaluate and return the exit code; SvrError for what stops the run."""
    run = prepare(eval_settings(flags, given))
    for note in notes_of(run, given):
        click.echo(f"note: {note}", err=True)
    if run.settings.limits.dry_run:
        print_count(run, as_json=flags["as_json"])
        return 0
    screen = Screen(quiet=flags["quiet"], verbose=flags["verbose"], as_json=flags["as_json"])
    result = run_now(run, screen)
    if not result.signal:
        hand_over(flags["track"], partial(of_evaluation, run.folder), partial(click.echo, err=True))
    code = _exit_code(run.settings, result, screen)
    if flags["report"] == "frontier":
        _draw_frontier(run, as_json=flags["as_json"])
    return code


def _draw_frontier(run: Prepared, *, as_json: bool) -> None:
    from svr_async.reports.files import write_frontier

    write_frontier([run.folder], run.folder / "frontier.html")
    click.echo(f"frontier  {run.folder}/frontier.html", err=as_json)


def _exit_code(settings: EvalSettings, result: EvalResult, screen: Screen) -> int:
    """Return 0, or what a signal means to a shell; CoverageError where too many pairs have no verdict."""
    metrics = result.metrics
    if screen.shutdown is not None and screen.shutdown.hung_up:
        return 128 + result.signal
    if result.signal:
        told = f"stopped by {signal.Signals(result.signal).name}: {result.left} — run the same command to go on"
        click.echo(told, err=True)
        return 128 + result.signal
    if metrics["coverage"] is not None:  # some pair has a right answer
        again = "without --offline they are asked" if settings.limits.offline else "--retry-errors asks again"
        require_coverage(
            metrics["n_total"] - metrics["n_scored"],
            metrics["n_total"],
            settings.min_coverage,
            lack="pairs have no verdict",
            hint=f"{result.folder}/items.jsonl says why; {again}, --min-coverage accepts it",
        )
    return 0
