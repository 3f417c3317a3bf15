"""metrics.json: every pair stays in the denominator, each number is what its name says, and costs add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from svr_async.adapters import get_adapter
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.evaluation import metrics
from svr_async.evaluation.items import Item
from svr_async.evaluation.metrics import Cost, costs_block, engine_block, joined
from svr_async.evaluation.plan import OrderPolicy

BLANK = Item(
    id="0", item="0", domain="d", subset="", order="ab", outcome="scored", predicted="A", gold="A", correct=True,
    margin=1.0, margins={"ab": 1.0}, rubrics=(), flags=(), detail="", requests=(),
)  # fmt: skip


def right(domain: str = "d") -> Item:
    """Return an item that was judged right."""
    return replace(BLANK, domain=domain)


def wrong(domain: str = "d") -> Item:
    """Return an item that was judged wrong."""
    return replace(BLANK, domain=domain, predicted="B", correct=False, margin=-1.0)


def tied() -> Item:
    """Return a tie."""
    return replace(BLANK, outcome="tie", predicted=None, correct=False, margin=0.0)


def failed(outcome: str = "parse_error") -> Item:
    """Return an item without a verdict."""
    return replace(BLANK, outcome=outcome, predicted=None, correct=False, margin=None, margins={})


def free() -> Item:
    """Return an item without a right answer."""
    return replace(BLANK, gold=None, correct=None)


def test_accuracy_by_its_four_names() -> None:
    """Five right, two wrong, two ties, one failure: strict, scored only, half credit, and the bounds around them."""
    items = [*[right()] * 5, *[wrong()] * 2, *[tied()] * 2, failed(), free()]
    found = metrics.accuracy_block(items)
    assert (found["n_total"], found["n_scored"], found["coverage"]) == (10, 9, 0.9)
    assert found["accuracy"] == 0.5
    assert found["accuracy_scored"] == pytest.approx(5 / 9, abs=1e-6)
    assert found["accuracy_half_credit"] == 0.6
    assert found["accuracy_bounds"] == [0.5, 0.8]
    low, high = found["accuracy_ci95"]
    assert low < 0.5 < high


def test_pairs_of_one_prompt_are_one_witness() -> None:
    """Nine pairs a prompt, right or wrong together, give the interval of the prompts, not of the pairs."""
    marks = [place < 30 for place in range(40) for _ in range(9)]
    items = [replace(right() if mark else wrong(), id=str(n), item=str(n)) for n, mark in enumerate(marks)]
    alone = metrics.accuracy_block(items)
    found = metrics.accuracy_block(items, {str(n): f"prompt {n // 9}" for n in range(len(items))})
    assert (alone["accuracy_ci95_unit"], found["accuracy_ci95_unit"]) == ("pair", "prompt")
    widths = [ends[1] - ends[0] for ends in (alone["accuracy_ci95"], found["accuracy_ci95"])]
    assert widths[1] == pytest.approx(3 * widths[0], rel=0.1)
    assert metrics.by_domain(items, {item.id: "one" for item in items})["d"]["ci95"] == alone["accuracy_ci95"]
    grouped = [replace(item, item=str(n // 9)) for n, item in enumerate(items)]
    assert metrics.accuracy_block(grouped) == found
    assert metrics.by_domain(grouped)["d"]["ci95"] == found["accuracy_ci95"]


def both(ab: float, ba: float, gold: str = "A") -> Item:
    """Return an item that was judged in both orders."""
    return replace(BLANK, margins={"ab": ab, "ba": ba}, gold=gold)


def test_the_audit_counts_flips_and_leaning() -> None:
    """Flip rate over pairs judged both ways; `lean_a` is the share of verdicts for the response shown first."""
    stuck_on_first = [both(1.0, -1.0)] * 3  # in the data's order: A when A was first, B when B was
    steady = [both(1.0, 1.0)] * 5
    found = metrics.order_block([*stuck_on_first, *steady, right(), failed()], OrderPolicy.HASH)
    assert (found["policy"], found["audited"]) == ("hash", 8)
    assert found["flip_rate"] == pytest.approx(3 / 8)
    assert found["lean_a"] == pytest.approx((3 * 2 + 5) / 16)


def stats(**changes: Any) -> EngineStats:
    """Return an engine's facts, 0 unless given."""
    return EngineStats(**changes)


def test_cost_is_that_of_the_answers_and_paid_is_that_of_this_run() -> None:
    """A run from the cache costs what its answers cost, and pays nothing; without a price both are unknown."""
    price = Price(input=1.0, cached=0.5, output=2.0)
    facts = stats(prompt_tokens=1_000_000, completion_tokens=500_000, cache_hits=7, usd=0.0)
    found = metrics.engine_block(facts, price)
    assert (found["cost_usd"], found["paid_usd"], found["calls"]["cache_hits"]) == (2.0, 0.0, 7)
    unknown = metrics.engine_block(stats(sent=3), None)
    assert (unknown["cost_usd"], unknown["paid_usd"], unknown["calls"]["sent"]) == (None, None, 3)
    offline = metrics.engine_block(None, None)
    assert (offline["cost_usd"], offline["calls"]["sent"]) == (0.0, 0)


def test_official_scores_see_margins_as_chosen_minus_rejected() -> None:
    """A pair whose chosen response is listed second is right when the margin favours B; failures stay in."""
    pairs = [
        PreferencePair(id=str(n), prompt=user_prompt("q"), chosen="c", rejected="r", domain="CHAT", chosen_first=n != 1)
        for n in range(4)
    ]
    margins = {"0": 1.0, "1": -1.0, "2": 0.0}
    items = [
        replace(BLANK, id=key, margin=margin, outcome="scored" if margin else "tie") for key, margin in margins.items()
    ]
    items.append(replace(failed(), id="3"))
    for credit, overall in ((0.0, 0.5), (0.5, 0.625)):
        assert metrics.official_block(get_adapter("rubricbench"), pairs, items, credit)["overall"] == overall


CHEAP, DEAR = Price(input=1.0, cached=0.5, output=2.0), Price(input=10.0, cached=1.0, output=20.0)


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
    costs: dict[str, Cost] = {"cheap": (mine, CHEAP), "dear": (other, DEAR), "rules": (None, None)}
    block = costs_block(costs)
    assert (block["cost_usd"], block["calls"]["sent"], block["paid_usd"]) == (21.0, 12, 21.0)
    assert {name: one["cost_usd"] for name, one in block["judges"].items()} == {
        "cheap": 1.0, "dear": 20.0, "rules": 0.0
    }  # fmt: skip


@pytest.mark.parametrize("key", ["cost_usd", "paid_usd"])
def test_a_sum_with_an_unknown_price_is_unknown(key: str) -> None:
    """One judge without a price: what it cost is not known, so the sum is not either."""
    costs: dict[str, Cost] = {"a": (stats(sent=1, usd=0.0), CHEAP), "b": (stats(sent=1), None)}
    block = costs_block(costs)
    assert block[key] is None
    assert block["judges"]["a"][key] == 0.0
