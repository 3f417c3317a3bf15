"""What several judges cost: sums that are right, and unknown where a part is; cached tokens at their own price."""

from __future__ import annotations

from typing import Any

import pytest

from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.metrics import JudgeCost, costs_block, engine_block, joined

CHEAP, DEAR = Price(input=1.0, cached=0.5, output=2.0), Price(input=10.0, cached=1.0, output=20.0)


def stats(**changes: Any) -> EngineStats:
    """Return an engine's facts: all nothing but those given."""
    return EngineStats(**changes)


def test_the_facts_of_several_engines_become_one() -> None:
    """Counts add up, the last failure that there was is kept, and the dollars are those of all."""
    found = joined([stats(sent=3, last_failure="a 503", in_flight=1), stats(sent=4, in_flight=2)], 0.5)
    assert (found.sent, found.in_flight, found.usd, found.last_failure) == (7, 3, 0.5, "a 503")
    assert joined([stats(sent=2)], None) == stats(sent=2)


def test_cached_tokens_have_their_own_price() -> None:
    """A million cached tokens cost less; their share is unknown without tokens."""
    block = engine_block(stats(prompt_tokens=4_000_000, cached_tokens=1_000_000), CHEAP)
    assert block["cache"] == {"cached_share": 0.25}
    assert block["cost_usd"] == 3.5
    assert engine_block(stats(), None)["cache"] == {"cached_share": None}


def test_each_judge_is_charged_at_its_own_price() -> None:
    """A run's cost is the sum over its judges; one that sends nothing costs nothing."""
    mine, other = stats(prompt_tokens=1_000_000, sent=5, usd=1.0), stats(completion_tokens=1_000_000, sent=7, usd=20.0)
    costs = (
        JudgeCost(name="cheap", stats=mine, price=CHEAP),
        JudgeCost(name="dear", stats=other, price=DEAR),
        JudgeCost(name="rules", stats=None, price=None),
    )
    block = costs_block(costs)
    assert (block["cost_usd"], block["calls"]["sent"], block["paid_usd"]) == (21.0, 12, 21.0)
    assert {name: one["cost_usd"] for name, one in block["judges"].items()} == {
        "cheap": 1.0, "dear": 20.0, "rules": 0.0
    }  # fmt: skip


@pytest.mark.parametrize("key", ["cost_usd", "paid_usd"])
def test_a_sum_with_an_unknown_price_is_unknown(key: str) -> None:
    """One judge without a price: what it cost is not known, so the sum is not either."""
    costs = (
        JudgeCost(name="a", stats=stats(sent=1, usd=0.0), price=CHEAP),
        JudgeCost(name="b", stats=stats(sent=1), price=None),
    )
    block = costs_block(costs)
    assert block[key] is None
    assert block["judges"]["a"][key] == 0.0
