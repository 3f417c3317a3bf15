"""The paper's figures from rebuilt tables, printed values beside ours, and those of the runs and the bank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from svr_async.core.safetext import one_line
from svr_async.evaluation.labels import run_titles
from svr_async.reports.bank_figures import Course, dynamics_figure, map_figure
from svr_async.reports.figure_model import Axis, Bars, Figure, Panel, Plane, Role, Series, Trace
from svr_async.reports.run_figures import ACCURACY, abstention_figure, cost_figure, heat_figure
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, runs_of
from svr_async.reproduction.table import Cell, Row, Table, ours, printed
from svr_async.reproduction.tables.bank import bank_and_run

INTERVALS = "Whiskers are 95 % intervals of ours; diamonds are printed values."


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


def _series(cells: Sequence[Cell], name: str, role: Role, roles: tuple[Role, ...] = ()) -> tuple[Series, Series]:
    """Return our values of a column with their intervals, and the printed ones."""
    known = tuple(cell.interval for cell in cells)
    mine = Series(name=name, values=tuple(map(ours, cells)), intervals=known, role=role, roles=roles)
    return mine, Series(name="printed", values=tuple(map(printed, cells)), role="printed")


def _accuracy(table: Table) -> Iterator[Figure]:
    """Yield a bar a row of the table's only column."""
    rows = _held(table.rows, 0)
    series = _series([row.cells[0] for row in rows], "ours", "ours")
    yield _figure(table, Bars(names=_names(rows), series=series, axis=ACCURACY, level=50.0))


def _signed(place: int, words: str, digits: int) -> Callable[[Table], Iterator[Figure]]:
    """Return what yields bars to both sides of zero, of one column: ahead in one colour, behind in another."""

    def figures(table: Table) -> Iterator[Figure]:
        rows = _held(table.rows, place)
        cells = [row.cells[place] for row in rows]
        roles: tuple[Role, ...] = tuple("behind" if (cell.ours or 0.0) < 0 else "ahead" for cell in cells)
        series = _series(cells, "", "", roles)
        yield _figure(table, Bars(names=_names(rows), series=series, axis=Axis(name=words), digits=digits, signed=True))

    return figures


def _by_judge(table: Table) -> Iterator[Figure]:
    """Yield a group of bars a judge, a bar a method; printed values are in the table."""
    rows = [row for row in table.rows if any(ours(cell) is not None for cell in row.cells)]
    series = tuple(
        _series([row.cells[place] for row in rows], column.name, "")[0] for place, column in enumerate(table.columns)
    )
    panel = Bars(names=_names(rows), series=series, axis=ACCURACY, level=50.0)
    yield _figure(table, panel, "Whiskers are 95 % intervals; printed values are in the table.")


def _topk(table: Table) -> Iterator[Figure]:
    """Yield accuracy over the number of rubrics."""
    known = [(float(row.names[0]), row.cells[0]) for row in table.rows]
    mine = [(k, cell) for k, cell in known if cell.ours is not None]
    theirs = tuple((k, cell.printed) for k, cell in known if cell.printed is not None)
    traces = (
        Trace(
            name="ours",
            points=tuple((k, cell.ours or 0.0) for k, cell in mine),
            intervals=tuple(cell.interval for _, cell in mine),
            role="ours",
        ),
        Trace(name="printed", points=theirs, role="printed"),
    )
    x = Axis(name="rubrics a prompt, at most", ticks=tuple(k for k, _ in known))
    yield _figure(table, Plane(traces=traces, x=x, y=Axis(name="accuracy, %")), "Whiskers are 95 % intervals of ours.")


def _dynamics(table: Table) -> Iterator[Figure]:
    rounds = [int(row.names[0]) for row in table.rows]
    note = "Margins are in the scale of each fit's weights, so only their course compares with the printed one."
    found = dynamics_figure(table.short, rounds, _course(table, ours), _course(table, printed), table.marks, (note,))
    if found is not None:
        yield found


def _course(table: Table, of: Callable[[Cell], float | None]) -> Course:
    return {column.name: [of(row.cells[place]) for row in table.rows] for place, column in enumerate(table.columns)}


def _bank(recipe: Recipe, results: Results) -> Iterator[Figure]:
    """Yield what of the bank is chosen where, and a map of it."""
    found = bank_and_run(recipe, results)
    if not isinstance(found, Absent):
        bank, run = found
        drawn = heat_figure(run, "bank_activation"), map_figure(bank.bank, "bank_map")
        yield from (one for one in drawn if one is not None)


def _runs(recipe: Recipe, results: Results) -> Iterator[Figure]:
    """Yield accuracy of a recipe's runs against cost, and where unsure pairs are left out."""
    runs = [run for run in runs_of(recipe, results) if not isinstance(run, Absent)]
    titles = [one_line(title, 90) for title in run_titles(runs)]
    drawn = cost_figure(runs, titles), abstention_figure(runs, titles)
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
