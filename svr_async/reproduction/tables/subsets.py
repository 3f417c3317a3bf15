"""Accuracy by the subsets that a file itself has, for data of one's own: by domains, and over all of its pairs."""

from __future__ import annotations

from svr_async.reproduction.printed import Printed
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, runs_of
from svr_async.reproduction.scores import scored
from svr_async.reproduction.table import Column, Table
from svr_async.reproduction.tables.accuracy import cell_of, parts_of, row_of, table_of

ALL = "All pairs"


def subsets(recipe: Recipe, printed: Printed, results: Results) -> Table:  # noqa: ARG001  (nothing is printed of them)
    """Return a row a method: accuracy in each domain of the pairs, ties and missing verdicts wrong, and over all."""
    runs = runs_of(recipe, results)
    present = [run for run in runs if not isinstance(run, Absent)]
    domains = sorted({item.domain for run in present for item in run.items})
    columns = (*(Column(name=name, ranked=True) for name in domains), Column(name=ALL, ranked=True))
    rows = []
    for row, run in zip(recipe.rows, runs, strict=True):
        items = () if isinstance(run, Absent) else run.items
        rows.append(row_of(row, run, [cell_of(scored(parts_of(items, name)), None) for name in (*domains, "")]))
    return table_of(recipe, columns, rows, runs)
