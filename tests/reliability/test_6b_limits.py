"""Rows 24 to 42 of the fault table that no other test carries: HTTP statuses and limits. See `rows.py` for the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from rig import ask, completion, judge_at, pairs, refusal, scripted_engine

from svr_async.engine.engine import CallEngine, Completion
from svr_async.engine.request import Request
from svr_async.engine.transport import RawReply
from svr_async.errors import RefusedError
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import Order, present
from svr_async.vocabulary.verdict import Outcome


async def outcomes(engine: CallEngine, count: int) -> list[Completion[str] | BaseException]:
    """Ask so many questions and return what came of each."""
    questions = [engine.complete(ask(f"q{n}")) for n in range(count)]
    return await asyncio.gather(*questions, return_exceptions=True)


async def test_row_024_the_same_refusal_from_the_start(cache_folder: Path) -> None:
    """When every call gets the same 400 from the first on, that is our request and not the items: exit 4, soon."""

    def answer(_: Request, __: int) -> RawReply:
        return refusal(400, "unknown parameter: reasoning_effort")

    async with scripted_engine(cache_folder, answer) as (engine, transport):
        found = await outcomes(engine, 200)
        assert isinstance(engine.fatal, RefusedError)
        assert (engine.fatal.exit_code, "reasoning_effort" in engine.fatal.one_line()) == (4, True)
        assert len(transport.sent) < 100
    assert any(isinstance(one, RefusedError) for one in found)


async def test_row_024_a_refusal_now_and_then(cache_folder: Path) -> None:
    """Where others are answered, a 400 is the outcome of its item and is not tried again."""

    def answer(request: Request, _: int) -> RawReply:
        return completion("yes") if int(request.messages[0][1][1:]) % 2 else refusal(400, "no")

    async with scripted_engine(cache_folder, answer) as (engine, transport):
        found = await outcomes(engine, 100)
        assert sum(isinstance(one, Completion) and one.value == "yes" for one in found) == 50
        assert (len(transport.sent), engine.fatal) == (100, None)


async def test_row_037_one_poisoned_pair_of_many(cache_folder: Path) -> None:
    """A pair on which the endpoint always fails costs at most twenty calls; the others are paid for once."""
    shown = [present(pair, Order.AB) for pair in pairs(60)]
    poison = shown[30].response_a[:60]
    config = SimConfig(latency_ms=5.0, faults=FaultConfig(poison=(poison,)))
    async with SimServer(config) as sim, judge_at(sim.base_url, cache_folder, concurrency=4) as judge:
        found = await asyncio.gather(*(judge.prefer(one) for one in shown))
        calls = [record.fault for record in sim.log()]
        assert {row["paid"] for row in sim.counts().values()} == {0, 1}
    assert [number for number, answer in enumerate(found) if answer.value is None] == [30]
    assert found[30].outcome is Outcome.API_ERROR
    assert 1 < calls.count("poison") <= 20
    assert calls.count("") == 59


@pytest.mark.parametrize("stubborn", [False, True], ids=["asks for freshness", "ignores the request for freshness"])
async def test_row_040_a_gateway_that_replays(cache_folder: Path, stubborn: bool) -> None:
    """A gateway that replays an unreadable reply is got past, with a header first and with other words after that."""
    kept: dict[bytes, RawReply] = {}

    def answer(request: Request, number: int) -> RawReply:
        if request.body_bytes in kept and (stubborn or not request.no_cache):
            return kept[request.body_bytes]
        kept[request.body_bytes] = completion("bad" if number == 0 else "good", id=f"c{number}")
        return kept[request.body_bytes]

    async with scripted_engine(cache_folder, answer) as (engine, transport):
        assert (await engine.complete(ask())).value == "good"
        assert len(transport.sent) == (3 if stubborn else 2)
    async with scripted_engine(cache_folder, lambda *_: AssertionError("a call")) as (engine, _):
        assert (await engine.complete(ask())).value == "good"
