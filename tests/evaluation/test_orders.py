"""Which response is shown first, how often both ways, and the mean of both."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.pair import Order, PreferencePair, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison, Verdict
from svr_async.evaluation.plan import OrderPolicy, Orders
from svr_async.scoring.decision import Decision, average, rounded, scaled


def pair(name: str) -> PreferencePair:
    """Return a pair with this id."""
    return PreferencePair(id=name, prompt=user_prompt("q"), chosen="a", rejected="b")


PAIRS = [pair(f"case-{number}") for number in range(4000)]


def test_the_hashed_order_is_balanced_and_depends_on_the_id_alone() -> None:
    """About half of all pairs are swapped; neither the run nor the place in the file plays a part."""
    plan = Orders(audit=0.0)
    orders = [plan.orders(one) for one in PAIRS]
    assert all(len(one) == 1 for one in orders)
    swapped = sum(one == (Order.BA,) for one in orders)
    assert 1850 <= swapped <= 2150
    assert [plan.orders(one) for one in reversed(PAIRS)] == orders[::-1]
    other = Orders(audit=0.0, salt="other")
    assert 1800 <= sum(other.orders(one) != plan.orders(one) for one in PAIRS) <= 2200


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_the_audit_takes_its_share_both_ways_round(share: float) -> None:
    """About `audit` of the pairs are shown in both orders, the deciding one first."""
    plan = Orders(audit=share)
    audited = [plan.orders(one) for one in PAIRS if len(plan.orders(one)) == 2]
    assert abs(len(audited) / len(PAIRS) - share) < 0.02
    assert all(first is not second for first, second in audited)
    once = Orders(audit=0.0)
    assert all(plan.orders(one)[0] is once.orders(one)[0] for one in PAIRS)


@pytest.mark.parametrize(
    ("policy", "orders"), [("ab", (Order.AB,)), ("ba", (Order.BA,)), ("both", (Order.AB, Order.BA))]
)
def test_fixed_policies_show_what_they_say(policy: str, orders: tuple[Order, ...]) -> None:
    """`ab`, `ba` and `both` do not depend on the pair."""
    plan = Orders(policy=OrderPolicy(policy), audit=0.0)
    assert {plan.orders(one) for one in PAIRS[:50]} == {orders}


def decision(margin: float | None, *, shown: Order = Order.AB, deltas: tuple[Side, ...] = ()) -> Decision:
    """Return a decision in the data set's order."""
    parts = tuple(
        Contribution(
            rubric=Rubric(text=f"r{n}"), comparison=RubricComparison("r", Verdict.PASS, Verdict.PASS, side), weight=2.0
        )
        for n, side in enumerate(deltas)
    )
    outcome = Outcome.API_ERROR if margin is None else (Outcome.SCORED if margin else Outcome.TIE)
    return Decision(
        margin=margin, outcome=outcome, contributions=parts, shown=shown, requests=(f"{shown}",), flags=("f",)
    )


@settings(deadline=None, max_examples=100)
@given(st.floats(-5, 5), st.floats(-5, 5))
def test_both_orders_are_averaged(ab: float, ba: float) -> None:
    """The margin is the mean; opposite verdicts of equal strength are a tie."""
    found = average([decision(ab), decision(ba, shown=Order.BA)])
    assert found.margin == rounded((ab + ba) / 2)
    assert found.outcome is (Outcome.SCORED if found.margin else Outcome.TIE)
    assert (found.requests, found.flags) == (("ab", "ba"), ("f",))


def test_averaged_contributions_add_up_to_the_margin() -> None:
    """Each side's evidence counts half, so that the rows still explain the number."""
    one = decision(0.5, deltas=(Side.A,))
    other = decision(-1.0, shown=Order.BA, deltas=(Side.B, Side.B))
    found = average([one, other])
    assert sum(part.value for part in found.contributions) == found.margin == -0.25
    assert [part.weight for part in scaled(one, 2).contributions] == [1.0]
