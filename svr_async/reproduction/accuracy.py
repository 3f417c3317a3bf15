"""Tables of accuracy: by domain, ablation, judges, number of rubrics, pair by pair, and the three other benchmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum

from svr_async.adapters.rewardbench import WEIGHTS
from svr_async.core.statistics import (
    Interval,
    PairedCounts,
    mcnemar_exact,
    paired_counts,
    paired_difference_interval,
)
from svr_async.evaluation.items import Item, RubricRow
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import p_value, signed
from svr_async.reproduction.paper import Printed, Recipe
from svr_async.reproduction.runner import Absent, Runner
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable, Row, Score, effective_size, mean_of, share
from svr_async.scoring.decision import rounded

MAIN = "tab:rubricbench"
OVERALL = "Overall"
DOMAINS = {"Chat": "CHAT", "IF": "IF", "STEM": "STEM", "Code": "CODE", "Safety": "SAFETY"}
KS = (1, 2, 4, 6, 8, 10, 12)
FEWEST = 6  # differing pairs from which McNemar's test can be below 0.05
OUTCOMES = ("Both correct", "SVR-only correct", "Oracle-only correct", "Both wrong")
Runs = Sequence[Run | Absent]


def judged(run: Run) -> str:
    """Return the judge of a run with its marks and, if verdicts are missing, how many pairs are scored."""
    words = "".join(f" [{word}]" for word in run.summary.mark_words if word not in run.judge_label.upper())
    whole = run.metrics.get("coverage") in (None, 1.0)
    lack = "" if whole else f"; {run.metrics['n_scored']:,} of {run.metrics['n_total']:,} scored"
    return f"{run.judge_label}{words}{lack}"


def row_of(names: tuple[str, ...], runs: Runs, cells: Iterable[Cell], group: str = "") -> Row:
    """Return a row with the judges of its runs, and why some are absent, each once."""
    who = dict.fromkeys(judged(run) for run in runs if isinstance(run, Run))
    why = dict.fromkeys(run.why for run in runs if isinstance(run, Absent))
    return Row(names=names, cells=tuple(cells), judged="; ".join(who), absent="; ".join(why), group=group)


def table_of(
    recipe: Recipe, columns: Sequence[Column], rows: Iterable[Row], runs: Runs, notes: Iterable[str] = ()
) -> PaperTable:
    """Return the table of a recipe, with the marks of its runs."""
    marks = dict.fromkeys(word for run in runs if isinstance(run, Run) for word in run.summary.mark_words)
    said = tuple(filter(None, notes))
    return PaperTable(recipe=recipe, columns=tuple(columns), rows=tuple(rows), notes=said, marks=tuple(marks))


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


def accuracies(recipe: Recipe, printed: Printed, runner: Runner, names: Sequence[str]) -> PaperTable:
    """Return a row a method: accuracy in each named domain, or over all pairs."""
    own, runs = printed.table(MAIN), runner.runs_of(recipe)
    rows = []
    for row, run in zip(recipe.rows, runs, strict=True):
        cells = [cell_of(_accuracy(run, name), own.number(row.names, name)) for name in names]
        rows.append(row_of(row.names, [run], cells, row.group))
    return table_of(recipe, [Column(name=name) for name in names], rows, runs)


def ablation(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return accuracy a variant, and its difference to the first row on the same pairs."""
    own, runs = printed.table(recipe.label), runner.runs_of(recipe)
    rows = []
    for place, (row, run) in enumerate(zip(recipe.rows, runs, strict=True)):
        accuracy = cell_of(_accuracy(run), own.number(row.names, "Accuracy"))
        delta = _difference(runs[0], run, own.number(row.names, "Delta")) if place else EMPTY
        rows.append(row_of(row.names, [run], [accuracy, delta]))
    columns = (Column(name="Accuracy"), Column(name="Delta", unit="points"))
    note = "Differences are paired: ours less the first row's, with a bootstrap interval over pairs."
    return table_of(recipe, columns, rows, runs, [note])


def _difference(first: Run | Absent, second: Run | Absent, printed: float | None) -> Cell:
    """Return the paired difference of two runs in points."""
    before, after = _paired_marks(first, second)
    if not before:
        return Cell(printed=printed)
    low, high = (100 * end for end in paired_difference_interval(before, after))
    differs = None if printed is None else not low <= printed <= high
    ours = 100 * (sum(after) - sum(before)) / len(before)
    return Cell(ours=ours, printed=printed, interval=Interval(low, high), differs=differs)


def _paired_marks(first: Run | Absent, second: Run | Absent, source: str = "") -> tuple[list[bool], list[bool]]:
    """Return whether each of two runs is right on the pairs (of a source) that both judged; empty if one is absent."""
    if isinstance(first, Absent) or isinstance(second, Absent):
        return [], []
    other = {item.id: item.correct for item in second.items if item.correct is not None}
    shared = [item for item in first.items if item.correct is not None and item.id in other]
    shared = [item for item in shared if source in ("", _source(item))]
    return [item.correct is True for item in shared], [other[item.id] is True for item in shared]


def transfer(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a judge, a column a method, and the average over the judges."""
    own, names = printed.table(recipe.label), tuple(recipe.rows[0].runs)
    grid = [[runner.run(run) for run in row.runs.values()] for row in recipe.rows]
    rows = []
    for row, runs in zip(recipe.rows, grid, strict=True):
        numbers = [own.number(row.names, name) for name in names]
        rows.append(row_of(row.names, runs, map(cell_of, map(_accuracy, runs), numbers)))
    means = [mean_of([_accuracy(run) for run in column]) for column in zip(*grid, strict=True)]
    cells = [cell_of(mean, own.number(("Average",), name)) for mean, name in zip(means, names, strict=True)]
    absent = [Absent(why="a judge of the column is absent")] if None in means else []
    rows.append(row_of(("Average",), absent, cells))
    return table_of(recipe, [Column(name=name) for name in names], rows, [run for runs in grid for run in runs])


# --- by the number of rubrics -----------------------------------------------------------------------------------------


def topk(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return accuracy for each number of rubrics k, from one judging of twelve."""
    own, (run,) = printed.table(recipe.label), runner.runs_of(recipe)
    columns = (Column(name="Accuracy", digits=2), Column(name="Rubrics", unit="number", digits=2))
    items = [] if isinstance(run, Absent) else [item for item in run.items if item.correct is not None]
    rows = []
    for k in KS:
        accuracy = share([_right_at(item, k) for item in items])
        used = Cell(ours=fsum(len(_first_rows(item, k)) for item in items) / len(items)) if items else EMPTY
        rows.append(row_of((f"{k}",), [run], [cell_of(accuracy, own.number((f"{k}",), "Accuracy")), used]))
    found = [row.cells[0].ours for row in rows if row.cells[0].ours is not None]
    printed_band = printed.text[recipe.label]["band"]
    band = f"Ours are within {max(found) - min(found):.2f} points; printed: {printed_band}." if found else ""
    note = (
        "Rubrics are chosen one after another, so the first k of twelve are the choice for k. "
        "Below k = 12 they were judged in one call with the rest."
    )
    return table_of(recipe, columns, rows, [run], [note, band])


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


# --- SVR and the human rubrics, pair by pair --------------------------------------------------------------------------


def overlap(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return the four counts of two runs, each with its share of the pairs that both judged."""
    own, runs = printed.table(recipe.label), runner.runs_of(recipe)
    counts = paired_counts(*_paired_marks(runs[0], runs[1]))
    rows, notes = [], []
    for name, count in zip(OUTCOMES, (counts.both, counts.only_first, counts.only_second, counts.neither), strict=True):
        part = Score(value=count / counts.n, effective=counts.n) if counts.n else None
        first = Cell(ours=count if counts.n else None, printed=own.number((name,), "Count"))
        rows.append(row_of((name,), runs, [first, cell_of(part, own.number((name,), "%"))]))
    if counts.n:
        p = p_value(mcnemar_exact(counts.only_first, counts.only_second))
        ahead = signed(counts.only_first - counts.only_second, 0)
        notes.append(f"SVR less the human rubrics: {ahead} of {counts.n:,} pairs, McNemar's exact p {p}.")
    return table_of(recipe, (Column(name="Count", unit="count"), Column(name="%")), rows, runs, notes)


def net(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return by source how many pairs more SVR has right than the human rubrics, with an interval."""
    own, runs = printed.table(recipe.label), runner.runs_of(recipe)
    names = {row.names[0].casefold(): row.names[0] for row in own.rows}
    whole = all(isinstance(run, Run) for run in runs)
    found = {_source(item) for run in runs if isinstance(run, Run) for item in run.items}
    rows = []
    for source in [*names, *sorted(found - set(names))]:
        name = names.get(source, source)
        counts = paired_counts(*_paired_marks(runs[0], runs[1], source))
        judged_by = runs if counts.n or not whole else [Absent(why="no pair of this source")]
        rows.append(row_of((name,), judged_by, _net_cells(counts, own.number((name,), "Net"))))
    columns = (
        Column(name="Net", unit="points", digits=0), Column(name="Pairs", unit="count"),
        Column(name="Only SVR", unit="count"), Column(name="Only oracle", unit="count"),
    )  # fmt: skip
    note = f"95 % interval: ± 1.96 √(only SVR + only oracle); below {FEWEST} such pairs nothing is marked."
    return table_of(recipe, columns, rows, runs, [note])


def _source(item: Item) -> str:
    return (item.subset or item.domain).casefold()


def _net_cells(counts: PairedCounts, printed: float | None) -> list[Cell]:
    if not counts.n:
        return [Cell(printed=printed), EMPTY, EMPTY, EMPTY]
    apart = counts.only_first + counts.only_second
    found, room = counts.only_first - counts.only_second, 1.96 * apart**0.5
    differs = None if printed is None or apart < FEWEST else not found - room <= printed <= found + room
    first = Cell(ours=found, printed=printed, interval=Interval(found - room, found + room), differs=differs)
    return [first, Cell(ours=counts.n), Cell(ours=counts.only_first), Cell(ours=counts.only_second)]


# --- three benchmarks of reward models --------------------------------------------------------------------------------


TITLES = {"rewardbench": "RewardBench", "rewardbench2": "RewardBench 2", "rmbench": "RM-Bench"}
BENCH_COLUMNS = {  # printed name: benchmark, name there
    **{name: ("rewardbench", name) for name in ("Chat", "Chat Hard", "Reasoning", "Safety")},
    **{name: ("rewardbench2", name) for name in ("Factuality", "Precise IF", "Math")},
    "Safety 2": ("rewardbench2", "Safety"),
    "Focus": ("rewardbench2", "Focus"),
    **{level.capitalize(): ("rmbench", level) for level in ("easy", "normal", "hard")},
}
BENCH_NOTE = "Scores are the benchmarks' own; the pairs of one prompt count as one for the interval."


def benches(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a method over twelve columns of three benchmarks and their mean."""
    own = printed.table(recipe.label)
    grid = [{bench: runner.run(run) for bench, run in row.runs.items()} for row in recipe.rows]
    rows = []
    for row, runs in zip(recipe.rows, grid, strict=True):
        scores = {name: _bench_score(runs[bench], bench, place) for name, (bench, place) in BENCH_COLUMNS.items()}
        scores["Avg."] = mean_of(list(scores.values()))
        why: dict[str, list[str]] = {}
        for bench, run in runs.items():
            if isinstance(run, Absent):
                why.setdefault(run.why, []).append(TITLES[bench])
        named = [Absent(why=f"{', '.join(titles)}: {reason}") for reason, titles in why.items()]
        cells = [cell_of(score, own.number(row.names, name)) for name, score in scores.items()]
        rows.append(row_of(row.names, [*(run for run in runs.values() if isinstance(run, Run)), *named], cells))
    columns = [Column(name=name.removesuffix(" 2"), span=TITLES[bench]) for name, (bench, _) in BENCH_COLUMNS.items()]
    every = [run for runs in grid for run in runs.values()]
    return table_of(recipe, [*columns, Column(name="Avg.")], rows, every, [BENCH_NOTE])


def _bench_score(run: Run | Absent, bench: str, name: str) -> Score | None:
    """Return an official score: RewardBench weighs subsets, RewardBench 2 counts items, RM-Bench means over domains."""
    if isinstance(run, Absent):
        return None
    strata: list[tuple[float, int]]
    official, items = run.metrics["official"], [item for item in run.items if item.domain == name]
    if bench == "rewardbench":
        value, sizes = official["sections"].get(name), Counter(item.subset for item in items)
        strata = [(WEIGHTS[subset], size) for subset, size in sizes.items()]
    elif bench == "rewardbench2":
        value, strata = official["subsets"].get(name), [(1.0, len({item.item for item in items}))]
    else:
        value, sizes = (
            official.get(name),
            Counter(domain for domain, _ in {(one.domain, one.item) for one in run.items}),
        )
        strata = [(1.0, size) for size in sizes.values()]
    return None if value is None else Score(value=value, effective=effective_size(strata))
