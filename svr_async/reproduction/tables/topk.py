"""Accuracy by the number of rubrics, from one judging of twelve: a smaller choice is the beginning of a larger one.

`scoring.selection.select` takes rubrics one after another, so the first k of twelve are those that k alone would be.
Their verdicts were given beside the others in the same call, which a judge may be moved by; a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from svr_async.evaluation.items import Item, RubricRow
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, judged
from svr_async.reproduction.scores import evenly, scored
from svr_async.reproduction.table import Cell, Column, Row, Table
from svr_async.reproduction.tables.accuracy import cell_of, table_of
from svr_async.scoring.decision import rounded

KS = (1, 2, 4, 6, 8, 10, 12)
NOTE = (
    "One judging of twelve rubrics a pair serves every k: the first k of a choice are what k alone would choose, but "
    "below k = 12 they were judged in a call with the rest."
)


def first_rows(item: Item, k: int) -> Sequence[RubricRow]:
    """Return the first k rubrics of the order that decided, in the order of their choice."""
    shown = item.rubrics[0].shown if item.rubrics else ""
    return [row for row in item.rubrics if row.shown == shown][:k]


def right_at(item: Item, k: int) -> bool:
    """Whether the first k rubrics decide a pair rightly; a tie and a missing verdict are wrong."""
    if item.outcome not in {"scored", "tie"}:
        return False
    margin = rounded(fsum(row.contribution for row in first_rows(item, k)))
    return margin != 0 and item.gold == ("A" if margin > 0 else "B")


def topk(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row for each k: accuracy, and how many rubrics a pair had on the mean."""
    run = results.run(recipe.rows[0].run)
    columns = (Column(name="Accuracy", ranked=True, digits=2), Column(name="Rubrics", unit="number", digits=2))
    rows = [_row(run, k, _printed(printed, recipe.label, k)) for k in KS]
    if isinstance(run, Absent):
        return table_of(recipe, columns, rows, [])
    found = [row.cells[0].ours or 0.0 for row in rows]
    band = f"Ours lie within {max(found) - min(found):.2f} points; printed: {printed.number(recipe.label, 'band')}."
    return table_of(recipe, columns, rows, [run], (NOTE, band, *_short(run)))


def _printed(printed: Printed, label: str, k: int) -> float | None:
    held = {number.name: number.value for number in printed.numbers if number.label == label}
    return held.get(f"at_{k}")


def _row(run: Run | Absent, k: int, printed: float | None) -> Row:
    if isinstance(run, Absent):
        return Row(names=(f"{k}",), cells=(Cell(printed=printed), Cell()), absent=run.why)
    items = [item for item in run.items if item.correct is not None]
    score = scored(evenly(("", item.id, float(right_at(item, k))) for item in items))
    mean = fsum(len(first_rows(item, k)) for item in items) / max(1, len(items))
    return Row(names=(f"{k}",), cells=(cell_of(score, printed), Cell(ours=mean)), judged=judged(run))


def _short(run: Run) -> Iterator[str]:
    """Say where a bank fills no free places, so that a pair has fewer than k."""
    most = max(KS)
    if any(len(first_rows(item, most)) < most for item in run.items):
        yield "Where fewer rubrics are due than k, this bank leaves the other places empty."
