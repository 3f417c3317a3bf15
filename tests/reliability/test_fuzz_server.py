"""Bodies of every shape that `svr serve` takes, damaged: a status that is told, one line, and no bug behind it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from fuzz_mutation import broken_bytes, broken_json
from soak_report import note

from svr_async.judges.limits import JudgeLimits
from svr_async.server.listen import RewardServer
from svr_async.server.settings import ServerSettings
from svr_async.server.shapes.registry import ROUTES

SEED = int(os.environ.get("SOAK_SEED", "1"))  # read when loaded: tests run in an environment of their own
BODIES = int(os.environ.get("SOAK_BODIES", "20000"))
STATUSES = {200, 400, 409, 413, 422, 429}
AT_A_TIME = 16


def body(rng: random.Random) -> tuple[str, bytes]:
    """Return a path and a body: an example of its shape, changed a few times, as JSON or in its bytes."""
    route = rng.choice(ROUTES)
    data = json.dumps(rng.choice([route.body, {**route.body, "group": "g", "group_size": 2, "member": 1}])).encode()
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            data = broken_json(data, rng) if rng.random() < 0.85 else broken_bytes(data, rng)
        except (ValueError, RecursionError):
            data = broken_bytes(data, rng)
    return rng.choice(route.paths), data


async def flood(cache: Path, count: int) -> Counter[int]:
    """Send so many damaged bodies; return how often each status came back."""
    said: list[str] = []
    settings = ServerSettings(port=0, deadline_s=20.0, gather_s=0.05, drain_s=5.0)
    server = RewardServer("rules", settings=settings, limits=JudgeLimits(cache=cache), say=said.append)
    rng, statuses, room = random.Random(SEED), Counter[int](), asyncio.Semaphore(AT_A_TIME)
    async with server, aiohttp.ClientSession() as client:

        async def one() -> None:
            path, data = body(rng)
            async with room, client.post(server.url + path, data=io.BytesIO(data)) as reply:
                told = await reply.read()
                statuses[reply.status] += 1
                assert reply.status in STATUSES, (path, data[:300], told[:300])
                json.loads(told)
                assert b"Traceback" not in told

        for _ in range(0, count, 500):
            await asyncio.gather(*(one() for _ in range(min(count, 500))))
        assert server.tally.under_way == 0
    assert not [line for line in said if "a bug" in line], said
    return statuses


async def test_some_damaged_bodies(cache_folder: Path) -> None:
    """Three hundred: some are answered, most are refused."""
    statuses = await flood(cache_folder, 300)
    assert statuses[200] > 20
    assert statuses[422] > 20


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_many_damaged_bodies(cache_folder: Path) -> None:
    """SOAK_BODIES of them, from SOAK_SEED on."""
    statuses = await flood(cache_folder, BODIES)
    note("P16", "damaged bodies to svr serve", bodies=statuses.total(), statuses=dict(statuses), bugs=0)
