"""The frontier: points are what plans would give, those without replies are left out, and the page says what it is."""

from __future__ import annotations

import csv
import io
import random
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hostile_run import ATTACK
from made_run import write_run
from rig import pairs

from svr_async.core.pair import Order, PreferencePair, Side
from svr_async.core.verdict import Outcome
from svr_async.evaluation.frontier import (
    Column,
    Frontier,
    Point,
    draw_frontier,
    first_order,
    thresholds,
)
from svr_async.evaluation.plan import OrderPolicy, Orders
from svr_async.evaluation.run_folder import RunFolder
from svr_async.reports.frontier import OPTIMISM, as_csv, as_json, render_frontier
from svr_async.scoring.decision import Decision

PAIRS = pairs(60)
ORDERS = Orders(policy=OrderPolicy.HASH)


def column(
    name: str,
    skill: float,
    usd: float | None = 0.001,
    *,
    orders: tuple[Order, ...] = tuple(Order),
    lack: int = 0,
    seed: str = "",
) -> Column:
    """Return a judge that is right with this chance, more often at large margins; `lack` pairs lack replies."""
    decisions, charges = {}, {}
    for pair in PAIRS[lack:]:
        rng = random.Random(f"{seed or name} {pair.id}")
        size = round(rng.uniform(0.05, 2.0), 6)
        right = rng.random() < skill - 0.2 + 0.2 * size
        assert pair.gold is not None
        toward = pair.gold if right else pair.gold.other()
        for order in orders:
            shown_as_a = (toward is Side.A) == (order is Order.AB)
            key = f"{name}-{pair.id}-{order.value}"
            decisions[pair.id, order] = Decision(
                margin=size if shown_as_a else -size, outcome=Outcome.SCORED, shown=order, requests=(key,)
            )
            charges[key] = (110, usd)
    return Column(judge=name, decisions=decisions, charges=charges)


def by_setting(found: Frontier) -> dict[tuple[str, tuple[str, ...], float | None, float | None, str], Point]:
    """Return points by (kind, judges, thresholds)."""
    return {
        (p.setting.kind, p.setting.judges, p.setting.audit_below, p.setting.escalate_below, p.setting.rule): p
        for p in found.points
    }


def size_of(decision: Decision) -> float:
    """Return how sure a decision is that was made."""
    assert decision.margin is not None
    return abs(decision.margin)


async def drawn(*columns: Column) -> Frontier:
    """Draw the frontier."""
    return await draw_frontier(PAIRS, columns, ORDERS)


async def test_a_point_is_worked_out_from_the_margins() -> None:
    """Calls, dollars and accuracy of an escalation follow from who is unsure, and of both orders from all pairs."""
    small, big = column("small", 0.6), column("big", 0.9, usd=0.01)
    found = await drawn(small, big)
    points = by_setting(found)
    first = {pair.id: small.decisions[pair.id, first_order(ORDERS, pair)] for pair in PAIRS}
    for below in thresholds(PAIRS, small, ORDERS, (0.3, 0.6)):
        unsure = [pair for pair in PAIRS if size_of(first[pair.id]) < below]
        point = points["escalate", ("small", "big"), None, below, ""]
        assert point.calls == len(PAIRS) + len(unsure)
        assert point.usd == pytest.approx(0.001 * len(PAIRS) + 0.01 * len(unsure))
    both = points["both", ("big",), None, None, ""]
    assert (both.calls, both.tokens) == (120, 120 * 110)
    once = points["once", ("big",), None, None, ""]
    assert once.usd == pytest.approx(0.6)
    assert both.right == once.right  # this judge does not mind the order


async def test_the_best_are_those_that_no_cheaper_one_equals() -> None:
    """From the cheapest on, each of the best is more accurate than all before it; every other is beaten by one."""
    found = await drawn(column("small", 0.6), column("mid", 0.75, usd=0.004), column("big", 0.9, usd=0.01))
    best = found.best
    assert best[0] == found.points[0]
    assert all(a.cost <= b.cost and a.accuracy < b.accuracy for a, b in pairwise(best))
    for point in found.points:
        assert point.best or any(one.cost <= point.cost and one.accuracy >= point.accuracy for one in best)
    assert found.held_out is not None
    assert 0.4 < found.held_out <= 1.0
    assert {point.setting.kind for point in found.points} == {
        "once", "both", "audit", "escalate", "jury"
    }  # fmt: skip
    rules = {point.setting.rule for point in found.points if len(point.setting.judges) == 3}
    assert rules == {"mean", "majority"}


async def test_what_nobody_asked_is_left_out_and_counted() -> None:
    """Of a judge seen in one order only, both orders are left out; three pairs without any reply leave all out."""
    once = tuple(Orders(audit=0.0).orders(pair)[0] for pair in PAIRS)
    assert set(once) == set(Order)
    half = column("half", 0.7)
    kept = {key: value for key, value in half.decisions.items() if key[1] is first_order(ORDERS, _pair(key[0]))}
    found = await drawn(Column(judge="half", decisions=kept, charges=half.charges))
    assert {point.setting.kind for point in found.points} == {"once"}
    assert max(point.missing for point in found.left_out) == len(PAIRS)
    lacking = await drawn(column("lacking", 0.7, lack=3))
    assert lacking.points == ()
    assert {point.missing for point in lacking.left_out} == {3}
    assert lacking.held_out is None


def _pair(key: str) -> PreferencePair:
    return next(pair for pair in PAIRS if pair.id == key)


async def test_without_prices_the_cost_is_tokens() -> None:
    """One judge without a price puts all plans on the scale of tokens; cached replies are counted all the same."""
    found = await drawn(column("free", 0.6, usd=None), column("big", 0.9, usd=0.01))
    assert not found.priced
    assert all(point.usd is None and point.cost == point.tokens for point in found.points)
    assert all(row["usd"] is None for row in orjson.loads(as_json(found))["points"])


async def test_csv_and_json_hold_every_point(tmp_path: Path) -> None:
    """One row a point, those left out last and without numbers; the caveat is in the JSON; formulas are defused."""
    found = await drawn(column("=cmd()", 0.6), column("big", 0.9, lack=1))
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert len(rows) == len(found.points) + len(found.left_out)
    assert rows[0]["judges"].startswith("'=cmd")
    assert float(rows[0]["accuracy"]) == pytest.approx(found.points[0].accuracy, abs=1e-6)
    assert all(row["accuracy"] == "" and int(row["missing"]) > 0 for row in rows[len(found.points) :])
    value = orjson.loads(as_json(found))
    assert value["optimism"] == OPTIMISM
    assert len(value["points"]) == len(found.points)


async def test_the_page_says_that_thresholds_and_labels_are_of_the_same_pairs(tmp_path: Path) -> None:
    """The caveat, the check on the other half, flags to copy and the simulated mark are on the page; it is stable."""
    write_run(tmp_path / "run", metrics={"judge_label": "small (SIMULATED endpoint)"})
    runs = [RunFolder.load(tmp_path / "run").summary]
    found = await drawn(column("small", 0.6), column(ATTACK, 0.9, usd=0.01))
    page = render_frontier(runs, found)
    assert page == render_frontier(runs, found)
    assert "looks better here than it will be on other pairs" in page
    assert "measured on the other" in page
    assert "--escalate-below" in page
    assert "SIMULATED" in page
    assert "<script>" not in page
    empty = render_frontier(runs, await drawn(column("lacking", 0.7, lack=3)))
    assert "The cache has too few replies for any plan" in empty
