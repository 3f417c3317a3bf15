"""Tables and texts on a terminal, with texts from files stripped of everything that could steer it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from svr_async.evaluation.reporting.tables import Table as Texts

PLAIN_WIDTH = 160  # where the output is a file or a pipe, which has no width


def safe_console() -> Console:
    """Return a console that reads no markup, emoji codes or highlights in what it prints."""
    return _console(markup=False, emoji=False)


def styled_console() -> Console:
    """Return a console that reads markup: what comes from files must be escaped."""
    return _console()


def _console(**settings: bool) -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(highlight=False, width=width, **settings)  # type: ignore[arg-type]  # all settings given are flags


def plain_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False) -> Table:
    """Return a table without lines: the first column is text, the others are numbers to the right, or all `words`."""
    from rich.table import Table
    from rich.text import Text

    from svr_async.evaluation.safetext import one_line

    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, head in enumerate(heads):
        number = place > 0 and not words
        table.add_column(head, justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in rows:
        table.add_row(*(Text(one_line(cell, 200)) for cell in row))
    return table


def show_tables(console: Console, tables: Iterable[Texts], warnings: Sequence[str] = ()) -> None:
    """Print warnings, then tables with their captions and notes; texts in them cannot steer the terminal."""
    from rich.text import Text

    from svr_async.evaluation.safetext import one_line

    for warning in warnings:
        console.print(Text(f"! {one_line(warning, 400)}", style="yellow"))
    for place, table in enumerate(tables):
        if place:
            console.print()
        if table.caption:
            console.print(Text(one_line(table.caption, 400), style="bold"))
        if table.heads:
            console.print(plain_table(table.heads, table.rows))
        for note in table.notes:
            console.print(Text(one_line(note, 400)))
