"""How calls are admitted, over real HTTP: limits a minute, slots, outages, several endpoints, one cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rig import QUICK, pairs, profile, shown, until, writer

from svr_async.engine.admission.lanes import Endpoints
from svr_async.engine.cache import Cache
from svr_async.engine.config import EngineConfig
from svr_async.engine.engine import CallEngine, Completion
from svr_async.engine.http.client import HttpTransport
from svr_async.engine.request import Question
from svr_async.engine.secrets import Secret
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import Order, present


@asynccontextmanager
async def engine_over(urls: list[str], cache: Path, **config: Any) -> AsyncIterator[CallEngine]:
    """Open an engine that finds out how many calls pay, over several endpoints."""
    settings = EngineConfig(**{"concurrency": 64, "adaptive": True, **QUICK, **config})
    transport = Endpoints({url: HttpTransport(url, Secret(""), timeout_s=20.0) for url in urls})
    async with CallEngine(transport, Cache.open(cache), config=settings) as engine:
        yield engine


def questions(count: int) -> list[Question[Any]]:
    """Return questions about planted pairs; their cache keys do not depend on the endpoint's address."""
    write = writer(identity="sim")
    return [write.direct(present(pair, Order.AB)) for pair in pairs(count)]


async def answers(engine: CallEngine, asked: list[Question[Any]]) -> list[Completion[Any]]:
    """Answer all questions and check that every one has a value."""
    found = await asyncio.gather(*(engine.complete(question) for question in asked))
    assert all(one.value is not None for one in found), [one.detail for one in found if one.value is None][:3]
    return found


async def test_an_endpoint_that_says_its_limit_turns_few_away(cache_folder: Path) -> None:
    """Its headers are enough, without a flag: nothing is lost, and hardly a call is sent for nothing."""
    async with SimServer(SimConfig(rpm=3000.0)) as sim, engine_over([sim.base_url], cache_folder) as engine:
        await answers(engine, questions(150))
        stats = engine.stats()
        assert stats.rate_limited <= 15
        assert engine._caller.snapshot()[0].rpm is not None


async def test_an_endpoint_with_few_slots_gets_no_storm(cache_folder: Path) -> None:
    """Replies are written four at a time and others queue: all are answered, with never more under way than allowed."""
    config = SimConfig(slots=4, latency_ms=10.0)
    async with SimServer(config) as sim, engine_over([sim.base_url], cache_folder, concurrency=32) as engine:
        await answers(engine, questions(200))
        assert sim.stats()["peak_in_flight"] <= 32
        assert engine.stats().retries == 0


async def test_an_outage_is_tried_by_few_calls_and_ends_by_itself(cache_folder: Path) -> None:
    """Nobody is there for a while: every question has its answer in the end, and the lane is open again."""
    async with SimServer(SimConfig(latency_ms=5.0)) as sim, engine_over([sim.base_url], cache_folder) as engine:
        task = asyncio.create_task(answers(engine, questions(200)))
        await until(lambda: sim.stats()["completed"] >= 40)
        await sim.go_down()
        await until(lambda: engine._caller.lane.all_down)
        assert engine._caller.snapshot()[0].state in {"down", "trying"}
        await sim.come_back()
        await task
        assert engine._caller.snapshot()[0].state in {"ready", "full"}


async def test_row_023_one_dead_of_three_endpoints(cache_folder: Path) -> None:
    """Two endpoints answer what three were meant to; the one that is not there costs no item."""
    async with AsyncExitStack() as stack:
        sims = [await stack.enter_async_context(SimServer(SimConfig(latency_ms=5.0))) for _ in range(3)]
        await sims[1].go_down()
        async with engine_over([sim.base_url for sim in sims], cache_folder, concurrency=12) as engine:
            await answers(engine, questions(200))
            first, dead, third = engine._caller.snapshot()
        assert (dead.succeeded, dead.state in {"down", "trying"}) == (0, True)
        assert min(first.succeeded, third.succeeded) >= 40
        assert first.succeeded + third.succeeded == 200


async def test_the_cache_does_not_mind_which_endpoint_answered(cache_folder: Path) -> None:
    """What two endpoints have answered is found by an engine that knows only one of them, or another one yet."""
    async with SimServer() as one, SimServer() as other, SimServer() as third:
        async with engine_over([one.base_url, other.base_url], cache_folder) as engine:
            first = await answers(engine, questions(60))
            assert one.stats()["paid"] + other.stats()["paid"] == 60
            assert min(one.stats()["paid"], other.stats()["paid"]) > 0
        async with engine_over([third.base_url], cache_folder) as engine:
            again = await answers(engine, questions(60))
        assert third.stats()["calls"] == 0
    assert [one.value for one in first] == [one.value for one in again]


def test_a_second_address_does_not_change_a_cache_key() -> None:
    """The first address names the cache, so that an endpoint can be added to a run that has begun."""
    alone, both = writer("http://a:1/v1"), writer("http://a:1/v1,http://b:2/v1")
    assert alone.direct(shown()).request.key == both.direct(shown()).request.key
    assert both.profile.base_urls == ("http://a:1/v1", "http://b:2/v1")
    assert profile("http://b:2/v1").identity == "http://b:2/v1"
