"""Tables as what a terminal shows: warnings first, then each table under its caption, with its notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svr_async.core.sheet import Grid, Heading, Line, Sheet
from svr_async.evaluation.reporting.table import Table


def tables_sheet(tables: Iterable[Table], warnings: Sequence[str] = ()) -> Sheet:
    """Yield the warnings and the tables."""
    yield from (Line(f"! {warning}", wrapped=True, loud=True) for warning in warnings)
    for place, table in enumerate(tables):
        if table.caption:
            yield Heading(table.caption)
        elif place:
            yield Line("")
        if table.heads:
            yield Grid(table.heads, table.rows, texts=0)
        yield from (Line(note, wrapped=True) for note in table.notes)
