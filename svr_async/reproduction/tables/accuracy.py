"""Tables of accuracy on RubricBench: by domain, overall, under ablation, and of one bank under several judges."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.core.statistics import Interval, mcnemar_exact, paired_counts, paired_difference_interval
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipe import Recipe, RecipeRow
from svr_async.reproduction.results import Absent, Results, judged, marks_of, runs_of
from svr_async.reproduction.scores import Part, Score, evenly, mean_of, scored
from svr_async.reproduction.table import EMPTY, Cell, Column, Row, Table

OVERALL = "Overall"
SIGNIFICANT = 0.05
DOMAINS = {"Chat": "CHAT", "IF": "IF", "STEM": "STEM", "Code": "CODE", "Safety": "SAFETY"}


def by_domain(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row a method: accuracy in each of RubricBench's domains, and over all pairs."""
    columns = (*(Column(name=name, ranked=True) for name in DOMAINS), Column(name=OVERALL, ranked=True))
    return _by_row(recipe, columns, printed.table("tab:rubricbench"), results)


def overall(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row a method, with the accuracy over all pairs alone."""
    return _by_row(recipe, (Column(name=OVERALL, ranked=True),), printed.table("tab:rubricbench"), results)


def _by_row(recipe: Recipe, columns: tuple[Column, ...], printed: PrintedTable, results: Results) -> Table:
    runs = runs_of(recipe, results)
    rows = []
    for row, run in zip(recipe.rows, runs, strict=True):
        cells = [cell_of(_score(run, column.name), printed.number(row.names, column.name)) for column in columns]
        rows.append(row_of(row, run, cells))
    return table_of(recipe, columns, rows, runs)


def _score(run: Run | Absent, column: str) -> Score | None:
    return None if isinstance(run, Absent) else scored(parts_of(run.items, DOMAINS.get(column, "")))


def parts_of(items: Sequence[Item], domain: str = "") -> list[Part]:
    """Return the parts of the strict accuracy over all items with a right answer, or over those of a domain."""
    held = [item for item in items if item.correct is not None and (not domain or item.domain == domain)]
    return evenly(("", item.id, float(item.correct is True)) for item in held)


def cell_of(score: Score | None, printed: float | None) -> Cell:
    """Return a cell in percent, marked where the printed number is told apart from ours."""
    if score is None:
        return Cell(printed=printed)
    low, high = score.interval
    return Cell(
        ours=100 * score.value,
        printed=printed,
        interval=Interval(100 * low, 100 * high),
        differs=None if printed is None else score.differs_from(printed / 100),
    )


def row_of(row: RecipeRow, run: Run | Absent, cells: Sequence[Cell]) -> Row:
    """Return a row of a recipe with who judged it, or why nobody did."""
    absent = run.why if isinstance(run, Absent) else ""
    judge = "" if isinstance(run, Absent) else judged(run)
    return Row(names=row.names, cells=tuple(cells), judged=judge, absent=absent, group=row.group)


def table_of(
    recipe: Recipe,
    columns: tuple[Column, ...],
    rows: Sequence[Row],
    runs: Sequence[Run | Absent],
    notes: Sequence[str] = (),
) -> Table:
    """Return a table under a recipe's label and title, with the marks of its runs."""
    return Table(
        label=recipe.label,
        title=recipe.title,
        heads=recipe.heads,
        columns=columns,
        rows=tuple(rows),
        notes=(*recipe.notes, *notes),
        marks=marks_of([run for run in runs if not isinstance(run, Absent)]),
    )


def ablation(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return accuracy a variant, and how far it is from the first row, on the same pairs (McNemar)."""
    own, runs = printed.table(recipe.label), runs_of(recipe, results)
    columns = (Column(name="Accuracy", ranked=True), Column(name="Delta", unit="points"))
    rows = []
    for place, (row, run) in enumerate(zip(recipe.rows, runs, strict=True)):
        cells = [cell_of(_score(run, OVERALL), own.number(row.names, "Accuracy"))]
        delta = own.number(row.names, "Delta")
        cells.append(_difference(runs[0], run, delta) if place else EMPTY)
        rows.append(row_of(row, run, cells))
    note = "Differences are paired: the interval draws pairs, and is of ours less the first row's."
    return table_of(recipe, columns, rows, runs, (note,))


def _difference(first: Run | Absent, second: Run | Absent, printed: float | None) -> Cell:
    """Return the paired difference of two runs in points, marked where the printed one lies outside its interval."""
    if isinstance(first, Absent) or isinstance(second, Absent):
        return Cell(printed=printed)
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


def paired_marks(first: Run, second: Run) -> tuple[list[bool], list[bool]]:
    """Return whether each of two runs is right on the pairs that both judged, in the order of the first."""
    other = {item.id: item.correct for item in second.items if item.correct is not None}
    shared = [item for item in first.items if item.correct is not None and item.id in other]
    return [item.correct is True for item in shared], [other[item.id] is True for item in shared]


def transfer(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row a judge with a column a method, and the average over the judges of each column."""
    own, names = printed.table(recipe.label), tuple(recipe.rows[0].runs)
    columns = tuple(Column(name=name) for name in names)
    rows, every = [], [[results.run(run) for run in row.runs.values()] for row in recipe.rows]
    for row, runs in zip(recipe.rows, every, strict=True):
        named = zip(runs, names, strict=True)
        cells = [cell_of(_score(run, OVERALL), own.number(row.names, name)) for run, name in named]
        present = [run for run in runs if not isinstance(run, Absent)]
        why = dict.fromkeys(run.why for run in runs if isinstance(run, Absent))
        judge = "; ".join(dict.fromkeys(map(judged, present)))
        rows.append(Row(names=row.names, cells=tuple(cells), judged=judge, absent="; ".join(why)))
    rows.append(_average(own, names, every))
    notes = tuple(_better(row.names[0], runs) for row, runs in zip(recipe.rows, every, strict=True))
    return table_of(recipe, columns, rows, [run for runs in every for run in runs], tuple(filter(None, notes)))


def _average(own: PrintedTable, names: Sequence[str], every: Sequence[Sequence[Run | Absent]]) -> Row:
    """Return the plain mean over the judges; absent for a column that lacks one of them."""
    cells = []
    for place, name in enumerate(names):
        runs = [row[place] for row in every]
        parts = [parts_of(run.items) for run in runs if not isinstance(run, Absent)]
        whole = scored(mean_of(parts)) if len(parts) == len(runs) else None
        cells.append(cell_of(whole, own.number(("Average",), name)))
    missing = any(cell.ours is None for cell in cells)
    return Row(names=("Average",), cells=tuple(cells), absent="a judge of the column is absent" if missing else "")


def _better(judge: str, runs: Sequence[Run | Absent]) -> str:
    """Say whether the last run of a judge is better than each other one, by McNemar's exact test."""
    *others, last = runs
    if isinstance(last, Absent):
        return ""
    told = []
    for run in others:
        if not isinstance(run, Absent):
            table = paired_counts(*paired_marks(run, last))
            p = mcnemar_exact(table.only_first, table.only_second)
            told.append(f"{run.metrics['method']} {table.only_first}:{table.only_second}, p {_words(p)}")
    return f"{judge}, pairs that only the other and only SVR has right: {'; '.join(told)}." if told else ""


def _words(p: float) -> str:
    from svr_async.evaluation.wording import p_value

    return p_value(p)
