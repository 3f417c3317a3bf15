"""The order of the calls of one pair: the results do not depend on it, and what the endpoint has cached does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from rig import engine_at, pairs, writer

from svr_async.core.rubric import Rubric
from svr_async.judges.model import ModelJudge
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.config import SimConfig
from svr_async.simulation.prefix import PrefixCache
from svr_async.simulation.server import SimServer
from svr_async.training.rounds.config import PrefixOrder
from svr_async.training.rounds.judge_calls import Crew, PoolTask, judge_pools

POOL = [Rubric(text=criterion.rubric) for criterion in CRITERIA[:18]]
BLOCKS = 2048


async def judged(
    folder: Path, prefix: PrefixOrder, cache: PrefixCache
) -> tuple[list[dict[str, float]], dict[str, int], float]:
    """Judge pools of 18 rubrics in 3 calls each; return the entries, their outcomes and the share of cached input."""
    async with SimServer(SimConfig(prefix_blocks=BLOCKS)) as sim:
        sim.service.prefix = cache
        async with engine_at(sim.base_url, folder, concurrency=8) as engine:
            ask = writer(sim.base_url, identity="sim")
            crew = Crew(
                judge=ModelJudge(engine, ask), author=ModelJudge(engine, ask), workers=8, rubrics_per_call=6,
                prefix=prefix,
            )  # fmt: skip
            found, asked = await judge_pools(crew, [PoolTask(pair, POOL) for pair in pairs(40)])
            stats = engine.stats()
    assert stats.sent == 3 * 40
    return found, dict(asked.outcomes), stats.cached_tokens / stats.prompt_tokens


async def test_no_order_changes_a_result(tmp_path: Path) -> None:
    """All three orders give the same entries for the same pairs."""
    found = [await judged(tmp_path / order, order, PrefixCache(BLOCKS)) for order in PrefixOrder]
    assert found[0][:2] == found[1][:2] == found[2][:2]
    assert found[0][1] == {"scored": 120}
    assert all(len(entries) == 18 for entries in found[0][0])


async def test_with_a_leader_most_of_the_input_is_cached(tmp_path: Path) -> None:
    """Of 18 rubrics in 3 calls, at least 60 % of the input is read from the cache."""
    _, _, share = await judged(tmp_path, PrefixOrder.LEADER, PrefixCache(BLOCKS))
    assert share >= 0.6


@pytest.mark.parametrize("order", [PrefixOrder.ADJACENT, PrefixOrder.OFF])
async def test_a_small_cache_forgets_what_comes_back_late(tmp_path: Path, order: PrefixOrder) -> None:
    """Where the endpoint keeps little, requests that are far apart find nothing but the instructions; others do."""
    _, _, share = await judged(tmp_path, order, PrefixCache(200))
    assert share > 0.5 if order is PrefixOrder.ADJACENT else share < 0.4


async def test_side_by_side_nothing_is_computed_yet(tmp_path: Path) -> None:
    """A beginning that is still being computed serves nobody, which is why one request goes ahead of the rest."""
    _, _, share = await judged(tmp_path, PrefixOrder.ADJACENT, PrefixCache(BLOCKS, lag_s=math.inf))
    assert share == 0.0
