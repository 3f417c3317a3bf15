"""What a page shows of the rubrics that decide: plain values, nothing escaped yet."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.evaluation.rubric_effects import RubricEffect, RubricEffects
from svr_async.reports.rubric_tables import deciding, notes_of

MOST_FOLDED = 100
MOST_ERRORS = 12  # ids listed of a rubric


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricsView:
    """The rubrics with the best and the worst net effect, these first, and the others, which are folded up.

    `summed` is whether net effects can be told; `group` names what the numbers are also told by; `untold` counts
    rubrics that were used on one pair alone or are beyond those a page holds.
    """

    best: tuple[RubricEffect, ...]
    worst: tuple[RubricEffect, ...]
    others: tuple[RubricEffect, ...]
    group: str
    summed: bool
    notes: tuple[str, ...]
    untold: int


def view_effects(found: RubricEffects, group: str) -> RubricsView | None:
    """Choose what a page shows of effects that are told by a `group`; None where no rubric was used on two pairs."""
    chosen = deciding(found)
    if not chosen.best:
        return None
    others = chosen.others[:MOST_FOLDED]
    return RubricsView(
        best=chosen.best,
        worst=chosen.worst[::-1],
        others=others,
        group=group,
        summed=found.summed,
        notes=tuple(notes_of(found)),
        untold=len(found.rubrics) - len(chosen.best) - len(chosen.worst) - len(others),
    )
