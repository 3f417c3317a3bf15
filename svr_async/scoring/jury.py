"""Juries: how the decisions of several judges on one pair become one. All in the data set's order of A and B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from svr_async.core.verdict import Outcome
from svr_async.scoring.decision import Decision, scaled, settled

INCOMPLETE = "jury_incomplete"


class JuryRule(StrEnum):
    """`mean`: the mean of the margins; `majority`: votes for A less votes for B, as a share of the votes."""

    MEAN = "mean"
    MAJORITY = "majority"


def verdict(decisions: Sequence[Decision], rule: JuryRule) -> Decision:
    """Join the decisions of all judges of a jury.

    Judges without a verdict abstain, which a flag says; where not more than half of the jury has one, the pair is not
    scored and has the outcome of the first judge that failed. With `mean` the contributions add up to the margin.
    """
    heard = [decision for decision in decisions if decision.margin is not None]
    requests = tuple(key for decision in decisions for key in decision.requests)
    if 2 * len(heard) <= len(decisions):
        failed = next(decision for decision in decisions if decision.margin is None)
        return replace(failed, requests=requests)
    margin = margin_of([decision.margin or 0.0 for decision in heard], rule)
    share = len(heard) if rule is JuryRule.MEAN else 1
    flags = dict.fromkeys(flag for decision in decisions for flag in decision.flags)
    if len(heard) < len(decisions):
        flags[INCOMPLETE] = None
    return replace(
        heard[0],
        margin=margin,
        outcome=Outcome.SCORED if margin else Outcome.TIE,
        contributions=tuple(part for decision in heard for part in scaled(decision, share).contributions),
        requests=requests,
        flags=tuple(flags),
        scores=None,
    )


def margin_of(margins: Sequence[float], rule: JuryRule) -> float:
    """Return the margin of a jury from those of its judges; ties count in the number of votes, for neither side."""
    if rule is JuryRule.MEAN:
        return settled(sum(margins) / len(margins))
    return settled((sum(margin > 0 for margin in margins) - sum(margin < 0 for margin in margins)) / len(margins))
