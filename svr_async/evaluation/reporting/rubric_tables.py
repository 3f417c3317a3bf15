"""The rubrics that decide, as tables: the best net effects and the worst, each with what its columns mean below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from svr_async.evaluation import wording
from svr_async.evaluation.labels import run_titles
from svr_async.evaluation.reporting.table import Table
from svr_async.evaluation.rubric_effects import RubricEffect, RubricEffects, Tally, by_domain, rubric_effects
from svr_async.evaluation.runfolder import Run

BEST, WORST = 8, 5
FEWEST = 2  # pairs; a rubric that was used on one alone is that pair's own
ROOM_FOR_COUNTS, ROOM_FOR_GROUPS = 100, 140  # columns of a terminal
MOST_GROUPS = 6
WHAT_IT_MEANS = (
    "Used: pairs on which the judge gave a verdict on the rubric. Right: of those on which it leaned to one response, "
    "how often to the right one."
)
WHAT_NET_MEANS = (
    "Net: pairs that are right with the rubric and not without it (saved), less those that are right without it only "
    "(errors caused). It is left out by striking what it contributed; the other rubrics stay as they are, and a tie is "
    "not right."
)
BEYOND = "*: more than chance at 5 %, with Holm’s adjustment for testing every rubric."


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """Rubrics for a page or a table: the best, the worst, and the others between them."""

    best: tuple[RubricEffect, ...]
    worst: tuple[RubricEffect, ...]
    others: tuple[RubricEffect, ...]


def effects_of(runs: Sequence[Run]) -> RubricEffects:
    """Return what the rubrics did, by domain for one run, by run for several."""
    if len(runs) == 1:
        return rubric_effects(by_domain(runs[0].items))
    return rubric_effects({title: run.items for title, run in zip(run_titles(runs), runs, strict=True)})


def deciding(found: RubricEffects, best: int = BEST, worst: int = WORST) -> Deciding:
    """Choose the rubrics to show first; those used on one pair alone are in none of the parts."""
    known = [one for one in found.rubrics if one.total.used >= FEWEST]
    last = [one for one in known[best:] if _harmful(one, found)][-worst:] if worst else []
    first = known[:best]
    shown = {one.id for one in (*first, *last)}
    return Deciding(best=tuple(first), worst=tuple(last), others=tuple(one for one in known if one.id not in shown))


def _harmful(one: RubricEffect, found: RubricEffects) -> bool:
    return one.total.net < 0 if found.summed else 2 * one.total.right < one.total.leaned


def rubric_tables(
    found: RubricEffects, caption: str, *, width: int | None = None, best: int = BEST, worst: int = WORST
) -> Iterator[Table]:
    """Yield the table of the rubrics that decide, for a file or a terminal of so many columns; none without rubrics."""
    chosen = deciding(found, best, worst)
    if not chosen.best:
        return
    counts = found.summed and (width is None or width >= ROOM_FOR_COUNTS)
    groups = _groups(found, width)
    heads = ("rubric", "used", "right", *(("net",) if found.summed else ()), *(("saved", "errors") if counts else ()))
    rows = (*chosen.best, *chosen.worst)
    yield Table(
        caption=f"{caption}: {len(rows)} of {wording.plural(len(found.rubrics), 'rubric')}"
        + (", the best net effect first" if found.summed else ", the oftenest right first"),
        heads=(*heads, *groups),
        rows=tuple(_row(one, groups, found, counts=counts) for one in rows),
        notes=tuple(notes_of(found)),
    )


def _groups(found: RubricEffects, width: int | None) -> tuple[str, ...]:
    few = 1 < len(found.groups) <= MOST_GROUPS
    return found.groups if few and (width is None or width >= ROOM_FOR_GROUPS) else ()


def _row(one: RubricEffect, groups: Sequence[str], found: RubricEffects, *, counts: bool) -> tuple[str, ...]:
    total = one.total
    effect = (f"{net_in_words(total)}{'*' if one.beyond_chance else ''}",) if found.summed else ()
    more = (wording.count(total.saved), wording.count(len(total.errors))) if counts else ()
    cells = (_by_group(one.groups.get(name), summed=found.summed) for name in groups)
    return (one.text, wording.count(total.used), wording.percent(total.accuracy), *effect, *more, *cells)


def _by_group(tally: Tally | None, *, summed: bool) -> str:
    if tally is None:
        return wording.UNKNOWN
    return net_in_words(tally) if summed else wording.percent(tally.accuracy)


def net_in_words(tally: Tally) -> str:
    """Return a net effect with its sign."""
    return wording.signed(tally.net, 0)


def notes_of(found: RubricEffects) -> Iterator[str]:
    """Yield what the columns mean, and what cannot be told."""
    yield WHAT_IT_MEANS
    yield f"{WHAT_NET_MEANS} {BEYOND}" if found.summed else no_net(found)
    if found.summed and found.unsummed:
        yield (
            f"On {wording.plural(found.unsummed, 'pair')} of {wording.count(found.n)} the margin is no sum of "
            "rubrics; they are in no net effect."
        )


def no_net(found: RubricEffects) -> str:
    """Say why there are no net effects."""
    return (
        f"No net effect can be told: on {wording.count(found.unsummed)} of {wording.plural(found.n, 'pair')} the judge "
        "named the winner itself, so that no decision follows from the rubrics alone."
    )
