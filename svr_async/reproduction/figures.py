"""The paper's figures from rebuilt tables, printed values beside ours, and those of the runs and the bank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from svr_async.core.safetext import one_line
from svr_async.evaluation.summary import summaries_of
from svr_async.reports.bank_page import Course, course_figure, map_figure
from svr_async.reports.drawing import Figure, Panel, Series, dots, plane
from svr_async.reports.figures import abstention_figure, cost_figure, heat_figure
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, runs_of
from svr_async.reproduction.table import Cell, Row, Table, ours, printed
from svr_async.reproduction.tables.bank import bank_and_run

INTERVALS = "Lines are 95 % intervals of ours; diamonds are printed values."


def figures_of(recipes: Sequence[Recipe], tables: Sequence[Table], results: Results) -> Iterator[Figure]:
    """Yield the figures of rebuilt tables; a table without numbers of ours has none."""
    for recipe, table in zip(recipes, tables, strict=True):
        if recipe.kind in OF_TABLES and any(cell.ours is not None for row in table.rows for cell in row.cells):
            yield from OF_TABLES[recipe.kind](table)
        if recipe.kind in OF_RESULTS:
            yield from OF_RESULTS[recipe.kind](recipe, results)


def _figure(table: Table, panel: Panel, note: str = INTERVALS) -> Figure:
    return Figure(name=table.short, title=table.title, panels=(panel,), marks=table.marks, notes=(note,))


def _names(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(one_line(", ".join(filter(None, row.names)), 90) for row in rows)


def _held(rows: Sequence[Row], place: int) -> list[Row]:
    return [row for row in rows if ours(row.cells[place]) is not None or printed(row.cells[place]) is not None]


def _series(cells: Sequence[Cell], name: str, colour: str = "first", *, signed: bool = False) -> tuple[Series, Series]:
    """Return our values of a column with their intervals, and the printed ones, by row."""
    mine = [(float(i), cell) for i, cell in enumerate(cells) if cell.ours is not None]
    theirs = [(float(i), cell.printed) for i, cell in enumerate(cells) if cell.printed is not None]
    values = [(i, cell.ours or 0.0) for i, cell in mine]
    colours = tuple("behind" if value < 0 else "ahead" for _, value in values) if signed else ()
    intervals = tuple(cell.interval for _, cell in mine)
    ours_ = Series(name=name, points=tuple(values), intervals=intervals, colour=colour, colours=colours)
    return ours_, Series(name="printed", points=tuple(theirs), colour="ink", hollow=True)


def _accuracy(table: Table) -> Iterator[Figure]:
    """Yield a dot a row of the table's only column."""
    rows = _held(table.rows, 0)
    series = _series([row.cells[0] for row in rows], "ours")
    yield _figure(table, dots(_names(rows), series, "accuracy, %", level=50.0))


def _signed(place: int, words: str, digits: int) -> Callable[[Table], Iterator[Figure]]:
    """Return what yields dots to both sides of zero, of one column: ahead in one colour, behind in another."""

    def figures(table: Table) -> Iterator[Figure]:
        rows = _held(table.rows, place)
        series = _series([row.cells[place] for row in rows], "ours", signed=True)
        yield _figure(table, dots(_names(rows), series, words, level=0.0, digits=digits))

    return figures


def _by_judge(table: Table) -> Iterator[Figure]:
    """Yield a group of dots a judge, a dot a method; printed values are in the table."""
    rows = [row for row in table.rows if any(ours(cell) is not None for cell in row.cells)]
    series = [
        _series([row.cells[place] for row in rows], column.name, "")[0] for place, column in enumerate(table.columns)
    ]
    panel = dots(_names(rows), series, "accuracy, %", level=50.0)
    yield _figure(table, panel, "Lines are 95 % intervals; printed values are in the table.")


def _topk(table: Table) -> Iterator[Figure]:
    """Yield accuracy over the number of rubrics."""
    mine, theirs = _series([row.cells[0] for row in table.rows], "ours")
    sizes = [float(row.names[0]) for row in table.rows]
    series = [replace(one, points=tuple((sizes[int(i)], value) for i, value in one.points)) for one in (mine, theirs)]
    panel = plane(series, "rubrics a prompt, at most", "accuracy, %", ticks=sizes)
    yield _figure(table, panel, "Lines are 95 % intervals of ours.")


def _dynamics(table: Table) -> Iterator[Figure]:
    rounds = [int(row.names[0]) for row in table.rows]
    note = "Margins are in the scale of each fit's weights, so only their course compares with the printed one."
    found = course_figure(table.short, rounds, _course(table, ours), _course(table, printed), table.marks, (note,))
    if found is not None:
        yield found


def _course(table: Table, of: Callable[[Cell], float | None]) -> Course:
    return {column.name: [of(row.cells[place]) for row in table.rows] for place, column in enumerate(table.columns)}


def _bank(recipe: Recipe, results: Results) -> Iterator[Figure]:
    """Yield what of the bank is chosen where, and a map of it."""
    found = bank_and_run(recipe, results)
    if not isinstance(found, Absent):
        bank, run = found
        drawn = heat_figure(run.summary, "bank_activation"), map_figure(bank.bank, "bank_map")
        yield from (one for one in drawn if one is not None)


def _runs(recipe: Recipe, results: Results) -> Iterator[Figure]:
    """Yield accuracy of a recipe's runs against cost, and where unsure pairs are left out."""
    runs = [run for run in runs_of(recipe, results) if not isinstance(run, Absent)]
    summaries = summaries_of(runs)
    drawn = cost_figure(summaries), abstention_figure(summaries)
    yield from (one for one in drawn if one is not None)


OF_TABLES: Mapping[str, Callable[[Table], Iterator[Figure]]] = {
    "overall": _accuracy,
    "net": _signed(0, "pairs that SVR alone has right, less those of the human rubrics", 0),
    "ablation": _signed(1, "points against the first row", 1),
    "transfer": _by_judge,
    "topk": _topk,
    "dynamics": _dynamics,
}
OF_RESULTS: Mapping[str, Callable[[Recipe, Results], Iterator[Figure]]] = {"bank": _bank, "cost": _runs}
