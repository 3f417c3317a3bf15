"""`svr compare`: runs side by side, and each later one tested against the first on the items that both judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from svr_async.commands.options import common

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from svr_async.evaluation.reporting.compare import Comparison, Duel, PairedTest

WIDE = 100  # columns that all numbers of a paired test need; narrower terminals show the main ones


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@common
def compare(runs: tuple[Path, ...], seed: int, config: object, as_json: bool) -> None:  # noqa: ARG001  (eager)
    """Compare runs over the same data: accuracy, exact McNemar test, bootstrap interval, Holm over domains.

    Each later run is tested against the first, on the pairs that both judged; pairs of a prompt are taken together.

    \b
    Example:
      svr compare runs/rubricbench-vanilla-qwen3-14b-77d0a4c3 runs/rubricbench-svr-qwen3-14b-1c9b7e20
    """
    from svr_async.evaluation.reporting.compare import compare_runs, item_of
    from svr_async.evaluation.runfolder import RunFolder

    found = compare_runs([RunFolder.load(run) for run in runs], seed=seed, cluster=item_of)
    if as_json:
        click.echo(orjson.dumps(found.to_json(), option=orjson.OPT_INDENT_2))
    else:
        show_comparison(found)


def show_comparison(found: Comparison) -> None:
    """Print the tables of a comparison; texts from run folders cannot steer the terminal."""
    from rich.text import Text

    from svr_async.commands.screen import safe_console
    from svr_async.evaluation.safetext import one_line

    console = safe_console()
    for warning in found.warnings:
        console.print(Text(f"! {one_line(warning, 400)}", style="yellow"))
    console.print(_runs_table(found))
    for duel in found.duels:
        _show_duel(console, duel)


def _runs_table(found: Comparison) -> Table:
    from svr_async.commands.screen import plain_table
    from svr_async.evaluation import wording

    rows = [
        (
            f"{run.title}{''.join(f' [{word}]' for word in run.marks)}",
            wording.count(run.n_total),
            wording.percent(run.accuracy),
            wording.interval(run.ci95),
            wording.percent(run.coverage),
        )
        for run in found.runs
    ]
    return plain_table(("run", "pairs", "accuracy", "95 % interval", "coverage"), rows)


def _show_duel(console: Console, duel: Duel) -> None:
    from rich.text import Text

    from svr_async.commands.screen import plain_table
    from svr_async.evaluation.safetext import one_line

    wide = console.width >= WIDE
    rows = [
        _duel_row(name, test, wide=wide) for name, test in (("all shared pairs", duel.overall), *duel.domains.items())
    ]
    heads = ("domain", "pairs", "first", "second", "points", *(("95 % interval", "only 1st:2nd", "p") if wide else ()))
    console.print()
    console.print(Text(one_line(f"first: {duel.first}, second: {duel.second}", 400), style="bold"))
    console.print(plain_table((*heads, "p Holm"), rows))
    console.print(Text(one_line(duel.verdict, 400)))


def _duel_row(name: str, test: PairedTest, *, wide: bool) -> tuple[str, ...]:
    from svr_async.evaluation import wording

    more = (
        f"{wording.points(test.ci95.low)} to {wording.points(test.ci95.high)}",
        f"{test.only_first}:{test.only_second}",
        wording.p_value(test.p),
    )
    return (
        name,
        wording.count(test.n),
        wording.percent(test.accuracy_first),
        wording.percent(test.accuracy_second),
        wording.points(test.difference),
        *(more if wide else ()),
        wording.p_value(test.p_holm),
    )
