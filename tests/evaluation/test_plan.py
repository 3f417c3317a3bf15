"""Judging plans: which judges are asked about which pair, the decision, and its record in the item."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from rig import pairs
from stand_ins import UnaskedJudge

from svr_async.core.pair import HumanRubrics, Order, Presentation
from svr_async.core.verdict import Outcome
from svr_async.engine.request import CONTINGENT
from svr_async.evaluation.items import item_from
from svr_async.evaluation.plan import (
    ESCALATED,
    ESCALATION_FAILED,
    Escalated,
    JudgeAssignment,
    Jury,
    OrderPolicy,
    Orders,
    PairDecision,
)
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, JuryRule, decided
from svr_async.scoring.methods.registry import Facts

PAIR = pairs(1)[0]


@dataclass
class Says(UnaskedJudge):
    """A judge with a margin for each order (in data order), or an outcome; `asked` are the orders it was asked in."""

    ab: float | Outcome
    ba: float | Outcome | None = None
    asked: list[str] = field(default_factory=list)
    contingent: list[bool] = field(default_factory=list)
    name = label = "says"


class Ask:
    """A method that asks `Says`."""

    name = "ask"
    facts = Facts()

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        assert isinstance(judge, Says)
        judge.asked.append(shown.order.value)
        judge.contingent.append(CONTINGENT.get())
        said = judge.ab if shown.order is Order.AB or judge.ba is None else judge.ba
        key = f"{id(judge)}-{shown.order.value}"
        if isinstance(said, Outcome):
            return Decision(margin=None, outcome=said, shown=shown.order, requests=(key,))
        return decided(said if shown.order is Order.AB else -said, shown, (), (key,), ())


def assignment(
    judge: Says,
    *,
    policy: OrderPolicy = OrderPolicy.AB,
    below: float | None = None,
    name: str = "one",
    part: str = "first",
) -> JudgeAssignment:
    """Return a judge in its assignment."""
    return JudgeAssignment(
        judge=judge, orders=Orders(policy=policy, audit=0.0, audit_below=below), name=name, part=part
    )


async def opinion_of(
    plan: JudgeAssignment | Jury | Escalated, guessed: Callable[..., bool] = lambda _: False
) -> PairDecision:
    """Decide the pair."""
    return await plan.decide(PAIR, Ask(), guessed)


# --- both orders where it is close ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "below", "margin", "order"),
    [
        (0.2, 0.6, 0.3, 0.4, "both"), (-0.2, 0.6, 0.3, 0.2, "both"), (0.3, -9.0, 0.3, 0.3, "one"),
        (0.0, 0.5, 0.1, 0.25, "both"), (5.0, -1.0, math.inf, 2.0, "both"),
    ],
)  # fmt: skip
async def test_the_second_order_is_asked_only_where_the_first_margin_is_small(
    first: float, second: float, below: float, margin: float, order: str
) -> None:
    """Below the margin both orders are averaged; from it on, the first decides and no other is asked."""
    plan = Orders(policy=OrderPolicy.BOTH, audit_below=below)
    shown_first = plan.orders(PAIR)[0]
    judge = Says(first, second) if shown_first is Order.AB else Says(second, first)
    found = await opinion_of(assignment(judge, policy=OrderPolicy.BOTH, below=below))
    assert found.decision.margin == pytest.approx(margin)
    assert found.order == ("both" if order == "both" else shown_first.value)
    assert len(judge.asked) == len(found.decision.requests) == (2 if order == "both" else 1)


# --- juries -----------------------------------------------------------------------------------------------------------


async def test_a_jury_joins_its_judges_and_each_keeps_its_vote() -> None:
    """The mean of three margins; the item has all votes and requests, and says who decided."""
    members = tuple(
        assignment(Says(margin), name=name, part="jury") for name, margin in (("x", 1.0), ("y", -0.5), ("z", 0.1))
    )
    item = item_from(PAIR, await opinion_of(Jury(members)), alone=False)
    assert item.margin == 0.2
    assert [(vote.judge, vote.part, vote.predicted, vote.margin) for vote in item.votes] == [
        ("x", "jury", "A", 1.0), ("y", "jury", "B", -0.5), ("z", "jury", "A", 0.1)
    ]  # fmt: skip
    assert (item.judge, len(item.requests), item.order, item.margins) == ("x,y,z", 3, "ab", {"ab": 0.2})
    by_votes = await opinion_of(Jury(members, JuryRule.MAJORITY))
    assert by_votes.decision.margin == pytest.approx(1 / 3)


# --- escalation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "asks"),
    [(0.2, True), (-0.29, True), (0.3, False), (0.0, True), (Outcome.API_ERROR, True), (Outcome.INVALID_INPUT, False)],
)
async def test_the_second_judge_is_asked_where_the_first_is_unsure(first: float | Outcome, asks: bool) -> None:
    """A small margin, a tie, a missing verdict; not a margin at the threshold, nor a pair that cannot be judged."""
    cheap, dear = Says(first), Says(-2.0)
    plan = Escalated(first=assignment(cheap), then=assignment(dear, name="two", part="escalation"), below=0.3)
    item = item_from(PAIR, await opinion_of(plan), alone=False)
    assert bool(dear.asked) is asks
    assert [vote.judge for vote in item.votes] == (["one", "two"] if asks else ["one"])
    assert len(item.requests) == 1 + asks
    assert (item.judge, ESCALATED in item.flags) == (("two", True) if asks else ("one", False))
    assert item.margin == (-2.0 if asks else None if isinstance(first, Outcome) else first)


async def test_where_the_second_judge_fails_the_first_one_stands() -> None:
    """A verdict that is there is not lost to a failure of the other judge; a flag says what happened."""
    plan = Escalated(first=assignment(Says(0.1)), then=assignment(Says(Outcome.TRUNCATED), name="two"), below=0.3)
    item = item_from(PAIR, await opinion_of(plan), alone=False)
    assert (item.margin, item.judge, item.flags) == (0.1, "one", (ESCALATION_FAILED,))
    assert [vote.outcome for vote in item.votes] == ["scored", "truncated"]
    neither = Escalated(first=assignment(Says(Outcome.REFUSAL)), then=assignment(Says(Outcome.TRUNCATED)), below=0.3)
    assert (await opinion_of(neither)).decision.outcome is Outcome.TRUNCATED


# --- guesses ----------------------------------------------------------------------------------------------------------


async def test_in_a_dry_run_what_depends_on_a_guess_is_asked_and_marked() -> None:
    """Where the first margin is made up, the worst case is asked and marked as such; margins that are known decide."""
    first, second = Says(9.0), Says(9.0)
    plan = Escalated(
        first=assignment(first, policy=OrderPolicy.BOTH, below=0.1),
        then=assignment(second, policy=OrderPolicy.BOTH),
        below=0.1,
    )
    await opinion_of(plan, guessed=lambda _: True)
    assert first.contingent == [False, True]
    assert second.contingent == [True, True]
    assert CONTINGENT.get() is False
    await opinion_of(plan)
    assert (len(first.asked), len(second.asked)) == (3, 2)


# --- in a run ---------------------------------------------------------------------------------------------------------
