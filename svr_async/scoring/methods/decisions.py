"""From what a judge answered to a decision: contributions, margins, and outcomes without a margin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from svr_async.core.pair import Presentation, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.scoring.decision import Decision, settled
from svr_async.scoring.methods.contract import WeightedRubrics


def equally_weighted(texts: Sequence[str]) -> WeightedRubrics:
    """Return rubrics of these texts with weight 1, repeated texts once."""
    return tuple((rubric, 1.0) for rubric in {r.id: r for r in (Rubric(text=text) for text in texts)}.values())


def by_text(weighted: Iterable[tuple[str, float]]) -> WeightedRubrics:
    """Return rubrics of these texts with their weights, those of a repeated text added up."""
    sums: dict[str, tuple[Rubric, float]] = {}
    for text, weight in weighted:
        rubric = Rubric(text=text)
        sums[rubric.id] = rubric, sums.get(rubric.id, (rubric, 0.0))[1] + weight
    return tuple(sums.values())


def identity_of(weighted: WeightedRubrics) -> dict[str, Any]:
    """Return what of a list of rubrics can change an item: texts and weights."""
    return {"rubrics": [[rubric.text, weight] for rubric, weight in weighted]}


def contributions(
    weighted: WeightedRubrics, rows: Sequence[RubricComparison], *, by_points: bool = False
) -> tuple[Contribution, ...]:
    """Join rubrics, weights and verdicts; rubrics without a verdict stay, and contribute nothing."""
    by_id = {row.rubric_id: row for row in rows}
    return tuple(
        Contribution(rubric=rubric, comparison=by_id.get(rubric.id), weight=weight, by_points=by_points)
        for rubric, weight in weighted
    )


def total(parts: Sequence[Contribution]) -> float:
    """Return the margin that contributions add up to."""
    return sum(part.value for part in parts)


def by_preference(
    answer: Answer[Comparisons], shown: Presentation, weighted: WeightedRubrics, requests: tuple[str, ...]
) -> Decision:
    """Decide by the judge's overall preference; a judge that has none decides by the mean of its verdicts."""
    if answer.value is None:
        return undecided(answer, shown, requests)
    share = 1.0 / max(1, len(weighted))
    parts = contributions(tuple((rubric, weight * share) for rubric, weight in weighted), answer.value.rows)
    preferred = answer.value.preferred
    margin = total(parts) if preferred is None else (1.0 if preferred is Side.A else -1.0)
    return decided(margin, shown, parts, requests + answer.requests, answer.flags)


def summed(answer: Answer[Comparisons], shown: Presentation, weighted: WeightedRubrics, *, by_points: bool) -> Decision:
    """Decide by Σ weight · Δ; with `by_points` by Σ points · satisfied of A less that of B."""
    if answer.value is None:
        return undecided(answer, shown)
    parts = contributions(weighted, answer.value.rows, by_points=by_points)
    return decided(total(parts), shown, parts, answer.requests, answer.flags)


def decided(
    margin: float,
    shown: Presentation,
    parts: tuple[Contribution, ...],
    requests: tuple[str, ...],
    flags: tuple[str, ...],
) -> Decision:
    """Return a decision with a margin: scored, or a tie at 0."""
    margin = settled(margin)
    outcome = Outcome.SCORED if margin else Outcome.TIE
    return Decision(
        margin=margin, outcome=outcome, contributions=parts, shown=shown.order, requests=requests, flags=flags
    )


def undecided(answer: Answer[Any], shown: Presentation, requests: tuple[str, ...] = ()) -> Decision:
    """Return a decision without a margin, with the outcome that says why."""
    return Decision(
        margin=None,
        outcome=answer.outcome,
        shown=shown.order,
        detail=answer.detail,
        requests=requests + answer.requests,
        flags=answer.flags,
    )
