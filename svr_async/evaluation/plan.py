"""Judging plans: which judges see a pair, in which orders, and when another judge is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from svr_async.core.pair import Order, PreferencePair, hashed_fraction, hashed_order, present
from svr_async.core.verdict import Outcome
from svr_async.engine.request import CONTINGENT
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, average, halved, scaled
from svr_async.scoring.jury import JuryRule, verdict
from svr_async.scoring.methods.contract import Decider

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine


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
class PairDecision:
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


def shared_margins(parts: Sequence[PairDecision]) -> dict[str, float]:
    """Return the mean margin of each order in which all of these judged."""
    orders = [order for order in parts[0].margins if all(order in other.margins for other in parts)]
    return {order: sum(one.margins[order] for one in parts) / len(parts) for order in orders}


AUDIT_SALT = "svr-audit"


class OrderPolicy(StrEnum):
    """`hash`: a bit of SHA-256(salt ‖ pair id); `ab`: the data set's order; `ba`: swapped; `both`: margins averaged."""

    HASH = "hash"
    AB = "ab"
    BA = "ba"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """A policy with the share of pairs that are judged both ways only to see whether the order matters.

    With `audit_below` the policy `both` asks a second time only where the first |margin| is below it.
    """

    policy: OrderPolicy = OrderPolicy.HASH
    audit: float = 0.05
    salt: str = "svr"
    audit_below: float | None = None

    def orders(self, pair: PreferencePair) -> tuple[Order, ...]:
        """Return the orders in which a pair may be shown; the first decides unless the policy is `both`."""
        if self.policy is OrderPolicy.BOTH and self.audit_below is None:
            return (Order.AB, Order.BA)
        hashed = self.policy in {OrderPolicy.HASH, OrderPolicy.BOTH}
        first = hashed_order(pair.id, self.salt) if hashed else Order(self.policy.value)
        if self.policy is OrderPolicy.BOTH or hashed_fraction(AUDIT_SALT, self.salt, pair.id) < self.audit:
            return (first, Order.BA if first is Order.AB else Order.AB)
        return (first,)

    def settled_by(self, margin: float | None) -> bool:
        """Whether the margin of the first order is enough, so that the second is not asked."""
        return self.audit_below is not None and (margin is None or abs(margin) >= self.audit_below)


AUDIT: ContextVar[bool] = ContextVar("audit", default=False)
"""True while a pair is judged in the other order only to measure the effect of the order."""
ESCALATED = "escalated"
ESCALATION_FAILED = "escalation_failed"


class Plan(Protocol):
    """Something that decides pairs."""

    @property
    def name(self) -> str:
        """Who judges, in a few words."""

    def assignments(self) -> tuple[JudgeAssignment, ...]:
        """Return all judges that may be asked, each with its engine."""

    async def decide(self, case: Case) -> PairDecision:
        """Return the decision on one pair; SvrError for what ends the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAssignment:
    """One judge, asked in the orders of a policy. `engine` is None for a judge that sends nothing."""

    judge: Judge
    orders: Orders = field(default_factory=Orders)
    engine: CallEngine | None = None
    name: str = ""
    part: str = "first"

    def assignments(self) -> tuple[JudgeAssignment, ...]:
        """Return this one."""
        return (self,)

    async def decide(self, case: Case) -> PairDecision:
        """Judge a pair in each order that the policy asks for; the first decides unless margins are averaged."""
        first, *rest = self.orders.orders(case.pair)
        shown = [await self._decide(case, first)]
        guessed = case.guessed(shown[0])
        if rest and (guessed or not self.orders.settled_by(shown[0].margin)):
            audit = self.orders.policy is not OrderPolicy.BOTH
            with contingent(guessed and self.orders.audit_below is not None), marked(AUDIT, audit):
                shown.append(await self._decide(case, rest[0]))
        return self._opinion(shown, any(case.guessed(decision) for decision in shown))

    async def _decide(self, case: Case, order: Order) -> Decision:
        decision = await case.method.decide(self.judge, present(case.pair, order), case.pair.human_rubrics)
        return decision.in_data_order()

    def _opinion(self, shown: list[Decision], guessed: bool) -> PairDecision:
        both = self.orders.policy is OrderPolicy.BOTH and len(shown) > 1
        decision = average(shown) if both else shown[0]
        order = "both" if both else shown[0].shown.value
        counted = [halved(one) for one in shown] if both else shown[:1]
        return PairDecision(
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

    def assignments(self) -> tuple[JudgeAssignment, ...]:
        """Return those of all members."""
        return tuple(assignment for member in self.members for assignment in member.assignments())

    async def decide(self, case: Case) -> PairDecision:
        """Hear all members, one after another, and join what they say."""
        parts = [await member.decide(case) for member in self.members]
        heard = [judged for judged in parts if judged.decision.margin is not None]
        decision = verdict([judged.decision for judged in parts], self.rule)
        orders = {judged.order for judged in parts}
        return PairDecision(
            decision=decision,
            judge=self.name,
            order=parts[0].order if len(orders) == 1 else "mixed",
            margins=shared_margins(heard) if decision.margin is not None else {},
            rows=self._rows(heard) if decision.margin is not None else (),
            votes=tuple(vote for judged in parts for vote in judged.votes),
            guessed=any(judged.guessed for judged in parts),
        )

    def _rows(self, heard: list[PairDecision]) -> tuple[Rows, ...]:
        """Return the rows of all members, each with its share of the whole where margins are averaged."""
        share = len(heard) if self.rule is JuryRule.MEAN else 1
        rows = [row for judged in heard for row in judged.rows]
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

    def assignments(self) -> tuple[JudgeAssignment, ...]:
        """Return those of both."""
        return (*self.first.assignments(), *self.then.assignments())

    async def decide(self, case: Case) -> PairDecision:
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
    return tuple(assignment.engine for assignment in plan.assignments() if assignment.engine is not None)


def contingent(maybe: bool) -> AbstractContextManager[None]:
    """Mark questions that may turn out not to be needed."""
    return marked(CONTINGENT, maybe)


@contextmanager
def marked(mark: ContextVar[bool], value: bool) -> Iterator[None]:
    """Set a mark, unless it is set already, for the questions inside."""
    token = mark.set(mark.get() or value)
    try:
        yield
    finally:
        mark.reset(token)
