"""What `svr train` prints at its end: the rounds, the one that was taken, and where the bank is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svr_async.evaluation.wording import UNKNOWN, plural
from svr_async.training.answers import unanswered_lines
from svr_async.vocabulary.dev_pairs import enough


def print_rounds(record: Mapping[str, Any], out: Path, digest: str, wall_s: float) -> None:
    """Print a table of the rounds and where the bank is."""
    from rich.table import Table  # noqa: PLC0415

    from svr_async.commands.screen import styled_console  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="dim")
    names = (
        "round",
        "bank",
        "kept",
        "support",
        "hard_negatives",
        "judged_entries",
        "dev_accuracy",
    )
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
    return f"{of} for a prompt{filler}"
