"""Judges over real HTTP, against the simulated endpoint with its faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimConfig, SimServer
from rig import judge_at, pairs, shown

from svr_async.core.pair import Order, present
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.http import HttpTransport
from svr_async.judges.model import ModelJudge
from svr_async.judges.protocol import Reasked
from svr_async.simulation.simulator import FAULTS

N_PAIRS = 2


def opened(judge: ModelJudge) -> bool:
    """Whether the transport opened a session."""
    transport = judge.engine._caller.pool.endpoints[0].transport
    assert isinstance(transport, HttpTransport)
    return transport._session is not None


async def every_role(judge: ModelJudge, count: int = N_PAIRS) -> list[Any]:
    """Ask a judge everything about some pairs; return the answers, without the marks of repeated requests."""
    found: list[Awaitable[Any]] = []
    for pair in pairs(count):
        seen = present(pair, Order.AB)
        rubrics = [Rubric(text=text) for text in pair.rubrics]
        found += [
            judge.prefer(seen),
            judge.compare(seen, rubrics, overall=False),
            judge.compare(seen, rubrics[:3], overall=True),
            judge.write_rubrics(seen.prompt),
            judge.score(seen.prompt, seen.response_a, rubrics),
        ]
    return [
        replace(answer, requests=tuple(key for key in answer.requests if not isinstance(key, Reasked)))
        for answer in await asyncio.gather(*found)
    ]


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the answers of an endpoint without faults."""

    async def collect() -> list[Any]:
        async with SimServer() as sim, judge_at(sim.base_url, tmp_path_factory.mktemp("smooth") / "cache") as judge:
            judge_ = replace(judge, writer=same_writer(judge))
            return await every_role(judge_)

    return asyncio.run(collect())


def same_writer(judge: ModelJudge) -> Any:
    """Give every server the same name, so that cache keys can be compared."""
    return replace(judge.writer, profile=replace(judge.writer.profile, identity="sim"))


@pytest.mark.parametrize("kind", FAULTS)
async def test_each_fault_changes_only_the_number_of_calls(cache_folder: Path, smooth: list[Any], kind: str) -> None:
    """Whatever fails on the first tries, every answer equals that of an endpoint without faults."""
    async with SimServer(SimConfig(fault_rate=1.0, faults=(kind,))) as sim:
        async with judge_at(sim.base_url, cache_folder, concurrency=32) as judge:
            found = await every_role(replace(judge, writer=same_writer(judge)))
            stats = judge.engine.stats()
        assert kind in sim.stats()["faults"]
    assert found == smooth
    assert stats.in_flight == 0
    assert stats.sent > len(smooth)


async def test_a_context_that_is_too_small_halves_the_list_of_rubrics(cache_folder: Path) -> None:
    """Rubrics that do not fit into one request are judged in parts, with the same answers."""
    seen = shown()
    rubrics = [Rubric(text=f"{text} ({number})") for number in range(8) for text in pairs(1)[0].rubrics]
    async with SimServer() as sim, judge_at(sim.base_url, cache_folder / "a") as judge:
        whole = await judge.compare(seen, rubrics, overall=False)
        tokens = judge.writer.compare(seen, rubrics, overall=False)
    small = tokens.request.prompt_chars // 4 - 300
    async with SimServer(SimConfig(context_tokens=small)) as sim, judge_at(sim.base_url, cache_folder / "b") as judge:
        parts = await judge.compare(seen, rubrics, overall=False)
        assert whole.value == parts.value
        assert len(parts.requests) > 1
        alone = await judge.compare(seen, rubrics, overall=True)
        assert alone.outcome is Outcome.CONTEXT_TOO_LONG


async def test_a_pair_that_never_fits_is_context_too_long(cache_folder: Path) -> None:
    """Even one rubric is too much; a request beyond the profile's context is not sent."""
    seen = shown()
    rubrics = [Rubric(text=text) for text in pairs(1)[0].rubrics]
    async with SimServer(SimConfig(context_tokens=50)) as sim, judge_at(sim.base_url, cache_folder) as judge:
        assert (await judge.compare(seen, rubrics, overall=False)).outcome is Outcome.CONTEXT_TOO_LONG
        tiny = replace(judge, writer=replace(judge.writer, profile=replace(judge.writer.profile, context_tokens=10)))
        calls = sim.stats()["calls"]
        answer = await tiny.prefer(seen)
        assert (answer.outcome, sim.stats()["calls"]) == (Outcome.CONTEXT_TOO_LONG, calls)
        assert "not sent" in answer.detail


async def test_offline_opens_no_socket(cache_folder: Path) -> None:
    """Offline, answers come from the cache only; the endpoint sees nothing."""
    async with SimServer() as sim:
        async with judge_at(sim.base_url, cache_folder) as judge:
            first = await judge.prefer(shown(0))
        calls = sim.stats()["calls"]
        async with judge_at(sim.base_url, cache_folder, offline=True) as judge:
            assert await judge.prefer(shown(0)) == first
            missing = await judge.prefer(shown(1))
            assert (missing.outcome, missing.value) == (Outcome.API_ERROR, None)
            assert not opened(judge)
        assert sim.stats()["calls"] == calls
