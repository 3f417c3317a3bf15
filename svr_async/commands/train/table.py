"""What `svr train` and `svr fit` print at their end: rounds or epoch, how the bank is used, and where it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from svr_async.commands.screen import styled_console
from svr_async.core.dev_pairs import accuracy_in_words, enough
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.metrics import engine_block
from svr_async.evaluation.wording import UNKNOWN, plural
from svr_async.fit.learning_curve import LearningCurve
from svr_async.training.rounds.answers import unanswered_lines


def print_rounds(record: Mapping[str, Any], out: Path, digest: str, wall_s: float) -> None:
    """Print a table of the rounds and where the bank is."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    names = ("round", "bank", "kept", "support", "hard_negatives", "judged_entries", "dev_accuracy")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    told = enough(record["dev_pairs"])
    for row in record["rounds"]:
        mark = "bold" if row["round"] == record["dev"]["round"] else ""
        table.add_row(*(_cell(name, row[name], told=told) for name in names), style=mark)
    console = styled_console()
    console.print(f"[bold]bank trained[/] on {plural(record['train_pairs'], 'pair')} · {record['judge']}")
    console.print(table)
    if not told:
        console.print(f"[dim]accuracy[/]  {record['headline']}", soft_wrap=True)
    console.print(f"[dim]for use[/]   {_use(record)}", soft_wrap=True)
    if record["contaminated"]:
        console.print(f"[dim]left out[/]  {len(record['contaminated'])} pairs that overlap with a benchmark")
    for line in unanswered_lines(record["outcomes"]):
        console.print(f"[yellow]warning[/]   {line}", soft_wrap=True)
    console.print(f"[dim]bank[/]      {out / 'bank'}  ({digest[:12]}), {wall_s:.0f} s", soft_wrap=True)
    console.print(f"[dim]report[/]    {out / 'report.html'}", soft_wrap=True)


def _cell(name: str, value: float, *, told: bool) -> str:
    if name != "dev_accuracy":
        return f"{value:,}"
    return f"{100 * value:.1f} %" if told else UNKNOWN


def _use(record: Mapping[str, Any]) -> str:
    """Say how the bank will be used: how many rubrics a prompt gets, and what fills the places that are left free."""
    row = next(row for row in record["rounds"] if row["round"] == record["dev"]["round"])
    most = min(row["top_k"], row["kept"])
    of = f"all {most:,} rubrics" if most == row["kept"] else f"the best {most:,} of {plural(row['kept'], 'rubric')}"
    filler = f"; places left free go to others, which weigh {row['filler_weight']:g}" if row["filler_weight"] else ""
    return f"{of} of round {row['round']} for a prompt{filler}"


def print_fit(record: Mapping[str, Any], out: Path) -> None:
    """Print how a fit of a store went and where its bank is."""
    taken = f"epoch {record['best_epoch']}" if record["best_epoch"] else "the start, before any epoch"
    measured = record["dev_accuracy"]
    accuracy = "no dev pair was judged" if measured is None else accuracy_in_words(measured, record["dev_pairs"])
    click.echo(f"{accuracy} ({taken}, {record['device']})")
    click.echo(f"rubrics    {record['rubrics']} kept, up to {record['top_k']} for a prompt")
    told = enough(record["dev_pairs"])
    if told and record["seeds"] > 1:
        mean, deviation = 100 * record["dev_accuracy_mean"], 100 * record["dev_accuracy_sd"]
        click.echo(f"over {record['seeds']} seeds {mean:.1f} % ± {deviation:.1f}")
    if told and record["linear_accuracy"] is not None:
        click.echo(f"beside it  unweighted vote {100 * record['vote_accuracy']:.1f} %")
        click.echo(f"           one weight per rubric for all prompts {100 * record['linear_accuracy']:.1f} %")
    for warning in record["warnings"]:
        click.echo(f"warning    {warning}")
    click.echo(f"bank       {out / 'bank'}")
    click.echo(f"report     {out / 'report.html'}")


def print_learning(curve: LearningCurve | None) -> None:
    """Print the curve as a table with a sentence; nothing where there is none."""
    from rich.table import Table

    if curve is None:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("pairs", "share", "accuracy", "95 % interval", "draws"):
        table.add_column(name, justify="right")
    for point in curve.points:
        interval = f"{100 * point.low:.1f} to {100 * point.high:.1f}"
        share, accuracy = f"{100 * point.share:g} %", f"{100 * point.accuracy:.1f} %"
        table.add_row(f"{point.pairs:,}", share, accuracy, interval, str(point.draws))
    console = styled_console()
    console.print(f"\n[bold]learning curve[/] on {curve.held_out:,} pairs, each left out of the fits that decide it")
    console.print(table)
    console.print(curve.in_words(), soft_wrap=True, markup=False)


def asked_block(stats: EngineStats | None, price: Price | None) -> dict[str, Any]:
    """Return the calls, tokens and dollars of this process; nothing for a judge that sends nothing."""
    return {} if stats is None else engine_block(stats, price)
