"""A judging plan: which judges see a pair, in which orders, and when another call is worth its price.

A plan is put together from three parts: a `Seat` is one judge in the orders of a policy, a `Jury` joins the opinions
of several seats, and `Escalated` asks another one where the first is unsure. Each decides a case and returns an
opinion, so they can stand in one another. What a plan does depends on margins alone, so its results are the same
whatever the concurrency or the order of completion.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from svr_async.core.pair import Order, present
from svr_async.core.verdict import Outcome
from svr_async.engine.request import CONTINGENT
from svr_async.evaluation.opinions import Case, Opinion, Rows, shared_margins, vote_of
from svr_async.evaluation.orders import OrderPolicy, Orders
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, average, halved, scaled
from svr_async.scoring.jury import JuryRule, verdict

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

ESCALATED = "escalated"
ESCALATION_FAILED = "escalation_failed"


class Plan(Protocol):
    """Something that decides pairs."""

    @property
    def name(self) -> str:
        """Who judges, in a few words."""

    def seats(self) -> tuple[Seat, ...]:
        """Return all judges that may be asked, each with its engine."""

    async def decide(self, case: Case) -> Opinion:
        """Return the opinion on one pair; SvrError for what ends the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One judge, asked in the orders of a policy. `engine` is None for a judge that sends nothing."""

    judge: Judge
    orders: Orders = field(default_factory=Orders)
    engine: CallEngine | None = None
    name: str = ""
    part: str = "first"

    def seats(self) -> tuple[Seat, ...]:
        """Return this one."""
        return (self,)

    async def decide(self, case: Case) -> Opinion:
        """Judge a pair in each order that the policy asks for; the first decides unless margins are averaged."""
        first, *rest = self.orders.orders(case.pair)
        shown = [await self._decide(case, first)]
        guessed = case.guessed(shown[0])
        if rest and (guessed or not self.orders.settled_by(shown[0].margin)):
            with contingent(guessed and self.orders.audit_below is not None):
                shown.append(await self._decide(case, rest[0]))
        return self._opinion(shown, any(case.guessed(decision) for decision in shown))

    async def _decide(self, case: Case, order: Order) -> Decision:
        decision = await case.method.decide(self.judge, present(case.pair, order), case.pair.human_rubrics)
        return decision.in_data_order()

    def _opinion(self, shown: list[Decision], guessed: bool) -> Opinion:
        both = self.orders.policy is OrderPolicy.BOTH and len(shown) > 1
        decision = average(shown) if both else shown[0]
        order = "both" if both else shown[0].shown.value
        counted = [halved(one) for one in shown] if both else shown[:1]
        return Opinion(
            decision=decision,
            judge=self.name,
            order=order,
            margins={one.shown.value: one.margin for one in shown if one.margin is not None},
            rows=tuple(Rows(judge=self.name, decision=one) for one in counted),
            votes=(vote_of(self.name, self.part, order, decision),),
            guessed=guessed,
        )


@dataclass(frozen=True, slots=True)
class Jury:
    """Several judges that all see every pair; the rule joins their margins."""

    members: tuple[Plan, ...]
    rule: JuryRule = JuryRule.MEAN

    @property
    def name(self) -> str:
        """All names."""
        return ",".join(member.name for member in self.members)

    def seats(self) -> tuple[Seat, ...]:
        """Return those of all members."""
        return tuple(seat for member in self.members for seat in member.seats())

    async def decide(self, case: Case) -> Opinion:
        """Hear all members, one after another, and join what they say."""
        opinions = [await member.decide(case) for member in self.members]
        heard = [opinion for opinion in opinions if opinion.decision.margin is not None]
        decision = verdict([opinion.decision for opinion in opinions], self.rule)
        orders = {opinion.order for opinion in opinions}
        return Opinion(
            decision=decision,
            judge=self.name,
            order=opinions[0].order if len(orders) == 1 else "mixed",
            margins=shared_margins(heard) if decision.margin is not None else {},
            rows=self._rows(heard) if decision.margin is not None else (),
            votes=tuple(vote for opinion in opinions for vote in opinion.votes),
            guessed=any(opinion.guessed for opinion in opinions),
        )

    def _rows(self, heard: list[Opinion]) -> tuple[Rows, ...]:
        """Return the rows of all members, each with its share of the whole where margins are averaged."""
        share = len(heard) if self.rule is JuryRule.MEAN else 1
        rows = [row for opinion in heard for row in opinion.rows]
        return tuple(replace(row, decision=scaled(row.decision, share)) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated:
    """A first plan, and a second one for the pairs on which the first is unsure.

    Unsure is a margin below `below`, a tie, or no verdict where another judge may have one. Where the second has no
    verdict either, the first one's stands.
    """

    first: Plan
    then: Plan
    below: float

    @property
    def name(self) -> str:
        """Who judges first, and who judges last."""
        return f"{self.first.name}→{self.then.name}"

    def seats(self) -> tuple[Seat, ...]:
        """Return those of both."""
        return (*self.first.seats(), *self.then.seats())

    async def decide(self, case: Case) -> Opinion:
        """Ask the first, and the second where that is not enough."""
        first = await self.first.decide(case)
        if not first.guessed and not self.unsure(first.decision):
            return first
        with contingent(first.guessed):
            second = await self.then.decide(case)
        votes = (*first.votes, *second.votes)
        requests = first.decision.requests + second.decision.requests
        if second.decision.margin is None and first.decision.margin is not None:
            flags = (*first.decision.flags, ESCALATION_FAILED)
            return replace(first, decision=replace(first.decision, requests=requests, flags=flags), votes=votes)
        flags = (*second.decision.flags, ESCALATED)
        decided = replace(second.decision, requests=requests, flags=flags)
        return replace(second, decision=decided, votes=votes, guessed=first.guessed or second.guessed)

    def unsure(self, decision: Decision) -> bool:
        """Whether a decision is one that the second plan is asked about."""
        if decision.margin is None:
            return decision.outcome is not Outcome.INVALID_INPUT
        return decision.outcome is Outcome.TIE or abs(decision.margin) < self.below


def engines_of(plan: Plan) -> tuple[CallEngine, ...]:
    """Return the engines of a plan's judges."""
    return tuple(seat.engine for seat in plan.seats() if seat.engine is not None)


@contextmanager
def contingent(maybe: bool) -> Iterator[None]:
    """Mark what is asked inside as perhaps not needed, where `maybe`."""
    token = CONTINGENT.set(CONTINGENT.get() or maybe)
    try:
        yield
    finally:
        CONTINGENT.reset(token)
