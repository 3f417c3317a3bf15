"""Tables and texts on a terminal; control characters in texts from files are removed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from svr_async.core.files import read_plain
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from svr_async.core.table import Line, Parts, Table

CELL = 300
LABEL = 12
PLAIN_WIDTH = 160  # of a file or a pipe
SPINNER_AFTER_S = 1.0


def print_json(values: Any, *, line: bool = False) -> None:
    """Print one JSON value for machines, indented or in a line; other types become lists."""
    from svr_async.core.safetext import json_for_terminal

    indent = 0 if line else orjson.OPT_INDENT_2
    click.echo(json_for_terminal(orjson.dumps(values, default=list, option=indent | orjson.OPT_SERIALIZE_NUMPY)))


def tell(values: Any, shown: str | Parts | Callable[[], object], *, as_json: bool, line: bool = False) -> None:
    """Print `values`, or what they return, as JSON; else a text, lines and tables, or what a function prints."""
    if as_json:
        print_json(values() if callable(values) else values, line=line)
    elif isinstance(shown, str):
        click.echo(shown)
    elif callable(shown):
        shown()
    else:
        show(shown)


def safe_console() -> Console:
    """Return a console that reads no markup, emoji codes or highlights in what it prints."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


@contextmanager
def spinner(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a spinner on a terminal once the work has taken a second."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(text)
    timer = threading.Timer(SPINNER_AFTER_S, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def show(sheet: Parts) -> None:
    """Print lines and tables without control characters."""
    from rich.text import Text

    from svr_async.core.safetext import one_line
    from svr_async.core.table import Line

    console = safe_console()
    for part in sheet:
        if isinstance(part, Line):
            _show_line(console, part)
            continue
        if part.caption:
            console.print()
            console.print(Text(one_line(part.caption, CELL), style="bold"))
        if part.heads:
            console.print(_rich_table(part))
        for note in part.notes:
            console.print(Text(one_line(note, 2_000)))


def _rich_table(part: Table) -> RichTable:
    """Lay out a table without lines; the last column of text wraps, else the first."""
    from rich.table import Table as RichTable
    from rich.text import Text

    from svr_async.core.safetext import one_line

    table = RichTable(box=None, pad_edge=False, header_style="dim")
    wrapped = len(part.heads) - 1 if part.texts else 0
    for place, (head, side) in enumerate(zip(part.heads, part.sides(), strict=True)):
        table.add_column(head, justify="left" if side == "left" else "right", overflow="fold", no_wrap=place != wrapped)
    for row in part.rows:
        table.add_row(*(Text(one_line(cell, CELL if part.texts else 200)) for cell in row))
    return table


def _show_line(console: Console, line: Line) -> None:
    from rich.table import Table
    from rich.text import Text

    from svr_async.core.safetext import one_line

    text = one_line(line.text, 2_000)
    if not line.wrapped or not line.label:
        label = f"{line.label:<{LABEL - 1}} " if line.label else ""
        console.print(Text.assemble((label, "dim"), (text, "yellow" if line.loud else "")), soft_wrap=not line.wrapped)
        return
    grid = Table.grid()
    grid.add_column(width=LABEL)
    grid.add_column(overflow="fold")
    grid.add_row(Text(line.label, style="dim"), Text(text))
    console.print(grid)


def text_of(flag: str, value: str) -> str:
    """Return a text as given, or the content of the file after `@`; `@@` starts a text with a literal `@`."""
    if not value.startswith("@"):
        return value
    if value.startswith("@@"):
        return value[1:]
    try:
        return read_plain(Path(value[1:])).decode("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"cannot read {flag} '{value}': {why}", hint="@FILE reads a text from a file; @@ starts a text with @"
        ) from error
