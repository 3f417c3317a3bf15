"""The simulated endpoint over real HTTP: replies, limits, log, outages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
import sim_requests as ask
from endpoint import SimConfig, SimServer

from svr_async.errors import ConfigError
from svr_async.simulation.judge import MODELS
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.world import World

WORLD = World()
ITEMS = list(WORLD.pairs(40, "server"))


async def post(
    session: aiohttp.ClientSession, sim: SimServer, body: dict[str, Any], **headers: Any
) -> tuple[Any, Any, Any]:
    """Post a body; return status, headers and the JSON of the reply."""
    async with session.post(f"{sim.base_url}/chat/completions", json=body, headers=headers) as response:
        return response.status, response.headers, await response.json()


async def test_http_gives_the_reply_of_the_simulator() -> None:
    """Over HTTP a request has the reply of `Simulator.answer`, byte for byte on the first attempt."""
    body = ask.of_pair(WORLD, ITEMS[0], overall=True)
    async with SimServer() as sim, aiohttp.ClientSession() as session:
        status, _, reply = await post(session, sim, body)
        _, _, again = await post(session, sim, body)
    assert status == 200
    assert reply == Simulator().answer(body)
    assert again["choices"] == reply["choices"]
    assert again["id"] != reply["id"]


async def test_models_are_listed_and_others_refused() -> None:
    """`/v1/models` lists the models; any other is a 404 in OpenAI's form."""
    async with SimServer() as sim, aiohttp.ClientSession() as session:
        async with session.get(f"{sim.base_url}/models") as response:
            listed = await response.json()
        status, _, reply = await post(session, sim, ask.body("a", "b", model="gpt-17"))
    assert [row["id"] for row in listed["data"]] == list(MODELS)
    assert (status, reply["error"]["code"]) == (404, "model_not_found")


async def test_a_wrong_key_is_refused_and_not_repeated() -> None:
    """With a key set, calls without it get a 401 that does not hold what was sent; with it they are served."""
    async with SimServer(SimConfig(api_key="sim-key")) as sim, aiohttp.ClientSession() as session:
        body = ask.of_pair(WORLD, ITEMS[0])
        missing, _, _ = await post(session, sim, body)
        wrong, _, reply = await post(session, sim, body, Authorization="Bearer nonsense")
        right, _, _ = await post(session, sim, body, Authorization="Bearer sim-key")
        async with session.get(f"{sim.base_url}/models") as response:
            models = response.status
    assert (missing, wrong, right, models) == (401, 401, 200, 401)
    assert reply["error"]["code"] == "invalid_api_key"
    assert "nonsense" not in json.dumps(reply)


async def test_a_body_that_is_no_json_is_a_400() -> None:
    """Garbage is refused as a bad request, and not paid."""
    async with SimServer() as sim, aiohttp.ClientSession() as session:
        async with session.post(f"{sim.base_url}/chat/completions", data=b"{nope") as response:
            assert response.status == 400
        assert sim.stats()["paid"] == 0


async def test_requests_a_minute() -> None:
    """Beyond the limit, calls get a 429 with Retry-After, and are not paid."""
    async with SimServer(SimConfig(rpm=60)) as sim, aiohttp.ClientSession() as session:
        first = await post(session, sim, ask.of_pair(WORLD, ITEMS[0]))
        second = await post(session, sim, ask.of_pair(WORLD, ITEMS[1]))
        assert first[0] == 200
        assert second[0] == 429
        assert second[2]["error"]["code"] == "rate_limit_exceeded"
        assert 0 < float(second[1]["Retry-After"]) <= 1.01
        assert sim.stats()["paid"] == 1


async def test_a_used_up_quota_is_final() -> None:
    """After the quota every call is a 429 `insufficient_quota`, also for requests answered before."""
    async with SimServer(SimConfig(quota=2)) as sim, aiohttp.ClientSession() as session:
        seen = [await post(session, sim, ask.of_pair(WORLD, item)) for item in [*ITEMS[:3], ITEMS[0]]]
        assert [status for status, _, _ in seen] == [200, 200, 429, 429]
        assert seen[2][2]["error"]["code"] == "insufficient_quota"
        assert "Retry-After" not in seen[2][1]
        assert sim.stats()["paid"] == 2


async def test_calls_are_counted() -> None:
    """Every call has a record; reset forgets all."""
    config = SimConfig(fault_rate=1.0, faults=("500",), faulty_attempts=1)
    async with SimServer(config) as sim, aiohttp.ClientSession() as session:
        for item in (ITEMS[0], ITEMS[0], ITEMS[0], ITEMS[1]):
            await post(session, sim, ask.of_pair(WORLD, item))
        assert [*sim.paid().values()] == [2]
        assert sim.stats() == {"calls": 4, "paid": 2, "completed": 2, "in_flight": 0, "faults": {"500": 2}}
        sim.reset()
        assert sim.log() == ()
        assert (await post(session, sim, ask.of_pair(WORLD, ITEMS[0])))[0] == 500


async def test_a_client_that_leaves_has_paid() -> None:
    """A call given up while the server works is paid and not completed, and no longer in flight."""
    async with SimServer(SimConfig(latency_ms=600_000)) as sim, aiohttp.ClientSession() as session:
        task = asyncio.create_task(post(session, sim, ask.of_pair(WORLD, ITEMS[0])))
        await ask.settle(sim, lambda sim: sim.stats()["in_flight"] == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await ask.settle(sim, lambda sim: sim.stats()["in_flight"] == 0)
        record = sim.log()[0]
    assert (record.paid, record.completed) == (True, False)


async def test_an_outage_refuses_connections_and_ends() -> None:
    """While down, connections are refused and open ones cut; then the same address serves again."""
    async with SimServer() as sim, aiohttp.ClientSession() as session:
        body = ask.of_pair(WORLD, ITEMS[0])
        assert (await post(session, sim, body))[0] == 200
        await sim.stop()
        with pytest.raises(aiohttp.ClientConnectionError):
            await post(session, sim, body)
        await sim.start()
        assert (await post(session, sim, body))[0] == 200


async def test_a_port_that_is_taken_is_refused() -> None:
    """A second server on the same port says which address is taken."""
    async with SimServer() as sim:
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{sim.port}"):
            async with SimServer(SimConfig(port=sim.port)):
                pass


async def patient(session: aiohttp.ClientSession, sim: SimServer, body: dict[str, Any]) -> tuple[Any, int]:
    """Ask until the reply is whole and right in form, as a careful client would; return its choices and attempts."""
    for attempt in range(1, 10):
        try:
            async with session.post(f"{sim.base_url}/chat/completions", json=body, allow_redirects=False) as response:
                reply = json.loads(await response.read())
                rows = json.loads(ask.content(reply))["rubric_comparisons"]
                if response.status == 200 and [row["rubric_id"] for row in rows] == [f"R{n}" for n in range(1, 7)]:
                    return reply["choices"], attempt
        except (aiohttp.ClientError, OSError, ValueError, KeyError, IndexError, TypeError, AssertionError):
            continue
    raise AssertionError("no whole reply in nine attempts")


async def test_repeated_calls_get_the_right_answer() -> None:
    """With every first and second attempt faulty, the third gives the reply of an endpoint without faults."""
    async with SimServer(SimConfig(fault_rate=1.0)) as sim, aiohttp.ClientSession() as session:
        bodies = [ask.of_pair(WORLD, item) for item in ITEMS]
        found = await asyncio.gather(*(patient(session, sim, body) for body in bodies))
        stats = sim.stats()
    honest = Simulator()
    assert [choices for choices, _ in found] == [honest.answer(body)["choices"] for body in bodies]
    assert max(attempts for _, attempts in found) <= 3
    assert set(stats["faults"]) == {"429", "500", "cut", "empty"}
    assert stats["completed"] == len(ITEMS)
