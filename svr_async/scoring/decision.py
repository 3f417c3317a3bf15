"""A decision on one pair: margin, preferred side, contributions; in the order of the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from svr_async.core.pair import Order, Side
from svr_async.core.verdict import Contribution, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a method said about one presentation or, averaged, about one pair.

    `margin` is positive for response A; it is None unless the outcome is `scored` or `tie`.
    `shown` is the order that the judge saw; `contributions` add up to the margin for the methods that sum rubrics.
    `reason` is what a judge that was asked directly wrote ahead of its verdict, of A and B in the order shown.
    `scores` are those of A and of B, where each response has a score that does not depend on the other.
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


def settled(margin: float) -> float:
    """Return a margin as it is kept: nine digits, never −0, so that what adds up to nothing is a tie, not 1e-17."""
    return round(margin, 9) + 0.0


def average(decisions: Sequence[Decision]) -> Decision:
    """Average the margins of both orders (data order); where one was not scored, the pair is not scored."""
    first, second = decisions
    requests = first.requests + second.requests
    if first.margin is None or second.margin is None:
        return replace(first if first.margin is None else second, requests=requests)
    margin = settled((first.margin + second.margin) / 2)
    return replace(
        first,
        margin=margin,
        outcome=Outcome.SCORED if margin else Outcome.TIE,
        contributions=halved(first).contributions + halved(second).contributions,
        requests=requests,
        flags=tuple(dict.fromkeys(first.flags + second.flags)),
    )


def halved(decision: Decision) -> Decision:
    """Return a decision whose contributions count half, for the mean of two."""
    return scaled(decision, 2)


def scaled(decision: Decision, share: int) -> Decision:
    """Return a decision whose contributions are divided by `share`, for the mean of so many."""
    parts = tuple(replace(part, weight=part.weight / share) for part in decision.contributions)
    return replace(decision, contributions=parts)
