"""Accuracy against cost: what each judging plan would have decided and cost, from replies in the cache.

Each point runs a plan over recorded decisions with the code of `svr eval`, so `svr eval` with its flags gives the same.
Engines are opened offline: nothing is sent. Plans that need new calls are skipped and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

from svr_async.core.pair import HumanRubrics, Order, PreferencePair, Presentation, hashed_fraction, present
from svr_async.core.statistics import wilson_interval
from svr_async.engine.concurrency import bounded_map
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.plan import Case, Escalated, JudgeAssignment, Jury, OrderPolicy, Orders, Plan
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import (
    ResolvedJudge,
    choose_method,
    data_of,
    judged_pairs,
    orders_of,
    rephrasing,
    resolve_judges,
    settings_of,
)
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, JuryRule
from svr_async.scoring.methods.contract import Method

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # thresholds of the grid: these quantiles of |margin|
MOST_JURORS = 5
HALVES_SALT = "svr-frontier"
WORKERS = 8
Charge = tuple[int, float | None]  # tokens and dollars of a reply


class MissingReplyError(LookupError):
    """A plan needs a decision whose replies are not in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One judge's decisions by (pair id, order), as shown; missing replies are absent.

    `charges` are tokens and dollars (None without a price) of each reply by its request key.
    """

    judge: str
    decisions: Mapping[tuple[str, Order], Decision]
    charges: Mapping[str, Charge]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Stands for a judge with recorded decisions, and for the method that made them."""

    column: Column
    name: str = "replayed"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Return the recorded decision; MissingReplyError if there is none."""
        found = cast("Replayed", judge).column.decisions.get((shown.pair_id, shown.order))
        if found is None:
            raise MissingReplyError(shown.pair_id)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One plan of the grid: `kind` is `once`, `both`, `audit`, `escalate` or `jury`."""

    kind: str
    judges: tuple[str, ...]
    audit_below: float | None = None
    escalate_below: float | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Results of a setting; with `missing` pairs, which lack a reply, they cover the other pairs only.

    `right` holds, for each pair with a right answer, whether the decision is right. Dollars are None without prices.
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
        """Dollars, or tokens without a price."""
        return self.tokens if self.usd is None else self.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """All complete points, the cheapest first, and those that lack replies.

    `held_out` chooses the best point on one half of the pairs and measures it on the other, which avoids the optimism
    of choosing and measuring on the same labels. It is None for fewer than two points.
    """

    n_pairs: int
    points: tuple[Point, ...]
    left_out: tuple[Point, ...]
    held_out: float | None
    priced: bool

    @property
    def best(self) -> tuple[Point, ...]:
        """The points that no other point beats in both cost and accuracy."""
        return tuple(point for point in self.points if point.best)


async def draw_frontier(pairs: Sequence[PreferencePair], columns: Sequence[Column], orders: Orders) -> Frontier:
    """Compute the grid over the judges of `columns`."""
    judged = [pair for pair in pairs if pair.gold is not None]
    points = [await _replay(judged, setting, plan, columns) for setting, plan in _grid(judged, columns, orders)]
    whole = [point for point in points if not point.missing]
    priced = all(point.usd is not None for point in whole)
    if not priced:
        whole = [replace(point, usd=None) for point in whole]
    whole.sort(key=lambda point: (point.cost, -point.accuracy))
    marked, highest = [], -1
    for point in whole:  # the best are more accurate than all cheaper points
        marked.append(replace(point, best=sum(point.right) > highest))
        highest = max(highest, sum(point.right))
    return Frontier(
        n_pairs=len(judged),
        points=tuple(marked),
        left_out=tuple(point for point in points if point.missing),
        held_out=_held_out(judged, whole),
        priced=priced,
    )


async def _replay(pairs: Sequence[PreferencePair], setting: Setting, plan: Plan, columns: Iterable[Column]) -> Point:
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
    dollars = [usd for _, usd in charges]
    return Point(
        setting=setting,
        missing=missing,
        right=tuple(right),
        calls=len(charges),
        tokens=sum(tokens for tokens, _ in charges),
        usd=None if None in dollars else sum(cast("list[float]", dollars)),
    )


def _grid(pairs: Sequence[PreferencePair], columns: Sequence[Column], orders: Orders) -> Iterator[tuple[Setting, Plan]]:
    """Yield every plan of the grid with its setting."""
    for column in columns:
        yield _once(column, orders)
        for below in (*thresholds(pairs, column, orders), math.inf):
            yield _audited(column, orders, below)
    for one, other in combinations(columns, 2):
        first, then = (other, one) if _mean_usd(other) < _mean_usd(one) else (one, other)
        names = (first.judge, then.judge)
        for below in thresholds(pairs, first, orders):
            plan = Escalated(first=_once(first, orders)[1], then=_once(then, orders)[1], below=below)
            yield Setting(kind="escalate", judges=names, escalate_below=below), plan
    yield from _juries(columns[:MOST_JURORS], orders)


def thresholds(
    pairs: Sequence[PreferencePair], column: Column, orders: Orders, shares: Sequence[float] = SHARES
) -> tuple[float, ...]:
    """Return |margins| below which these shares of the pairs lie, each once, to three significant digits."""
    first = [column.decisions.get((pair.id, first_order(orders, pair))) for pair in pairs]
    sizes = sorted(abs(one.margin) for one in first if one is not None and one.margin is not None)
    places = (min(len(sizes) - 1, int(share * len(sizes))) for share in shares if sizes)
    found = dict.fromkeys(float(f"{sizes[place]:.3g}") for place in places)
    return tuple(below for below in found if below > 0)


def first_order(orders: Orders, pair: PreferencePair) -> Order:
    """Return the order in which a pair is judged first."""
    return _single(orders).orders(pair)[0]


def _single(orders: Orders) -> Orders:
    policy = OrderPolicy.HASH if orders.policy is OrderPolicy.BOTH else orders.policy
    return replace(orders, policy=policy, audit=0.0, audit_below=None)


def _assigned(column: Column, orders: Orders) -> JudgeAssignment:
    return JudgeAssignment(judge=cast("Judge", Replayed(column)), orders=orders, name=column.judge)


def _once(column: Column, orders: Orders) -> tuple[Setting, JudgeAssignment]:
    return Setting(kind="once", judges=(column.judge,)), _assigned(column, _single(orders))


def _audited(column: Column, orders: Orders, below: float) -> tuple[Setting, Plan]:
    """Return a plan that judges both orders below a margin; with an infinite margin, both orders of all pairs."""
    both = replace(orders, policy=OrderPolicy.BOTH, audit=0.0, audit_below=below)
    kind, audit_below = ("both", None) if math.isinf(below) else ("audit", below)
    return Setting(kind=kind, judges=(column.judge,), audit_below=audit_below), _assigned(column, both)


def _mean_usd(column: Column) -> float:
    return sum(usd or 0.0 for _, usd in column.charges.values()) / max(1, len(column.charges))


def _juries(columns: Sequence[Column], orders: Orders) -> Iterator[tuple[Setting, Plan]]:
    for size in range(2, len(columns) + 1):
        for members in combinations(columns, size):
            for rule in JuryRule:
                if rule is JuryRule.MAJORITY and size % 2 == 0:
                    continue  # a majority of an even number can tie
                plan = Jury(tuple(_once(member, orders)[1] for member in members), rule)
                yield Setting(kind="jury", judges=tuple(one.judge for one in members), rule=rule.value), plan


def _held_out(pairs: Sequence[PreferencePair], points: Sequence[Point]) -> float | None:
    """Choose the best point on each half of the pairs; return its accuracy on the other half, over both halves."""
    halves = [hashed_fraction(HALVES_SALT, "", pair.id) < 0.5 for pair in pairs]
    if len(points) < 2 or len(set(halves)) < 2:
        return None
    found = 0
    for half in (True, False):
        top = max(points, key=lambda point: sum(r for r, side in zip(point.right, halves, strict=True) if side is half))
        found += sum(r for r, side in zip(top.right, halves, strict=True) if side is not half)
    return found / len(pairs)


async def frontier_of(runs: Sequence[Run]) -> Frontier:
    """Read the replies to runs and compute the grid; UsageError if the runs differ in more than judges."""
    settings = [settings_of(run) for run in runs]
    method, orders = choose_method(settings[0]), orders_of(settings[0])
    _check_alike(runs, method)
    pairs = judged_pairs(settings[0], runs[0])
    columns: dict[str, Column] = {}
    for run, own in zip(runs, settings, strict=True):
        for judge in resolve_judges(own, method).judges:
            if judge.name not in columns:
                columns[judge.name] = await _read_replies(run, own, judge, method, pairs)
    return await draw_frontier(pairs, list(columns.values()), orders)


async def _read_replies(
    run: Run, settings: EvalSettings, resolved: ResolvedJudge, method: Method, pairs: Sequence[PreferencePair]
) -> Column:
    """Return a judge's decisions on all pairs in both orders; ArtefactError if its run's only judge has no reply."""
    limits = replace(settings.limits, failures=run.path / "failures.jsonl")
    judge = open_judge(resolved.spec, limits, prompts={pair.id: pair.prompt for pair in pairs})
    used = rephrasing(method, judge) if settings.rephrase else method
    try:
        column = await _column(resolved.name, judge, used, [(pair, order) for pair in pairs for order in Order])
    finally:
        await judge.close()
    facts: Mapping[str, Any] = run.manifest.get("judge") or {}
    if column.decisions or len(facts.get("judges") or ()) > 1:
        return column
    before, now = facts.get("base_url"), resolved.profile and resolved.profile.base_url
    cache = f"the cache {limits.cache} has no reply of {resolved.name} to {run.path}"
    if before and now and before != now:
        hint = f"give {resolved.name} the address of the run again, in its profile"
        raise ArtefactError(f"{cache}: the run asked it at {before}, now it is at {now}", hint=hint)
    raise ArtefactError(cache, hint="put back the cache, or the judge's profile, that the run was made with")


def _check_alike(runs: Sequence[Run], method: Method) -> None:
    if not method.facts.asks_judge:
        raise UsageError(f"{runs[0].path} asked no judge", hint="a frontier is about what judges cost")
    first = runs[0]
    for run in runs[1:]:
        for what, mine, other in (
            ("pairs", data_of(run), data_of(first)),
            ("method", run.metrics["method"], first.metrics["method"]),
            ("bank", run.metrics.get("bank"), first.metrics.get("bank")),
        ):
            if mine != other:
                hint = "draw the frontier of runs that differ in their judges only"
                raise UsageError(f"{run.path} and {first.path} differ in their {what}", hint=hint)


async def _column(name: str, judge: OpenJudge, method: Method, shown: Sequence[tuple[PreferencePair, Order]]) -> Column:
    async def decide(one: tuple[PreferencePair, Order]) -> Decision:
        pair, order = one
        return await method.decide(judge.judge, present(pair, order), pair.human_rubrics)

    missing: set[str] = set()
    if judge.engine is not None:
        judge.engine.on_missing = lambda question: missing.add(question.request.key.hex())
    decisions: dict[tuple[str, Order], Decision] = {}
    async with aclosing(bounded_map(decide, shown, workers=WORKERS)) as done:
        async for place, decision in done:
            if missing.isdisjoint(decision.requests):
                pair, order = shown[place]
                decisions[pair.id, order] = replace(decision, contributions=(), reason="")
    keys = {key for decision in decisions.values() for key in decision.requests}
    return Column(judge=name, decisions=decisions, charges=_charges(judge, keys))


def _charges(judge: OpenJudge, keys: set[str]) -> dict[str, Charge]:
    """Return the cost of each reply in the cache; a final failure has no reply and no known cost."""
    if judge.engine is None:
        return {}
    price = None if judge.profile is None else judge.profile.price
    found: dict[str, Charge] = {}
    for key in keys:
        reply = judge.engine.cache.get(bytes.fromhex(key))
        if reply is not None:
            tokens = (reply.usage.prompt_tokens or 0) + (reply.usage.completion_tokens or 0)
            found[key] = tokens, None if price is None else price.cost(reply.usage)
    return found
