"""A comparison as tables: the runs side by side, each paired test with its four cells, net advantage by a column."""

from __future__ import annotations

from collections.abc import Iterator

from svr_async.core.table import Table
from svr_async.evaluation import wording
from svr_async.evaluation.reporting.compare import HOLM, Comparison, Duel, PairedTest, RunSummary
from svr_async.evaluation.wording import EVEN, against_chance

COLUMNS = "points: second less first. only 1st:2nd: pairs that only the first has right, and only the second."
WIDE = 100  # columns that all numbers of a paired test need; narrower terminals show the main ones


def comparison_tables(found: Comparison, width: int) -> Iterator[Table]:
    """Yield the tables of a comparison for a terminal of so many columns."""
    rows = tuple(
        (
            f"{run.title}{''.join(f' [{word}]' for word in run.marks)}",
            wording.count(run.n_total),
            wording.percent(run.accuracy),
            wording.interval(run.ci95),
            wording.percent(run.coverage),
        )
        for run in found.runs
    )
    below = tuple(f"{run.title}: {told}" for run in found.runs if (told := _below(run)))
    yield Table(caption="", heads=("run", "pairs", "accuracy", "95 % interval", "coverage"), rows=rows, notes=below)
    for place, duel in enumerate(found.duels):
        yield _tests(duel, wide=width >= WIDE, told=place == 0)
        yield _cells(duel)


def _below(run: RunSummary) -> str:
    """Say of a run with fewer right than wrong whether chance may have done it."""
    return against_chance({"accuracy": run.accuracy}, run.ci95) if (run.accuracy or 1.0) < EVEN else ""


def _tests(duel: Duel, *, wide: bool, told: bool) -> Table:
    """Lay out the tests of a run against the first; `told` has what the columns mean below."""
    heads = ("pairs", "first", "second", "points", *(("95 % interval", "only 1st:2nd", "p") if wide else ()), "p Holm")
    named = (("all shared pairs", duel.overall), *duel.domains.items())
    return Table(
        caption=f"first: {duel.first}, second: {duel.second}",
        heads=("domain", *heads),
        rows=tuple(_test(name, test, wide=wide) for name, test in named),
        notes=(*_noise(duel.overall), *((COLUMNS,) if wide and told else ()), *((HOLM,) if told else ())),
    )


def _test(name: str, test: PairedTest, *, wide: bool) -> tuple[str, ...]:
    more = (
        f"{wording.points(test.ci95.low)} to {wording.points(test.ci95.high)}",
        f"{test.only_first}:{test.only_second}",
        wording.p_value(test.p),
    )
    return (
        name,
        wording.count(test.n),
        wording.percent(test.accuracy_first),
        wording.percent(test.accuracy_second),
        wording.points(test.difference),
        *(more if wide else ()),
        wording.p_value(test.p_holm),
    )


def _noise(test: PairedTest) -> Iterator[str]:
    if test.noise is not None:
        found, apart = test.noise, wording.count(test.noise.asked_apart)
        yield (
            f"The judge's own noise makes about {found.expected_discordant:.0f} of {apart} pairs that were asked apart "
            f"differ; {test.only_first + test.only_second} differ. Intervals reach {100 * found.half_width:.1f} points "
            "either way at least."
        )


def _cells(duel: Duel) -> Table:
    test = duel.overall
    named = (
        ("both right", test.both),
        ("only first right", test.only_first),
        ("only second right", test.only_second),
        ("neither right", test.neither),
    )
    rows = tuple((name, wording.count(count), wording.percent(count / test.n)) for name, count in named)
    return Table(caption="", heads=("shared pairs", "count", "share"), rows=rows, notes=(duel.verdict,))
