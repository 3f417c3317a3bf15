"""SVR and the human rubrics, pair by pair: who is right, in all and by source."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.core.statistics import Interval, PairedCounts, mcnemar_exact, paired_counts
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import p_value, signed
from svr_async.reproduction.printed import Printed
from svr_async.reproduction.recipes import Recipe
from svr_async.reproduction.runner import Absent, Runner
from svr_async.reproduction.scores import Score
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable, Row
from svr_async.reproduction.tables.accuracy import cell_of, judged, paired_marks, runs_of, table_of

FEWEST = 6  # differing pairs from which McNemar's test can be below 0.05
OUTCOMES = ("Both correct", "SVR-only correct", "Oracle-only correct", "Both wrong")


def overlap(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return the four counts of two runs, each with its share of the pairs that both judged."""
    own, runs = printed.table(recipe.label), runs_of(recipe, runner)
    counts = paired_counts(*paired_marks(*runs))
    judge, why = _judges(runs)
    rows, notes = [], []
    for name, count in zip(OUTCOMES, (counts.both, counts.only_first, counts.only_second, counts.neither), strict=True):
        share = Score(value=count / counts.n, effective=counts.n) if counts.n else None
        first = Cell(ours=count if counts.n else None, printed=own.number((name,), "Count"))
        rows.append(
            Row(names=(name,), cells=(first, cell_of(share, own.number((name,), "%"))), judged=judge, absent=why)
        )
    if counts.n:
        p = p_value(mcnemar_exact(counts.only_first, counts.only_second))
        ahead = signed(counts.only_first - counts.only_second, 0)
        notes.append(f"SVR less the human rubrics: {ahead} of {counts.n:,} pairs, McNemar's exact p {p}.")
    return table_of(recipe, (Column(name="Count", unit="count"), Column(name="%")), rows, runs, notes)


def _judges(runs: Sequence[Run | Absent]) -> tuple[str, str]:
    """Return the judges of runs, and why some are absent."""
    who = dict.fromkeys(judged(run) for run in runs if not isinstance(run, Absent))
    why = dict.fromkeys(run.why for run in runs if isinstance(run, Absent))
    return ("", "; ".join(why)) if why else ("; ".join(who), "")


def net(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return by source how many pairs more SVR has right than the human rubrics, with an interval."""
    own, runs = printed.table(recipe.label), runs_of(recipe, runner)
    names = {row.names[0].casefold(): row.names[0] for row in own.rows}
    sources = _by_source(*runs)
    judge, why = _judges(runs)
    rows = []
    for source in [*names, *sorted(set(sources) - set(names))]:
        name = names.get(source, source)
        value = own.number((name,), "Net") if source in names else None
        absent = why or ("" if source in sources else "no pair of this source")
        cells = _net_cells(sources[source], value) if source in sources else (Cell(printed=value), *[EMPTY] * 3)
        rows.append(Row(names=(name,), cells=cells, judged="" if absent else judge, absent=absent))
    columns = (
        Column(name="Net", unit="points", digits=0), Column(name="Pairs", unit="count"),
        Column(name="Only SVR", unit="count"), Column(name="Only oracle", unit="count"),
    )  # fmt: skip
    note = f"95 % interval: ± 1.96 √(only SVR + only oracle); below {FEWEST} such pairs nothing is marked."
    return table_of(recipe, columns, rows, runs, [note])


def _by_source(first: Run | Absent, second: Run | Absent) -> dict[str, PairedCounts]:
    if isinstance(first, Absent) or isinstance(second, Absent):
        return {}
    other = {item.id: item.correct is True for item in second.items if item.correct is not None}
    marks: dict[str, list[tuple[bool, bool]]] = {}
    for item in first.items:
        if item.correct is not None and item.id in other:
            source = (item.subset or item.domain).casefold()
            marks.setdefault(source, []).append((item.correct is True, other[item.id]))
    return {name: paired_counts([a for a, _ in held], [b for _, b in held]) for name, held in marks.items()}


def _net_cells(counts: PairedCounts, printed: float | None) -> tuple[Cell, ...]:
    apart = counts.only_first + counts.only_second
    found, room = counts.only_first - counts.only_second, 1.96 * apart**0.5
    enough = printed is not None and apart >= FEWEST
    differs = not found - room <= printed <= found + room if enough and printed is not None else None
    first = Cell(ours=found, printed=printed, interval=Interval(found - room, found + room), differs=differs)
    return first, Cell(ours=counts.n), Cell(ours=counts.only_first), Cell(ours=counts.only_second)
