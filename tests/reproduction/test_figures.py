"""The paper's figures from rebuilt tables: which tables have one, and that printed values are drawn next to ours."""

from __future__ import annotations

from svr_async.core.statistics import Interval
from svr_async.reports.drawing import Figure
from svr_async.reproduction.figures import figures_of
from svr_async.reproduction.recipes import load_recipes
from svr_async.reproduction.table import Cell, Column, PaperTable, Row


def rows(*values: tuple[str, float | None, float | None]) -> tuple[Row, ...]:
    """Return rows with ours and printed in the only column; an interval of two points around ours."""
    return tuple(
        Row(
            names=(name,),
            cells=(Cell(ours=ours, printed=printed, interval=None if ours is None else Interval(ours - 1, ours + 1)),),
        )
        for name, ours, printed in values
    )


def figure_of(label: str, held: tuple[Row, ...], *columns: str) -> list[Figure]:
    """Return the figures of a table under the label of a recipe that ships."""
    recipe = next(one for one in load_recipes().tables if one.label == label)
    named = tuple(Column(name=name) for name in columns or ("Overall",))
    table = PaperTable(label=label, title="A table", heads=("Name",), columns=named, rows=held, marks=("SIMULATED",))
    return list(figures_of([recipe], [table]))


def test_printed_values_stand_beside_ours() -> None:
    """A row that is absent keeps its printed value, ours has its interval, and the marks are the table's."""
    (figure,) = figure_of("fig:gap", rows(("SVR", 80.0, 84.6), ("Scalar RM", None, 60.0), ("nothing", None, None)))
    assert (figure.name, figure.marks) == ("gap", ("SIMULATED",))
    ours, printed = figure.panels[0].series
    assert (ours.points, ours.intervals[0]) == (((0.0, 80.0),), (79.0, 81.0))
    assert (printed.hollow, printed.points) == (True, ((0.0, 84.6), (1.0, 60.0)))
