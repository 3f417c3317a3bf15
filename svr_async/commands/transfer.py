"""`svr transfer`: how a bank fares with another judge, or with the same judge at another date."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, common, seed_option


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=PATH)
@click.option("--rubrics", type=click.IntRange(min=0), default=20, show_default=True, help="How many rubrics to show.")
@seed_option
@common
def transfer(runs: tuple[Path, ...], rubrics: int, seed: int, as_json: bool) -> None:
    """Report drift: one bank and method on the same pairs, by several judges or by one at several dates.

    Krippendorff's α of verdicts and of each rubric's Δ with bootstrap intervals, flips, shifts of the margin.

    \b
    Example:  svr transfer runs/small-judge runs/large-judge
    """
    from svr_async.commands.screen import safe_console, tell
    from svr_async.core.table import warnings_of
    from svr_async.evaluation.reporting.transfer import transfer_of, transfer_tables
    from svr_async.evaluation.run_folder import RunFolder

    found = transfer_of([RunFolder.load(run) for run in runs], seed=seed)
    tell(
        found.to_json,
        [*warnings_of(found.differs), *transfer_tables(found, rubrics, safe_console().width)],
        as_json=as_json,
    )
