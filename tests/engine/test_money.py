"""Money: prices, caps, and the cost that a gateway reports."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from rig import ask, by_turn, completion, refusal, scripted_engine

from svr_async.engine.cache import Cache
from svr_async.engine.caller import COST_HEADER
from svr_async.engine.engine import Completion
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import Usage
from svr_async.engine.request import Request
from svr_async.engine.transport import RawReply
from svr_async.errors import BudgetError

# --- prices and caps --------------------------------------------------------------------------------------------------


def test_prices_are_per_million_tokens() -> None:
    """Fresh input, cached input and output have their own prices; a batch costs half; unknown tokens cost nothing."""
    price = Price(input=1.0, cached=0.1, output=10.0)
    usage: dict[str, Any] = {"prompt_tokens": 1_000_000, "cached_tokens": 400_000, "completion_tokens": 100_000}
    assert math.isclose(price.cost(Usage(**usage)), 0.6 + 0.04 + 1.0)
    assert math.isclose(price.cost(Usage(**usage, batch=True)), (0.6 + 0.04 + 1.0) / 2)
    assert price.cost(Usage()) == 0
    assert price.cost(Usage(prompt_tokens=5, cached_tokens=9)) >= 0


# --- the cost that a gateway reports ----------------------------------------------------------------------------------


def in_body(usd: float) -> RawReply:
    """Return a completion with OpenRouter's cost."""
    return completion("yes", usage={"prompt_tokens": 100, "completion_tokens": 10, "cost": usd})


def in_header(usd: float) -> RawReply:
    """Return a completion with LiteLLM's cost."""
    return RawReply(status=200, headers={COST_HEADER: str(usd)}, body=completion("yes").body)


async def test_a_small_budget_is_hardly_exceeded(cache_folder: Path) -> None:
    """The first call goes alone, so that its cost is known before sixty others leave."""
    price = Price(input=1e6, cached=1e6, output=0.0)  # a dollar a token: each call costs 100
    reply = completion("yes", usage={"prompt_tokens": 100, "completion_tokens": 10})
    async with scripted_engine(cache_folder, by_turn(reply), budget=Budget(max_usd=250.0), price=price) as (
        engine,
        transport,
    ):
        await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(60)), return_exceptions=True)
        assert isinstance(engine.fatal, BudgetError)
        assert len(transport.sent) == 3


@pytest.mark.parametrize("priced", [in_body, in_header])
async def test_the_reported_cost_is_used_without_a_price(cache_folder: Path, priced: Any) -> None:
    """A budget in dollars stops the run; the cost is stored with the reply and known in a later run."""
    async with scripted_engine(cache_folder, by_turn(priced(1.0)), budget=Budget(max_usd=5.0), concurrency=2) as (
        engine,
        transport,
    ):
        found = await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(20)), return_exceptions=True)
        paid = sum(isinstance(one, Completion) for one in found)
        assert isinstance(engine.fatal, BudgetError)
        assert len(transport.sent) == paid
        assert 5 <= paid <= 6
        assert engine.stats().usd == engine.stats().reported_usd == paid
    async with scripted_engine(cache_folder, by_turn(AssertionError("a call"))) as (engine, _):
        done = await engine.complete(ask("q0"))
        assert done.reply is not None
        assert done.reply.usage.cost_usd == 1.0
        assert (engine.stats().usd, engine.stats().reported_usd) == (None, 1.0)


async def test_a_budget_without_any_cost_ends_the_run_after_one_call(cache_folder: Path) -> None:
    """The other calls wait for the first reply; the hint names both ways out; the reply is kept."""

    async def answer(_: Request, __: int) -> RawReply:
        await asyncio.sleep(0.01)
        return completion("yes")

    async with scripted_engine(cache_folder, answer, budget=Budget(max_usd=5.0)) as (engine, transport):
        await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(20)), return_exceptions=True)
        assert isinstance(engine.fatal, BudgetError)
        assert "the endpoint reports no cost" in engine.fatal.message
        assert "--price" in engine.fatal.hint
        assert "--max-calls" in engine.fatal.hint
        assert len(transport.sent) == 1
    cache = Cache.open(cache_folder)
    assert cache.get(ask("q0").request.key) is not None
    cache.close()


async def test_failures_before_the_first_cost_hold_nothing_up(cache_folder: Path) -> None:
    """A failed first call lets the next one try; after the first cost, calls run side by side."""
    turns = by_turn(refusal(500), refusal(400), in_header(0.01))
    async with scripted_engine(cache_folder, turns, budget=Budget(max_usd=5.0)) as (engine, transport):
        found = await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(20)))
        assert sum(one.value == "yes" for one in found) == 19
        assert len(transport.sent) == 21
