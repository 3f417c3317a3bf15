"""Comparisons as tables: the runs, each paired test, disagreements, and the drift of a judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from svr_async.core.table import Table
from svr_async.evaluation import wording
from svr_async.evaluation.compare import HOLM, Comparison, Disagreement, Drift, Duel, PairedTest
from svr_async.evaluation.summary import RunSummary
from svr_async.evaluation.wording import EVEN, against_chance

COLUMNS = "points: second − first. only first:second: pairs that only the first has right, and only the second."
WIDE = 100  # columns that all numbers of a test need; narrower terminals show the main ones
SHOWN_PAIRS, SHOWN_RUBRICS = 5, 20


def comparison_tables(found: Comparison, width: int) -> Iterator[Table]:
    """Yield the tables of a comparison for a terminal of `width` columns."""
    rows = tuple((*_run(run), wording.interval(run.ci95), wording.percent(run.coverage)) for run in found.runs)
    low = [run for run in found.runs if (run.accuracy or 1.0) < EVEN]  # more than half of the pairs wrong
    texts = ((run.title, against_chance({"accuracy": run.accuracy}, run.ci95)) for run in low)
    below = tuple(f"{title}: {text}" for title, text in texts if text)
    yield Table(caption="", heads=("run", "pairs", "accuracy", "95 % interval", "coverage"), rows=rows, notes=below)
    for duel, table in zip(found.duels, paired_tables(found, wide=width >= WIDE), strict=True):
        yield table
        if duel.lost or duel.won:
            yield _disagreements(duel)


def _run(run: RunSummary) -> tuple[str, str, str]:
    return run.marked_title, wording.count(run.n_total), wording.percent(run.accuracy)


def paired_tables(found: Comparison, *, wide: bool = True) -> Iterator[Table]:
    """Yield the paired tests of each later run against the first; the columns are explained once."""
    for place, duel in enumerate(found.duels):
        notes = (duel.verdict, *(COLUMNS,) * wide, HOLM) if place == 0 else (duel.verdict,)
        yield replace(paired_table(duel, wide=wide), caption=f"first: {duel.first}, second: {duel.second}", notes=notes)


def paired_table(duel: Duel, names: tuple[str, str] = ("first", "second"), *, wide: bool = True) -> Table:
    """Return the paired tests of two runs, over all pairs and by domain; `names` are the columns' titles."""
    more = ("95 % interval", f"only {names[0]}:{names[1]}", "p") if wide else ()
    heads = ("pairs", *names, "points", *more, "p Holm")
    named = (("all shared pairs", duel.overall), *(duel.domains.items() if len(duel.domains) > 1 else ()))
    return Table(("domain", *heads), tuple(_test(name, test, wide=wide) for name, test in named))


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


def _disagreements(duel: Duel) -> Table:
    rows = tuple(
        (one.id, one.domain, one.gold, *_verdicts(one), only)
        for only, part in (("first", duel.lost), ("second", duel.won))
        for one in part[:SHOWN_PAIRS]
    )
    return Table(
        caption=f"{wording.count(len(duel.lost))} pairs lost by the second, {len(duel.won):,} won",
        heads=("pair", "domain", "answer", "first", "second", "only right"),
        rows=rows,
        notes=("--json lists all of them",) if len(rows) < len(duel.lost) + len(duel.won) else (),
    )


def _verdicts(one: Disagreement) -> tuple[str, str]:
    """Return each run's verdict with its margin."""
    verdicts = ((one.first, one.first_margin), (one.second, one.second_margin))
    first, second = (
        verdict if margin is None else f"{verdict} {wording.signed(margin)}" for verdict, margin in verdicts
    )
    return first, second


def drift_tables(found: Drift, width: int) -> Iterator[Table]:
    """Yield a drift report for a terminal of `width` columns: runs, shifts, and the rubrics that flip most."""
    wide = width >= WIDE
    ends = ("95 % interval",) if wide else ()
    yield Table(caption="", heads=("run", "pairs", "accuracy"), rows=tuple(map(_run, found.runs)))
    rows = tuple(
        (
            one.run,
            wording.percent(one.flips),
            *((wording.interval(one.flips_ci95),) if wide else ()),
            wording.signed(one.margin_shift, 3),
        )
        for one in found.shifts
    )
    yield Table(caption="", heads=("against the first", "flips", *ends, "margin shift"), rows=rows)
    for one in found.shifts:
        if one.rubrics:
            shown = one.rubrics[:SHOWN_RUBRICS]
            yield Table(
                caption=f"{one.run}: rubrics that flip most, {len(shown)} of {len(one.rubrics)}",
                heads=("rubric", "pairs", "flips", "shift"),
                rows=tuple(
                    (row.text, wording.count(row.pairs), wording.percent(row.flips), wording.signed(row.shift))
                    for row in shown
                ),
            )
