"""Accuracy on RubricBench: by domain, overall, under ablation, by number of rubrics, under several judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from svr_async.core.statistics import Interval, paired_difference_interval
from svr_async.evaluation.items import Item, RubricRow
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipes import Recipe, RecipeRow
from svr_async.reproduction.runner import Absent, Runner
from svr_async.reproduction.scores import Score, mean_of, share
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable, Row
from svr_async.scoring.decision import rounded

OVERALL = "Overall"
DOMAINS = {"Chat": "CHAT", "IF": "IF", "STEM": "STEM", "Code": "CODE", "Safety": "SAFETY"}
KS = (1, 2, 4, 6, 8, 10, 12)


def judged(run: Run) -> str:
    """Return the judge of a run with its marks and, if verdicts are missing, how many pairs are scored."""
    words = "".join(f" [{word}]" for word in run.summary.mark_words if word not in run.judge_label.upper())
    whole = run.metrics.get("coverage") in (None, 1.0)
    lack = "" if whole else f"; {run.metrics['n_scored']:,} of {run.metrics['n_total']:,} scored"
    return f"{run.judge_label}{words}{lack}"


def runs_of(recipe: Recipe, runner: Runner) -> list[Run | Absent]:
    """Return the first run of each row of a recipe."""
    return [runner.run(next(iter(row.runs.values()))) for row in recipe.rows]


def table_of(
    recipe: Recipe,
    columns: Sequence[Column],
    rows: Iterable[Row],
    runs: Iterable[Run | Absent],
    notes: Iterable[str] = (),
) -> PaperTable:
    """Return a table under a recipe's label and title, with the marks of its runs."""
    marks = dict.fromkeys(word for run in runs if not isinstance(run, Absent) for word in run.summary.mark_words)
    return PaperTable(
        label=recipe.label,
        title=recipe.title,
        heads=recipe.heads,
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(*recipe.notes, *filter(None, notes)),
        marks=tuple(marks),
    )


def row_of(row: RecipeRow, run: Run | Absent, cells: Sequence[Cell]) -> Row:
    """Return a row with its judge, or why it is absent."""
    if isinstance(run, Absent):
        return Row(names=row.names, cells=tuple(cells), absent=run.why, group=row.group)
    return Row(names=row.names, cells=tuple(cells), judged=judged(run), group=row.group)


def cell_of(score: Score | None, printed: float | None = None) -> Cell:
    """Return a cell in percent, marked if the printed number differs from ours by more than chance."""
    if score is None:
        return Cell(printed=printed)
    low, high = score.interval
    differs = None if printed is None else score.differs_from(printed / 100)
    return Cell(ours=100 * score.value, printed=printed, interval=Interval(100 * low, 100 * high), differs=differs)


def _accuracy(run: Run | Absent, column: str = OVERALL) -> Score | None:
    if isinstance(run, Absent):
        return None
    items = [item for item in run.items if column == OVERALL or item.domain == DOMAINS[column]]
    return share([item.correct is True for item in items if item.correct is not None])


def by_domain(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a method: accuracy in each domain and over all pairs."""
    return _by_row(recipe, printed, runner, (*DOMAINS, OVERALL))


def overall(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a method: accuracy over all pairs."""
    return _by_row(recipe, printed, runner, (OVERALL,))


def _by_row(recipe: Recipe, printed: Printed, runner: Runner, names: Sequence[str]) -> PaperTable:
    own, runs = printed.table("tab:rubricbench"), runs_of(recipe, runner)
    rows = [
        row_of(row, run, [cell_of(_accuracy(run, name), own.number(row.names, name)) for name in names])
        for row, run in zip(recipe.rows, runs, strict=True)
    ]
    return table_of(recipe, [Column(name=name, ranked=True) for name in names], rows, runs)


def ablation(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return accuracy a variant, and its difference to the first row on the same pairs."""
    own, runs = printed.table(recipe.label), runs_of(recipe, runner)
    columns = (Column(name="Accuracy", ranked=True), Column(name="Delta", unit="points"))
    rows = []
    for place, (row, run) in enumerate(zip(recipe.rows, runs, strict=True)):
        accuracy = cell_of(_accuracy(run), own.number(row.names, "Accuracy"))
        delta = _difference(runs[0], run, own.number(row.names, "Delta")) if place else EMPTY
        rows.append(row_of(row, run, [accuracy, delta]))
    note = "Differences are paired: ours less the first row's, with a bootstrap interval over pairs."
    return table_of(recipe, columns, rows, runs, [note])


def _difference(first: Run | Absent, second: Run | Absent, printed: float | None) -> Cell:
    """Return the paired difference of two runs in points."""
    before, after = paired_marks(first, second)
    if not before:
        return Cell(printed=printed)
    low, high = (100 * end for end in paired_difference_interval(before, after))
    return Cell(
        ours=100 * (sum(after) - sum(before)) / len(before),
        printed=printed,
        interval=Interval(low, high),
        differs=None if printed is None else not low <= printed <= high,
    )


def paired_marks(first: Run | Absent, second: Run | Absent) -> tuple[list[bool], list[bool]]:
    """Return whether each of two runs is right on the pairs that both judged; empty if one is absent."""
    if isinstance(first, Absent) or isinstance(second, Absent):
        return [], []
    other = {item.id: item.correct for item in second.items if item.correct is not None}
    shared = [item for item in first.items if item.correct is not None and item.id in other]
    return [item.correct is True for item in shared], [other[item.id] is True for item in shared]


def transfer(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a judge, a column a method, and the average over the judges."""
    own, names = printed.table(recipe.label), tuple(recipe.rows[0].runs)
    grid = [[runner.run(run) for run in row.runs.values()] for row in recipe.rows]
    rows = []
    for row, runs in zip(recipe.rows, grid, strict=True):
        cells = [cell_of(_accuracy(run), own.number(row.names, name)) for run, name in zip(runs, names, strict=True)]
        who = dict.fromkeys(judged(run) for run in runs if not isinstance(run, Absent))
        why = dict.fromkeys(run.why for run in runs if isinstance(run, Absent))
        rows.append(Row(names=row.names, cells=tuple(cells), judged="; ".join(who), absent="; ".join(why)))
    rows.append(_average(own, names, grid))
    columns = [Column(name=name) for name in names]
    return table_of(recipe, columns, rows, [run for runs in grid for run in runs])


def _average(own: PrintedTable, names: Sequence[str], grid: Sequence[Sequence[Run | Absent]]) -> Row:
    """Return the mean over the judges; a column without one of them has none."""
    cells = [
        cell_of(mean_of([_accuracy(runs[place]) for runs in grid]), own.number(("Average",), name))
        for place, name in enumerate(names)
    ]
    missing = any(cell.ours is None for cell in cells)
    return Row(names=("Average",), cells=tuple(cells), absent="a judge of the column is absent" if missing else "")


def topk(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return accuracy for each number of rubrics k, from one judging of twelve."""
    (run,) = runs_of(recipe, runner)
    numbers = printed.text[recipe.label]
    columns = (Column(name="Accuracy", ranked=True, digits=2), Column(name="Rubrics", unit="number", digits=2))
    rows = [row_of(RecipeRow(names=(f"{k}",), runs={}), run, _cells_at(run, k, numbers.get(f"at_{k}"))) for k in KS]
    found = [row.cells[0].ours for row in rows if row.cells[0].ours is not None]
    band = f"Ours are within {max(found) - min(found):.2f} points; printed: {numbers['band']}." if found else ""
    note = (
        "Rubrics are chosen one after another, so the first k of twelve are the choice for k. "
        "Below k = 12 they were judged in one call with the rest."
    )
    return table_of(recipe, columns, rows, [run], [note, band])


def _cells_at(run: Run | Absent, k: int, printed: float | None) -> list[Cell]:
    if isinstance(run, Absent):
        return [Cell(printed=printed), EMPTY]
    items = [item for item in run.items if item.correct is not None]
    mean = fsum(len(_first_rows(item, k)) for item in items) / max(1, len(items))
    return [cell_of(share([_right_at(item, k) for item in items]), printed), Cell(ours=mean)]


def _first_rows(item: Item, k: int) -> Sequence[RubricRow]:
    """Return the first k rubrics of the order that decided."""
    shown = item.rubrics[0].shown if item.rubrics else ""
    return [row for row in item.rubrics if row.shown == shown][:k]


def _right_at(item: Item, k: int) -> bool:
    """Whether the first k rubrics decide a pair rightly; ties and missing verdicts are wrong."""
    if item.outcome not in {"scored", "tie"}:
        return False
    margin = rounded(fsum(row.contribution for row in _first_rows(item, k)))
    return margin != 0 and item.gold == ("A" if margin > 0 else "B")
