"""Scores have the intervals of their effective size; figures draw printed values next to ours."""

from __future__ import annotations

import pytest

from svr_async.core.statistics import Interval, newcombe_interval
from svr_async.reproduction.page import figures_of
from svr_async.reproduction.paper import load_recipes
from svr_async.reproduction.table import Cell, Column, PaperTable, Row, Score, effective_size, mean_of


def test_a_mean_over_strata_has_kishs_size() -> None:
    """Equal strata of equal weight add up; a heavy small stratum makes the mean less sure; a missing one ends it."""
    assert effective_size([(1.0, 50), (1.0, 50)]) == pytest.approx(100)
    assert effective_size([(9.0, 10), (1.0, 90)]) == pytest.approx(100 / (81 / 10 + 1 / 90))
    mean = mean_of([Score(value=0.5, effective=10), Score(value=1.0, effective=40)])
    assert mean is not None
    assert (mean.value, mean.effective) == pytest.approx((0.75, 32))
    assert mean_of([Score(value=0.5, effective=10), None]) is None


def test_newcombes_interval_is_that_of_his_paper() -> None:
    """Newcombe 1998, table II, method 10, contrast a: 56/70 less 48/80 gives 0.0524 to 0.3339."""
    found = newcombe_interval(56 / 70, 70, 48 / 80, 80)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_printed_values_are_drawn_next_to_ours() -> None:
    """A row that is absent keeps its printed value, ours has its interval, and the marks are the table's."""
    numbers = {"SVR": (80.0, 84.6), "Scalar RM": (None, 60.0), "nothing": (None, None)}
    rows = []
    for name, (ours, printed) in numbers.items():
        interval = None if ours is None else Interval(ours - 1, ours + 1)
        rows.append(Row(names=(name,), cells=(Cell(ours=ours, printed=printed, interval=interval),)))
    columns = (Column(name="Overall"),)
    recipe = next(one for one in load_recipes().tables if one.label == "fig:gap")
    table = PaperTable(recipe=recipe, columns=columns, rows=tuple(rows), marks=("SIMULATED",))
    (figure,) = figures_of([table])
    assert (figure.name, figure.marks) == ("gap", ("SIMULATED",))
    drawn, hollow = figure.panels[0].series
    assert (drawn.points, drawn.intervals[0]) == (((0.0, 80.0),), (79.0, 81.0))
    assert (hollow.hollow, hollow.points) == (True, ((0.0, 84.6), (1.0, 60.0)))
