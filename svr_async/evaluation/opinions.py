"""Opinions: what one judge, or several together, made of one pair, in the data set's order of A and B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from svr_async.core.pair import PreferencePair
from svr_async.core.verdict import Outcome
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Decider


def nothing_guessed(_: Decision, /) -> bool:
    """Say of every decision that it is none that was made up."""
    return False


class Guess(Protocol):
    """Says whether a decision rests on replies that are only made up, as in a dry run."""

    def __call__(self, decision: Decision, /) -> bool:
        """Whether the decision is a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One pair to be judged by a method; `guessed` tells which decisions are only made up."""

    pair: PreferencePair
    method: Decider
    guessed: Guess = nothing_guessed


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one judge said of one pair, by itself: `part` is `jury`, `first` or `escalation`.

    `contributions` are by rubric id, of this judge alone; with two orders, those of their mean.
    """

    judge: str
    part: str
    order: str
    outcome: str
    margin: float | None
    predicted: str | None
    contributions: Mapping[str, float] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rubrics that one judge judged in one order, with the weights that they have in the whole."""

    judge: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """A decision in data order, with how it came about.

    `order` is `ab`, `ba`, `both`, or `mixed` where judges differ; `margins` are by order shown; `rows` add up to the
    margin for methods that add up rubrics; `judge` names who decided.
    """

    decision: Decision
    judge: str
    order: str
    margins: Mapping[str, float]
    rows: tuple[Rows, ...]
    votes: tuple[Vote, ...]
    guessed: bool = False

    @property
    def scored(self) -> bool:
        """Whether there is a verdict that is no tie."""
        return self.decision.outcome is Outcome.SCORED


def vote_of(judge: str, part: str, order: str, decision: Decision) -> Vote:
    """Return the vote of one judge."""
    preferred = decision.preferred
    sums: dict[str, float] = {}
    for entry in decision.contributions:
        sums[entry.rubric.id] = sums.get(entry.rubric.id, 0.0) + entry.value
    return Vote(
        judge=judge,
        part=part,
        order=order,
        outcome=decision.outcome.value,
        margin=decision.margin,
        predicted=None if preferred is None else preferred.value,
        contributions=sums,
        detail=decision.detail,
    )


def shared_margins(opinions: Sequence[Opinion]) -> dict[str, float]:
    """Return the mean margin of each order in which all of these judged."""
    orders = [order for order in opinions[0].margins if all(order in other.margins for other in opinions)]
    return {order: sum(one.margins[order] for one in opinions) / len(opinions) for order in orders}
