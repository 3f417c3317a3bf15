"""Accuracy against cost of judging plans, from runs over the same pairs; nothing is sent.

Each run is a plan. The items also say what a second judge for close pairs, or a jury, would have decided: `svr eval`
with the flags of a point has the same accuracy. A part of a run costs its mean price of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import fsum

from svr_async.core.integrity import Integrity
from svr_async.core.statistics import Interval, wilson_interval
from svr_async.core.verdict import Outcome
from svr_async.errors import UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.setup import data_of

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # thresholds: these quantiles of |margin|
MOST_JURORS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One plan: `kind` is `run`, `escalate` or `jury`; `orders` are the flags that set the order of responses.

    `right` holds, for each pair with a right answer, whether the verdict is right. Dollars are None without prices.
    """

    kind: str
    judges: tuple[str, ...]
    below: float | None = None
    orders: str = ""
    right: tuple[bool, ...]
    tokens: float
    usd: float | None
    best: bool = False

    @property
    def accuracy(self) -> float:
        """The share of pairs with the right verdict; ties and missing verdicts are wrong."""
        return sum(self.right) / len(self.right)

    @property
    def ci95(self) -> Interval:
        """Wilson's interval of the accuracy."""
        return wilson_interval(sum(self.right), len(self.right))

    @property
    def cost(self) -> float:
        """Dollars, or tokens without a price."""
        return self.tokens if self.usd is None else self.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """All plans over `n_pairs`, the cheapest first; `priced` if all costs are dollars."""

    n_pairs: int
    points: tuple[Point, ...]
    priced: bool

    @property
    def best(self) -> tuple[Point, ...]:
        """The plans that are more accurate than every cheaper one."""
        return tuple(point for point in self.points if point.best)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """The verdicts and the cost of one judge."""

    judge: str
    orders: str
    items: Sequence[Item]  # with a right answer
    tokens: float
    usd: float | None


def frontier_of(runs: Sequence[Run]) -> Frontier:
    """Return the plans that can be made of these runs; UsageError if they differ in more than judges and orders."""
    _check_alike(runs)
    columns = [_column(run) for run in runs]
    points = list(_plans(columns))
    priced = all(point.usd is not None for point in points)
    if not priced:
        points = [replace(point, usd=None) for point in points]
    points.sort(key=lambda point: (point.cost, -point.accuracy))
    marked, highest = [], -1
    for point in points:
        marked.append(replace(point, best=sum(point.right) > highest))
        highest = max(highest, sum(point.right))
    return Frontier(n_pairs=len(columns[0].items), points=tuple(marked), priced=priced)


def _check_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs:
        config = run.manifest.get("config") or {}
        if Integrity.CONTENT_BLIND in run.integrity:
            raise UsageError(f"{run.path} asked no judge", hint="a frontier is about what judges cost")
        if config.get("jury") or config.get("escalate_to"):
            raise UsageError(f"{run.path} has several judges", hint="give the run of each judge: juries are computed")
        if not run.complete:
            raise UsageError(f"{run.path} is not finished", hint="run its svr eval again")
        for what, mine, other in (
            ("pairs", data_of(run), data_of(first)),
            ("method", run.metrics["method"], first.metrics["method"]),
            ("bank", run.metrics.get("bank"), first.metrics.get("bank")),
        ):
            if mine != other:
                hint = "draw the frontier of runs that differ in their judges only"
                raise UsageError(f"{run.path} and {first.path} differ in their {what}", hint=hint)
    if not any(item.gold for item in first.items):
        raise UsageError(f"{first.path} has no pair with a right answer", hint="a frontier needs labels")


def _column(run: Run) -> _Column:
    config, usage = run.manifest.get("config") or {}, run.metrics.get("usage") or {}
    orders = "" if config.get("order") in {None, "hash"} else f" --order {config['order']}"
    if (below := config.get("audit_below")) is not None:
        orders = f" --audit-below {below:g}"
    if config.get("salt") not in {None, "svr"}:
        orders += f" --seed {config['salt'].removeprefix('svr-')}"
    return _Column(
        judge=str(run.metrics["judge"]),
        orders=orders,
        items=[item for item in run.items if item.gold],
        tokens=(usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0),
        usd=run.metrics.get("cost_usd"),
    )


def _plans(columns: Sequence[_Column]) -> Iterator[Point]:
    for one in columns:
        yield _point("run", [one], [1.0], [item.margin for item in one.items])
    for first, then in permutations(columns, 2):
        if _fit(first, then) and _cost(first) <= _cost(then):  # the dearer judge is the second
            for below in thresholds(first.items):
                yield _escalated(first, then, below)
    for size in range(2, min(len(columns), MOST_JURORS) + 1):
        for members in combinations(columns[:MOST_JURORS], size):
            if all(_fit(one, other) for one, other in combinations(members, 2)):
                votes = zip(*(one.items for one in members), strict=True)
                yield _point("jury", members, [1.0] * size, [_mean(items) for items in votes])


def _cost(column: _Column) -> float:
    return column.tokens if column.usd is None else column.usd


def _fit(one: _Column, other: _Column) -> bool:
    """Whether two runs can be parts of one plan: different judges, the same orders."""
    return one.judge != other.judge and one.orders == other.orders


def _escalated(first: _Column, then: _Column, below: float) -> Point:
    margins, asked = [], 0
    for one, other in zip(first.items, then.items, strict=True):
        sure = one.margin is not None and one.outcome != Outcome.TIE and abs(one.margin) >= below
        unsure = not sure and one.outcome != Outcome.INVALID_INPUT
        asked += unsure
        margins.append(other.margin if unsure and other.margin is not None else one.margin)
    return _point("escalate", [first, then], [1.0, asked / len(margins)], margins, below)


def _mean(items: Sequence[Item]) -> float | None:
    margins = [item.margin for item in items if item.margin is not None]
    return fsum(margins) / len(margins) if margins else None


def _point(
    kind: str, columns: Sequence[_Column], shares: Sequence[float], margins: Sequence[float | None],
    below: float | None = None,
) -> Point:  # fmt: skip
    """Return the point of a plan that asks each judge about a share of the pairs and decides by these margins."""
    dollars = [column.usd for column in columns]
    parts = list(zip(columns, shares, strict=True))
    sides = (1 if item.gold == "A" else -1 for item in columns[0].items)
    return Point(
        kind=kind,
        judges=tuple(column.judge for column in columns),
        below=below,
        orders=columns[0].orders,
        right=tuple((margin or 0.0) * side > 0 for margin, side in zip(margins, sides, strict=True)),
        tokens=sum(share * column.tokens for column, share in parts),
        usd=None if None in dollars else sum(share * (column.usd or 0.0) for column, share in parts),
    )


def thresholds(items: Sequence[Item], shares: Sequence[float] = SHARES) -> tuple[float, ...]:
    """Return |margins| below which these shares of the pairs lie, each once, to three significant digits."""
    sizes = sorted(abs(item.margin) for item in items if item.margin is not None)
    places = (min(len(sizes) - 1, int(share * len(sizes))) for share in shares if sizes)
    found = dict.fromkeys(float(f"{sizes[place]:.3g}") for place in places)
    return tuple(below for below in found if below > 0)
