"""Accuracy against cost, worked out from replies that are kept: what each judging plan would have said and cost.

Every point is a plan run over recorded decisions by the same code as in an evaluation, so a point is what `svr eval`
with these flags would give. A plan that would have asked for what nobody has asked yet is left out, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import cast

from svr_async.core.pair import HumanRubrics, Order, PreferencePair, Presentation, hashed_fraction
from svr_async.core.statistics import wilson_interval
from svr_async.evaluation.plan import Case, Escalated, JudgeAssignment, Jury, OrderPolicy, Orders, Plan
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.jury import JuryRule

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # thresholds of the grid: these quantiles of |margin|
FEW_SHARES = (0.2, 0.4, 0.6)  # the same where two thresholds are combined
MOST_JURORS = 5
HALVES_SALT = "svr-frontier"


class MissingReplyError(LookupError):
    """A plan asked for a decision whose replies nobody has kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one reply cost; dollars are None without a price."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one judge said of all pairs: decisions by (pair id, order), as shown; what nobody asked is absent.

    `charges` are by request key. `top_k` is set where fewer rubrics were used than the run did.
    """

    judge: str
    decisions: Mapping[tuple[str, Order], Decision]
    charges: Mapping[str, Charge]
    top_k: int | None = None

    @property
    def name(self) -> str:
        """The judge, with its number of rubrics where that is another."""
        return self.judge if self.top_k is None else f"{self.judge}, top {self.top_k}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Stands for a judge whose decisions are recorded, and for the method that made them."""

    column: Column
    name: str = "replayed"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Return what was decided; MissingReplyError where nobody asked."""
        column = cast("Replayed", judge).column
        found = column.decisions.get((shown.pair_id, shown.order))
        if found is None:
            raise MissingReplyError(shown.pair_id)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One plan of the grid: `kind` is `once`, `both`, `audit`, `escalate`, `audit+escalate`, `jury` or `top-k`."""

    kind: str
    judges: tuple[str, ...]
    audit_below: float | None = None
    escalate_below: float | None = None
    rule: str = ""
    top_k: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a setting would give; `missing` pairs lack a reply (then the rest is None or of the others).

    `right` says for each pair with a right answer whether it would be decided so. Dollars are None without prices.
    """

    setting: Setting
    missing: int
    right: tuple[bool, ...]
    calls: int
    tokens: int
    usd: float | None
    best: bool = False

    @property
    def accuracy(self) -> float:
        """The share of pairs with the right verdict; ties and missing verdicts are wrong."""
        return sum(self.right) / len(self.right) if self.right else 0.0

    @property
    def ci95(self) -> tuple[float, float]:
        """Wilson's interval of the accuracy."""
        low, high = wilson_interval(sum(self.right), len(self.right))
        return low, high

    @property
    def cost(self) -> float:
        """Dollars, or tokens where a price is unknown."""
        return self.tokens if self.usd is None else self.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """All points that could be worked out, the cheapest first, and those that could not.

    `held_out` is the accuracy of what is best on one half of the pairs, measured on the other: without the optimism of
    choosing and measuring on the same labels. It is None for fewer than two points.
    """

    n_pairs: int
    points: tuple[Point, ...]
    left_out: tuple[Point, ...]
    held_out: float | None
    priced: bool

    @property
    def best(self) -> tuple[Point, ...]:
        """The points that no other one beats in cost and accuracy at once."""
        return tuple(point for point in self.points if point.best)


async def draw_frontier(
    pairs: Sequence[PreferencePair], columns: Sequence[Column], extra: Sequence[Column], orders: Orders
) -> Frontier:
    """Work out the whole grid over the judges of `columns`; `extra` are judged once only, as fewer rubrics are."""
    judged = [pair for pair in pairs if pair.gold is not None]
    grid = [*settings_of(judged, columns, orders), *(_once(column, orders) for column in extra)]
    points = [await work_out(judged, setting, plan, [*columns, *extra]) for setting, plan in grid]
    whole = sorted((point for point in points if not point.missing), key=lambda point: (point.cost, -point.accuracy))
    priced = all(point.usd is not None for point in whole)
    if not priced:
        whole = sorted((replace(point, usd=None) for point in whole), key=lambda point: (point.cost, -point.accuracy))
    return Frontier(
        n_pairs=len(judged),
        points=tuple(_marked(whole)),
        left_out=tuple(point for point in points if point.missing),
        held_out=_held_out(judged, whole),
        priced=priced,
    )


async def work_out(pairs: Sequence[PreferencePair], setting: Setting, plan: Plan, columns: Iterable[Column]) -> Point:
    """Run one plan over recorded decisions."""
    right, keys, missing = [], set[str](), 0
    method = Replayed(Column(judge="", decisions={}, charges={}))
    for pair in pairs:
        try:
            judged = await plan.decide(Case(pair=pair, method=method))
        except MissingReplyError:
            missing += 1
            continue
        keys.update(judged.decision.requests)
        right.append(judged.decision.preferred is pair.gold)
    charges = [column.charges[key] for column in columns for key in keys & column.charges.keys()]
    dollars = [charge.usd for charge in charges]
    return Point(
        setting=setting,
        missing=missing,
        right=tuple(right),
        calls=len(charges),
        tokens=sum(charge.prompt_tokens + charge.completion_tokens for charge in charges),
        usd=None if None in dollars else sum(cast("list[float]", dollars)),
    )


def settings_of(
    pairs: Sequence[PreferencePair], columns: Sequence[Column], orders: Orders
) -> Iterator[tuple[Setting, Plan]]:
    """Yield every plan of the grid with its setting."""
    for column in columns:
        yield _once(column, orders)
        for below in (*thresholds(pairs, column, orders, SHARES), math.inf):
            yield _audited(column, orders, below)
    for first, then in _steps(columns):
        for below in thresholds(pairs, first, orders, SHARES):
            once = (_once(first, orders)[1], _once(then, orders)[1])
            setting = Setting(kind="escalate", judges=(first.name, then.name), escalate_below=below)
            yield setting, Escalated(first=once[0], then=once[1], below=below)
        few = thresholds(pairs, first, orders, FEW_SHARES)
        for audit, below in ((audit, below) for audit in few for below in few):
            setting = Setting(
                kind="audit+escalate", judges=(first.name, then.name), audit_below=audit, escalate_below=below
            )
            parts = (_audited(first, orders, audit)[1], _audited(then, orders, audit)[1])
            yield setting, Escalated(first=parts[0], then=parts[1], below=below)
    yield from _juries(columns, orders)


def thresholds(
    pairs: Sequence[PreferencePair], column: Column, orders: Orders, shares: Sequence[float]
) -> tuple[float, ...]:
    """Return |margins| below which these shares of the pairs lie, each once, to three significant digits."""
    held = [column.decisions.get((pair.id, first_order(orders, pair))) for pair in pairs]
    sizes = sorted(abs(one.margin) for one in held if one is not None and one.margin is not None)
    places = (min(len(sizes) - 1, int(share * len(sizes))) for share in shares if sizes)
    found = dict.fromkeys(float(f"{sizes[place]:.3g}") for place in places)
    return tuple(below for below in found if below > 0)


def first_order(orders: Orders, pair: PreferencePair) -> Order:
    """Return the order in which a pair is judged first."""
    return _single(orders).orders(pair)[0]


def _single(orders: Orders) -> Orders:
    policy = OrderPolicy.HASH if orders.policy is OrderPolicy.BOTH else orders.policy
    return replace(orders, policy=policy, audit=0.0, audit_below=None)


def _seat(column: Column, orders: Orders) -> JudgeAssignment:
    return JudgeAssignment(judge=cast("Judge", Replayed(column)), orders=orders, name=column.name)


def _once(column: Column, orders: Orders) -> tuple[Setting, Plan]:
    kind = "once" if column.top_k is None else "top-k"
    return Setting(kind=kind, judges=(column.judge,), top_k=column.top_k), _seat(column, _single(orders))


def _audited(column: Column, orders: Orders, below: float) -> tuple[Setting, Plan]:
    """Return a plan with both orders below a margin; with an infinite one, of all pairs."""
    both = replace(orders, policy=OrderPolicy.BOTH, audit=0.0, audit_below=below)
    if math.isinf(below):
        return Setting(kind="both", judges=(column.name,)), _seat(column, both)
    return Setting(kind="audit", judges=(column.name,), audit_below=below), _seat(column, both)


def _steps(columns: Sequence[Column]) -> Iterator[tuple[Column, Column]]:
    """Yield (first, then) where the second costs more a call; in the order given where that is not known."""
    for first, then in combinations(columns, 2):
        yield (then, first) if _mean_usd(then) < _mean_usd(first) else (first, then)


def _mean_usd(column: Column) -> float:
    charges = column.charges.values()
    return sum(charge.usd or 0.0 for charge in charges) / max(1, len(charges))


def _juries(columns: Sequence[Column], orders: Orders) -> Iterator[tuple[Setting, Plan]]:
    held = columns[:MOST_JURORS]
    for size in range(2, len(held) + 1):
        for members in combinations(held, size):
            for rule in JuryRule:
                if rule is JuryRule.MAJORITY and size % 2 == 0:
                    continue  # ties: another judge, or the mean, decides them
                names = tuple(member.name for member in members)
                plan = Jury(tuple(_once(member, orders)[1] for member in members), rule)
                yield Setting(kind="jury", judges=names, rule=rule.value), plan


def _marked(points: Sequence[Point]) -> Iterator[Point]:
    """Yield points, from the cheapest on, with those marked that are better than all cheaper ones."""
    highest = -1
    for point in points:
        right = sum(point.right)
        yield replace(point, best=right > highest)
        highest = max(highest, right)


def _held_out(pairs: Sequence[PreferencePair], points: Sequence[Point]) -> float | None:
    """Choose the best point on each half of the pairs and return its accuracy on the other half, over both."""
    halves = [hashed_fraction(HALVES_SALT, "", pair.id) < 0.5 for pair in pairs]
    if len(points) < 2 or len(set(halves)) < 2:
        return None
    found = 0
    for half in (True, False):
        top = max(points, key=lambda point: sum(r for r, side in zip(point.right, halves, strict=True) if side is half))
        found += sum(r for r, side in zip(top.right, halves, strict=True) if side is not half)
    return found / len(pairs)
