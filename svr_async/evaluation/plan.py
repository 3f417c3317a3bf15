"""Judging plans: which judges see a pair, in which orders, and when another judge is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from svr_async.core.pair import Order, PreferencePair, hashed_fraction, hashed_order, present
from svr_async.core.verdict import Outcome
from svr_async.engine.request import AUDIT, CONTINGENT
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, JuryRule, average, scaled, verdict
from svr_async.scoring.methods.registry import Method

Guess = Callable[[Decision], bool]
"""Whether a decision rests on placeholder replies, as in a dry run."""

AUDIT_SALT = "svr-audit"
ESCALATED = "escalated"
ESCALATION_FAILED = "escalation_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One judge's decision on one pair: `part` is `jury`, `first` or `escalation`.

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

    @classmethod
    def of(cls, judge: str, part: str, order: str, decision: Decision) -> Vote:
        """Return the vote of a judge with this decision."""
        preferred = decision.preferred
        sums: dict[str, float] = {}
        for entry in decision.contributions:
            sums[entry.rubric.id] = sums.get(entry.rubric.id, 0.0) + entry.value
        return cls(
            judge=judge,
            part=part,
            order=order,
            outcome=decision.outcome.value,
            margin=decision.margin,
            predicted=None if preferred is None else preferred.value,
            contributions=sums,
            detail=decision.detail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rubrics that one judge judged in one order, with their weights in the whole decision."""

    judge: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDecision:
    """A decision in data order, and its parts.

    `order` is `ab`, `ba`, `both`, or `mixed` if judges differ; `margins` are by order shown. For methods that add up
    rubrics, `rows` add up to the margin. `judge` is the one that decided.
    """

    decision: Decision
    judge: str
    order: str
    margins: Mapping[str, float]
    rows: tuple[Rows, ...]
    votes: tuple[Vote, ...]
    guessed: bool = False


class OrderPolicy(StrEnum):
    """`hash`: a bit of SHA-256(salt ‖ pair id); `ab`: the data set's order; `ba`: swapped; `both`: margins averaged."""

    HASH = "hash"
    AB = "ab"
    BA = "ba"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """A policy, and the share of pairs that are judged in both orders only to measure the order's effect.

    With `audit_below`, the policy `both` judges the second order only if the first |margin| is below it.
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


class Plan(Protocol):
    """Decides pairs."""

    async def decide(self, pair: PreferencePair, method: Method, guess: Guess) -> PairDecision:
        """Return the decision of a method on one pair; SvrError for an error that ends the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAssignment:
    """One judge, asked in the orders of a policy."""

    judge: Judge
    orders: Orders = field(default_factory=Orders)
    name: str = ""
    part: str = "first"

    async def decide(self, pair: PreferencePair, method: Method, guess: Guess) -> PairDecision:
        """Judge a pair in each order that the policy asks for; the first decides unless margins are averaged."""

        async def ask(order: Order) -> Decision:
            return (await method.decide(self.judge, present(pair, order), pair.human_rubrics)).in_data_order()

        first, *rest = self.orders.orders(pair)
        shown = [await ask(first)]
        guessed, margin, below = guess(shown[0]), shown[0].margin, self.orders.audit_below
        suffices = below is not None and (margin is None or abs(margin) >= below)
        averages = self.orders.policy is OrderPolicy.BOTH
        if rest and (guessed or not suffices):
            with (
                marked(CONTINGENT, guessed and below is not None),
                marked(AUDIT, not averages),
            ):
                shown.append(await ask(rest[0]))
        both = averages and len(shown) > 1
        decision = average(shown) if both else shown[0]
        order = "both" if both else shown[0].shown.value
        counted = [scaled(one, 2) for one in shown] if both else shown[:1]
        return PairDecision(
            decision=decision,
            judge=self.name,
            order=order,
            margins={one.shown.value: one.margin for one in shown if one.margin is not None},
            rows=tuple(Rows(judge=self.name, decision=one) for one in counted),
            votes=(Vote.of(self.name, self.part, order, decision),),
            guessed=any(map(guess, shown)),
        )


@dataclass(frozen=True, slots=True)
class Jury:
    """Several judges that all judge every pair; the rule joins their margins."""

    members: tuple[JudgeAssignment, ...]
    rule: JuryRule = JuryRule.MEAN

    async def decide(self, pair: PreferencePair, method: Method, guess: Guess) -> PairDecision:
        """Ask all members, one after another, and join their decisions."""
        parts = [await member.decide(pair, method, guess) for member in self.members]
        scored = [part for part in parts if part.decision.margin is not None]
        decision = verdict([part.decision for part in parts], self.rule)
        orders = {part.order for part in parts}
        margins, rows = {}, list[Rows]()
        if decision.margin is not None:
            shared = [order for order in scored[0].margins if all(order in part.margins for part in scored)]
            margins = {order: sum(part.margins[order] for part in scored) / len(scored) for order in shared}
            share = len(scored) if self.rule is JuryRule.MEAN else 1
            rows = [replace(row, decision=scaled(row.decision, share)) for part in scored for row in part.rows]
        return PairDecision(
            decision=decision,
            judge=",".join(member.name for member in self.members),
            order=parts[0].order if len(orders) == 1 else "mixed",
            margins=margins,
            rows=tuple(rows),
            votes=tuple(vote for part in parts for vote in part.votes),
            guessed=any(part.guessed for part in parts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated:
    """A first plan, and a second one for the pairs on which the first is unsure.

    Unsure is a margin below `below`, a tie, or no verdict if another judge may have one. If the second has no verdict
    either, that of the first stands.
    """

    first: Plan
    then: Plan
    below: float

    async def decide(self, pair: PreferencePair, method: Method, guess: Guess) -> PairDecision:
        """Ask the first plan, and the second if the first is unsure."""
        first = await self.first.decide(pair, method, guess)
        if not first.guessed and not self._unsure(first.decision):
            return first
        with marked(CONTINGENT, first.guessed):
            second = await self.then.decide(pair, method, guess)
        votes = (*first.votes, *second.votes)
        requests = first.decision.requests + second.decision.requests
        if second.decision.margin is None and first.decision.margin is not None:
            flags = (*first.decision.flags, ESCALATION_FAILED)
            return replace(first, decision=replace(first.decision, requests=requests, flags=flags), votes=votes)
        flags = (*second.decision.flags, ESCALATED)
        decided = replace(second.decision, requests=requests, flags=flags)
        return replace(second, decision=decided, votes=votes, guessed=first.guessed or second.guessed)

    def _unsure(self, decision: Decision) -> bool:
        if decision.margin is None:
            return decision.outcome is not Outcome.INVALID_INPUT
        return decision.outcome is Outcome.TIE or abs(decision.margin) < self.below


@contextmanager
def marked(mark: ContextVar[bool], value: bool) -> Iterator[None]:
    """Set a mark, unless it is set already, for the requests inside."""
    token = mark.set(mark.get() or value)
    try:
        yield
    finally:
        mark.reset(token)
