"""The paper's figures from rebuilt tables, with the printed values as diamonds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from svr_async.core.safetext import one_line
from svr_async.reports.bank_page import Course, course_figure
from svr_async.reports.drawing import Figure, Panel, Series, dots, plane
from svr_async.reproduction.recipes import Recipe
from svr_async.reproduction.table import EMPTY, Cell, PaperTable

INTERVALS = "Lines are 95 % intervals of ours; diamonds are printed values."


def figures_of(recipes: Sequence[Recipe], tables: Sequence[PaperTable]) -> Iterator[Figure]:
    """Yield the figures of rebuilt tables; a table without numbers of ours has no figure."""
    for recipe, table in zip(recipes, tables, strict=True):
        if recipe.kind in DRAWN and any(cell.ours is not None for row in table.rows for cell in row.cells):
            yield from DRAWN[recipe.kind](table)


def _dots(place: int, axis: str, level: float, digits: int = 1) -> Callable[[PaperTable], Iterator[Figure]]:
    """Return a function that draws a dot for each row, from one column of a table."""

    def draw(table: PaperTable) -> Iterator[Figure]:
        rows = [row for row in table.rows if row.cells[place] != EMPTY]
        names = tuple(one_line(", ".join(filter(None, row.names)), 90) for row in rows)
        series = _series([row.cells[place] for row in rows])
        yield _figure(table, dots(names, series, axis, level=level, digits=digits))

    return draw


def _series(cells: Sequence[Cell]) -> tuple[Series, Series]:
    """Return our values with their intervals, and the printed ones; x is the row."""
    mine = [(float(row), cell.ours) for row, cell in enumerate(cells) if cell.ours is not None]
    intervals = tuple(cell.interval for cell in cells if cell.ours is not None)
    theirs = [(float(row), cell.printed) for row, cell in enumerate(cells) if cell.printed is not None]
    found = Series(name="ours", points=tuple(mine), intervals=intervals, colour="first")
    return found, Series(name="printed", points=tuple(theirs), colour="ink", hollow=True)


def _figure(table: PaperTable, panel: Panel) -> Figure:
    return Figure(name=table.short, title=table.title, panels=(panel,), marks=table.marks, notes=(INTERVALS,))


def _topk(table: PaperTable) -> Iterator[Figure]:
    """Yield accuracy over the number of rubrics."""
    sizes = [float(row.names[0]) for row in table.rows]
    series = [
        replace(one, points=tuple((sizes[int(row)], value) for row, value in one.points))
        for one in _series([row.cells[0] for row in table.rows])
    ]
    yield _figure(table, plane(series, "rubrics a prompt, at most", "accuracy, %", ticks=sizes))


def _dynamics(table: PaperTable) -> Iterator[Figure]:
    """Yield the course of each measure over the rounds."""
    note = "Margins are in the scale of each fit's weights, so only their course compares with the printed one."

    def course(of: Callable[[Cell], float | None]) -> Course:
        return {column.name: [of(row.cells[i]) for row in table.rows] for i, column in enumerate(table.columns)}

    rounds = [int(row.names[0]) for row in table.rows]
    found = course_figure(
        table.short, rounds, course(lambda cell: cell.ours), course(lambda cell: cell.printed), table.marks, (note,)
    )
    if found is not None:
        yield found


DRAWN: Mapping[str, Callable[[PaperTable], Iterator[Figure]]] = {
    "overall": _dots(0, "accuracy, %", 50.0),
    "net": _dots(0, "pairs that only SVR has right, less those of the human rubrics", 0.0, digits=0),
    "ablation": _dots(1, "points against the first row", 0.0),
    "topk": _topk,
    "dynamics": _dynamics,
}
