"""A decision on one pair: margin, preferred side, contributions; how verdicts, orders and judges combine into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from svr_async.core.pair import Order, Presentation, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison
from svr_async.judges.protocol import Answer

WeightedRubrics = tuple[tuple[Rubric, float], ...]
INCOMPLETE = "jury_incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A method's decision on one presentation or, averaged, on one pair.

    `margin` is positive for response A; it is None unless the outcome is `scored` or `tie`.
    `shown` is the order that the judge saw; `contributions` add up to the margin for the methods that sum rubrics.
    `reason` is the text of a direct judge before its verdict, with A and B in the order shown.
    `scores` are those of A and B, if each response is scored alone.
    """

    margin: float | None
    outcome: Outcome
    contributions: tuple[Contribution, ...] = ()
    shown: Order = Order.AB
    detail: str = ""
    requests: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    reason: str = ""
    scores: tuple[float, float] | None = None

    @property
    def preferred(self) -> Side | None:
        """The side with the positive margin; None for a tie and for an item without a score."""
        if not self.margin:
            return None
        return Side.A if self.margin > 0 else Side.B

    def in_data_order(self) -> Decision:
        """Return the decision with A and B as the data set lists them."""
        if self.shown is Order.AB or self.margin is None:
            return self
        swapped = tuple(entry.swapped() for entry in self.contributions)
        scores = self.scores and (self.scores[1], self.scores[0])
        return replace(self, margin=-self.margin if self.margin else 0.0, contributions=swapped, scores=scores)


def rounded(margin: float) -> float:
    """Round a margin to nine digits, without −0, so that a sum of 1e-17 is a tie."""
    return round(margin, 9) + 0.0


def scaled(decision: Decision, share: int) -> Decision:
    """Return a decision whose contributions are divided by `share`, for a mean of `share` decisions."""
    parts = tuple(replace(part, weight=part.weight / share) for part in decision.contributions)
    return replace(decision, contributions=parts)


def distinct(texts: Iterable[str]) -> tuple[Rubric, ...]:
    """Return rubrics of these texts, repeated texts once."""
    return tuple({rubric.id: rubric for rubric in (Rubric(text=text) for text in texts)}.values())


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


def decided(
    margin: float,
    shown: Presentation,
    parts: tuple[Contribution, ...] = (),
    requests: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
) -> Decision:
    """Return a decision with a margin: scored, or a tie at 0."""
    margin = rounded(margin)
    outcome = Outcome.SCORED if margin else Outcome.TIE
    return Decision(
        margin=margin, outcome=outcome, contributions=parts, shown=shown.order, requests=requests, flags=flags
    )


def undecided(answer: Answer[Any], shown: Presentation, requests: tuple[str, ...] = ()) -> Decision:
    """Return a decision without a margin, with the outcome that says why; `requests` came before the answer."""
    requests, order = requests + answer.requests, shown.order
    return Decision(
        margin=None, outcome=answer.outcome, shown=order, detail=answer.detail, requests=requests, flags=answer.flags
    )


class JuryRule(StrEnum):
    """`mean`: the mean of the margins; `majority`: votes for A less votes for B, as a share of the votes."""

    MEAN = "mean"
    MAJORITY = "majority"


def verdict(decisions: Sequence[Decision], rule: JuryRule) -> Decision:
    """Join the decisions of all judges of a jury.

    Judges without a verdict abstain, and a flag says so. Without a majority of verdicts the pair is not scored and has
    the outcome of the first judge that failed. With `mean` the contributions add up to the margin.
    """
    decided_by = [decision for decision in decisions if decision.margin is not None]
    requests = tuple(key for decision in decisions for key in decision.requests)
    if 2 * len(decided_by) <= len(decisions):
        failed = next(decision for decision in decisions if decision.margin is None)
        return replace(failed, requests=requests)
    margins = [decision.margin or 0.0 for decision in decided_by]
    votes = margins if rule is JuryRule.MEAN else [(margin > 0) - (margin < 0) for margin in margins]  # a tie votes 0
    margin = rounded(sum(votes) / len(votes))
    share = len(decided_by) if rule is JuryRule.MEAN else 1
    flags = dict.fromkeys(flag for decision in decisions for flag in decision.flags)
    if len(decided_by) < len(decisions):
        flags[INCOMPLETE] = None
    return replace(
        decided_by[0],
        margin=margin,
        outcome=Outcome.SCORED if margin else Outcome.TIE,
        contributions=tuple(part for decision in decided_by for part in scaled(decision, share).contributions),
        requests=requests,
        flags=tuple(flags),
        scores=None,
    )


def average(decisions: Sequence[Decision]) -> Decision:
    """Average the margins of both orders (data order); if one was not scored, the pair is not scored."""
    found = verdict(decisions, JuryRule.MEAN)
    return found if found.margin is None else replace(found, scores=decisions[0].scores)
