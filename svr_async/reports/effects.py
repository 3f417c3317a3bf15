"""The rubrics that decide: what each rubric did in runs, as tables for files, terminals and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from svr_async.core.table import Table
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.rubric_effects import RubricEffect, RubricEffects, Tally, rubric_effects
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import summaries_of

if TYPE_CHECKING:
    from svr_async.scoring.bank import RubricBank

BEST, WORST = 8, 5
FEWEST = 2  # pairs; the effect of a rubric on a single pair is not listed
ROOM_FOR_COUNTS, ROOM_FOR_GROUPS = 100, 140  # columns of a terminal
MOST_GROUPS = 6
LONG = 12  # letters, for the head of a column
WHAT_IT_MEANS = (
    "Used: pairs on which the judge gave a verdict on the rubric. Right: how often it favoured the right response, of "
    "the pairs where it favoured one."
)
WHAT_NET_MEANS = (
    "Net: pairs that are right only with the rubric (saved) minus pairs that are right only without it (errors). "
    "A rubric is left out by removing its contribution; the other rubrics stay as they are."
)
BEYOND = "*: more than chance at 5 %, with Holm’s adjustment for testing every rubric."


def effects_of(runs: Sequence[Run]) -> RubricEffects:
    """Return what the rubrics did, by domain for one run, by run for several."""
    return runs[0].summary.effects if len(runs) == 1 else _effects_by_run(runs)


def _effects_by_run(runs: Sequence[Run]) -> RubricEffects:
    return rubric_effects({one.title: run.items for one, run in zip(summaries_of(runs), runs, strict=True)})


def bank_effects(bank: RubricBank, runs: Sequence[Run]) -> RubricEffects:
    """Return what the rubrics of a bank did, by run; UsageError for a run that judged no rubric of the bank."""
    known = {entry.id for entry in bank.rubrics}
    for run in runs:
        if not any(row.id in known for item in run.items for row in item.rubrics):
            raise UsageError(f"no rubric of the bank was judged in {run.path}", hint="name runs of svr eval --bank")
    found = _effects_by_run(runs)
    return replace(found, rubrics=tuple(one for one in found.rubrics if one.id in known))


def deciding(found: RubricEffects, best: int = BEST, worst: int = WORST) -> tuple[RubricEffect, ...]:
    """Return the best rubrics, then the worst harmful ones; those that were used on one pair only are left out."""
    known = [one for one in found.rubrics if one.total.used >= FEWEST]
    harmful = [
        one for one in known[best:] if (one.total.net < 0 if found.summed else 2 * one.total.right < one.total.leaned)
    ]
    return (*known[:best], *(harmful[-worst:] if worst else []))


def effects_tables(
    found: RubricEffects, caption: str, *, width: int | None = None, best: int = BEST, worst: int = WORST
) -> Iterator[Table]:
    """Yield the table of the rubrics that decide, for a file or a terminal of `width` columns; empty without any."""
    rows = deciding(found, best, worst)
    if not rows:
        return
    counts = found.summed and (width is None or width >= ROOM_FOR_COUNTS)
    groups = (
        found.groups if 1 < len(found.groups) <= MOST_GROUPS and (width is None or width >= ROOM_FOR_GROUPS) else ()
    )
    labels = groups
    if any(len(name) > LONG for name in groups):
        labels = tuple(f"{'net' if found.summed else 'right'} {place}" for place in range(1, len(groups) + 1))
    numbered = [f"{label}: {name}" for label, name in zip(labels, groups, strict=True) if label != name]
    heads = ("rubric", "used", "right", *(("net",) if found.summed else ()), *(("saved", "errors") if counts else ()))
    order = "the best net effect first" if found.summed else "those right on the most pairs first"
    yield Table(
        (*heads, *labels),
        [_row(one, groups, found, counts=counts, whole=width is None) for one in rows],
        caption=f"{caption}: {len(rows)} of {wording.plural(len(found.rubrics), 'rubric')}, {order}",
        notes=(*numbered, *notes_of(found)),
    )


def _row(
    one: RubricEffect, groups: Sequence[str], found: RubricEffects, *, counts: bool, whole: bool
) -> tuple[str, ...]:
    total = one.total
    right = wording.percent(total.accuracy) + (f" ({wording.interval(total.ci95)})" if whole and total.ci95 else "")
    effect = (f"{wording.signed(total.net, 0)}{'*' if one.beyond_chance else ''}",) if found.summed else ()
    more = (wording.count(total.saved), wording.count(len(total.errors))) if counts else ()
    cells = (_by_group(one.groups.get(name), summed=found.summed) for name in groups)
    return (one.text, wording.count(total.used), right, *effect, *more, *cells)


def _by_group(tally: Tally | None, *, summed: bool) -> str:
    if tally is None:
        return wording.UNKNOWN
    return wording.signed(tally.net, 0) if summed else wording.percent(tally.accuracy)


def notes_of(found: RubricEffects) -> Iterator[str]:
    """Yield what the columns mean, and which pairs have no net effect."""
    yield WHAT_IT_MEANS
    pairs = f"{wording.count(found.unsummed)} of {wording.plural(found.n, 'pair')}"
    if not found.summed:
        yield f"No net effect: on {pairs} the judge named the winner itself, and the rubrics alone decide nothing."
        return
    yield f"{WHAT_NET_MEANS} {BEYOND}"
    if found.unsummed:
        yield f"On {pairs} the judge named the winner itself; they are in no net effect."
