"""SVR beside the human rubrics, pair by pair: who is right where, by source, and one case of each kind."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.statistics import Interval, PairedCounts, mcnemar_exact, paired_counts
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, judged, pairs_of, runs_of
from svr_async.reproduction.scores import Score
from svr_async.reproduction.table import Cell, Column, Row, Table
from svr_async.reproduction.tables.accuracy import cell_of, paired_marks, table_of

MOST_CHARS = 600
SHOWN_RUBRICS = 3
FEWEST = 6  # pairs that differ, from which on McNemar's test can be below 0.05
OUTCOMES = ("Both correct", "SVR-only correct", "Oracle-only correct", "Both wrong")


def two_runs(recipe: Recipe, results: Results) -> tuple[Run, Run] | Absent:
    """Return both runs of a recipe, or why one of them is absent."""
    found = runs_of(recipe, results)
    absent = [run.why for run in found if isinstance(run, Absent)]
    if absent:
        return Absent(why="; ".join(dict.fromkeys(absent)))
    first, second = (run for run in found if not isinstance(run, Absent))
    return first, second


def overlap(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return the four counts of two runs, each with its share of the pairs that both judged."""
    own, runs = printed.table(recipe.label), two_runs(recipe, results)
    columns = (Column(name="Count", unit="count"), Column(name="%"))
    if isinstance(runs, Absent):
        return table_of(recipe, columns, [_printed_row(own, name, columns, runs.why) for name in OUTCOMES], [])
    table = paired_counts(*paired_marks(*runs))
    counts = (table.both, table.only_first, table.only_second, table.neither)
    rows = []
    for name, count in zip(OUTCOMES, counts, strict=True):
        share = Score(value=count / table.n, effective=table.n) if table.n else None
        cells = (Cell(ours=count, printed=own.number((name,), "Count")), cell_of(share, own.number((name,), "%")))
        rows.append(Row(names=(name,), cells=cells, judged=_both(runs)))
    return table_of(recipe, columns, rows, runs, (_test(table),))


def _both(runs: Sequence[Run]) -> str:
    return "; ".join(dict.fromkeys(map(judged, runs)))


def _printed_row(own: PrintedTable, name: str, columns: Sequence[Column], why: str) -> Row:
    return Row(names=(name,), cells=tuple(Cell(printed=own.number((name,), one.name)) for one in columns), absent=why)


def _test(table: PairedCounts) -> str:
    p = wording.p_value(mcnemar_exact(table.only_first, table.only_second))
    ahead = wording.signed(table.only_first - table.only_second, 0)
    return f"SVR less the human rubrics: {ahead} of {table.n:,} pairs, McNemar's exact p {p}."


def net(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return by source how many pairs more SVR has right than the human rubrics, with an interval of that count."""
    own, runs = printed.table(recipe.label), two_runs(recipe, results)
    columns = (
        Column(name="Net", unit="points", digits=0), Column(name="Pairs", unit="count"),
        Column(name="Only SVR", unit="count"), Column(name="Only oracle", unit="count"),
    )  # fmt: skip
    names = {row.names[0].casefold(): row.names[0] for row in own.rows}
    if isinstance(runs, Absent):
        rows = [
            Row(names=row.names, cells=(Cell(printed=own.number(row.names, "Net")), *[Cell()] * 3), absent=runs.why)
            for row in own.rows
        ]
        return table_of(recipe, columns, rows, [])
    by_source = _by_source(*runs)
    order = [*names, *sorted(set(by_source) - set(names))]
    rows = [
        _net_row(names.get(source, source), by_source.get(source), own if source in names else None, _both(runs))
        for source in order
    ]
    note = (
        "The interval is of the net count: ± 1.96 √(only SVR + only oracle), the pairs on which they differ; fewer "
        f"than {FEWEST} of them tell nothing apart."
    )
    return table_of(recipe, columns, rows, runs, (note,))


def _by_source(first: Run, second: Run) -> dict[str, PairedCounts]:
    other = {item.id: item for item in second.items if item.correct is not None}
    marks: dict[str, list[tuple[bool, bool]]] = {}
    for item in first.items:
        if item.correct is not None and item.id in other:
            pair = item.correct is True, other[item.id].correct is True
            marks.setdefault((item.subset or item.domain).casefold(), []).append(pair)
    return {name: paired_counts([a for a, _ in held], [b for _, b in held]) for name, held in marks.items()}


def _net_row(name: str, counts: PairedCounts | None, own: PrintedTable | None, judge: str) -> Row:
    printed = None if own is None else own.number((name,), "Net")
    if counts is None:
        return Row(names=(name,), cells=(Cell(printed=printed), *[Cell()] * 3), absent="no pair of this source")
    found, room = counts.only_first - counts.only_second, 1.96 * (counts.only_first + counts.only_second) ** 0.5
    enough = printed is not None and counts.only_first + counts.only_second >= FEWEST
    differs = not found - room <= printed <= found + room if enough and printed is not None else None
    cells = (
        Cell(ours=found, printed=printed, interval=Interval(found - room, found + room), differs=differs),
        Cell(ours=counts.n), Cell(ours=counts.only_first), Cell(ours=counts.only_second),
    )  # fmt: skip
    return Row(names=(name,), cells=cells, judged=judge)


def case(recipe: Recipe, printed: Printed, results: Results) -> Table:  # noqa: ARG001  (cases have texts alone)
    """Return a pair that only SVR has right and one that only the oracle has, chosen by a rule that is stated."""
    columns = (
        Column(name="Pair", unit="text"), Column(name="Prompt", unit="text"), Column(name="Response A", unit="text"),
        Column(name="Response B", unit="text"), Column(name="SVR", unit="text"), Column(name="Oracle", unit="text"),
    )  # fmt: skip
    runs, names = two_runs(recipe, results), ("SVR-only correct", "Oracle-only correct")
    if isinstance(runs, Absent):
        empty = (Cell(),) * len(columns)
        return table_of(recipe, columns, [Row(names=(name,), cells=empty, absent=runs.why) for name in names], [])
    pairs, rows = pairs_of(runs[0]), []
    for name, first_right in zip(names, (True, False), strict=True):
        found = chosen_case(*runs, first_right=first_right)
        texts = () if found is None else _case_texts(pairs[found[0].id], *found)
        cells = tuple(Cell(text=text) for text in texts) or (Cell(),) * len(columns)
        why = "" if found else "no such pair"
        rows.append(Row(names=(name,), cells=cells, judged=_both(runs), absent=why))
    note = (
        "Of the pairs that only one of the two has right: the one with the largest |margin| of SVR, of equals the "
        "first by its id."
    )
    return table_of(recipe, columns, rows, runs, (note,))


def chosen_case(first: Run, second: Run, *, first_right: bool) -> tuple[Item, Item] | None:
    """Return the items of the pair with the largest |margin| of the first run, of those that one alone has right."""
    other = {item.id: item for item in second.items if item.correct is not None}
    found = [
        (item, other[item.id])
        for item in first.items
        if item.correct is first_right and item.id in other and other[item.id].correct is not first_right
    ]
    return min(found, key=lambda pair: (-abs(pair[0].margin or 0.0), pair[0].id), default=None)


def _case_texts(pair: PreferencePair, svr: Item, oracle: Item) -> tuple[str, ...]:
    a, b = pair.response_a, pair.response_b
    return (
        f"{pair.id}\n{pair.subset or pair.domain}\nchosen: {svr.gold}",
        _short(prompt_text(pair.prompt)),
        f"({len(a):,} characters)\n{_short(a)}",
        f"({len(b):,} characters)\n{_short(b)}",
        _said(svr),
        _said(oracle),
    )


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS].rstrip()} …"


def _said(item: Item) -> str:
    """Return a verdict with the rubrics that moved it most; sums of both orders where it was judged both ways."""
    sums: dict[str, float] = {}
    for row in item.rubrics:
        sums[row.text] = sums.get(row.text, 0.0) + row.contribution
    largest = sorted(sums.items(), key=lambda entry: (-abs(entry[1]), entry[0]))[:SHOWN_RUBRICS]
    rubrics = [f"{wording.signed(value)} {text}" for text, value in largest]
    verdict = f"says {item.predicted or 'neither'}, margin {wording.signed(item.margin)}"
    return "\n".join([f"{verdict} ({'right' if item.correct else 'wrong'})", *rubrics])
