"""The page of a reproduction: one self-contained HTML file, in the look and with the safety of a run's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from svr_async.core.integrity import CAVEATS, Mark
from svr_async.reports.drawing import Figure, image
from svr_async.reports.page import environment, page_head, template_text
from svr_async.reproduction.arithmetic import Check
from svr_async.reproduction.table import Cell, Column, Row, Table, ours
from svr_async.reproduction.writers import LEGEND, caption, interval_words, padded


@dataclass(frozen=True, slots=True, kw_only=True)
class CellView:
    """A cell as the page shows it; `rank` is best, second or nothing."""

    text: str
    ours: str
    interval: str
    printed: str
    differs: bool
    rank: str
    words: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """A row as the page shows it; `group` where it is another than the row's before."""

    group: str
    names: tuple[str, ...]
    cells: tuple[CellView, ...]
    judged: str
    absent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table as the page shows it; `spans` are heads over columns with how many they cover."""

    table: Table
    title: str
    spans: tuple[tuple[str, int], ...]
    rows: tuple[RowView, ...]
    by_row: bool
    judged: tuple[str, ...]


def render_page(tables: Sequence[Table], marks: Sequence[Check], checks: int, figures: Sequence[Figure] = ()) -> str:
    """Return the page: every value escaped, no scripts, no requests. The same tables give the same bytes."""
    style = template_text("report.css") + _text("report.css")
    caveats = {mark.word: mark for mark in CAVEATS.values()}
    words = dict.fromkeys(word for table in tables for word in table.marks)
    page = (
        environment()
        .from_string(_text("report.html.j2"))
        .render(
            views=[_view(table) for table in tables],
            marks=[caveats.get(word, Mark(word=word, text="Some of the runs carry this mark.")) for word in words],
            legend=LEGEND,
            findings=marks,
            n_checks=checks,
            **page_head(style, [image(one) for one in figures]),
        )
    )
    return page.strip() + "\n"


@cache
def _text(name: str) -> str:
    return resources.files("svr_async.reproduction").joinpath("templates", name).read_text("utf-8")


def _view(table: Table) -> TableView:
    groups = ["", *(row.group for row in table.rows)]
    judges = {row.judged for row in table.rows if row.judged}
    rows = [
        _row(table, row, row.group if row.group != before else "")
        for row, before in zip(table.rows, groups, strict=False)
    ]
    return TableView(
        table=table,
        title=caption(table).partition(" (")[0],
        spans=tuple(_spans(table)),
        rows=tuple(rows),
        by_row=len(judges) > 1 or any(row.absent for row in table.rows),
        judged=tuple(sorted(judges)),
    )


def _spans(table: Table) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for column in table.columns:
        if found and found[-1][0] == column.span:
            found[-1] = (column.span, found[-1][1] + 1)
        else:
            found.append((column.span, 1))
    return found if any(span for span, _ in found) else []


def _row(table: Table, row: Row, group: str) -> RowView:
    cells = [
        _cell(cell, column, table.rank(place, cell, ours))
        for place, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True))
    ]
    return RowView(group=group, names=padded(table, row), cells=tuple(cells), judged=row.judged, absent=row.absent)


def _cell(cell: Cell, column: Column, rank: int) -> CellView:
    return CellView(
        text=cell.text,
        ours="" if cell.ours is None else column.words(cell.ours),
        interval=interval_words(cell, column).strip(),
        printed="" if cell.printed is None else column.words(cell.printed),
        differs=bool(cell.differs),
        rank=("", "best", "second")[rank],
        words=column.unit == "text",
    )
