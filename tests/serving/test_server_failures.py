"""A judge that is down, slow, unreadable, refusing or too dear: the declared fallback, marked and counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from arena import PROMPT, TEXTS, Arena, arena, output, rollout
from endpoint import SimConfig
from rig import until

from svr_async.serving.server import rewarder

BODIES: dict[str, Any] = {
    "/get_reward": {"query": [PROMPT + TEXTS[0]], "prompts": [PROMPT], "labels": [""]},
    "/reward?key=reward": {"prompt": PROMPT, "response": TEXTS[0]},
    "/verify": rollout(0),
    "/compare": {"conversation_history": [{"role": "user", "content": PROMPT}],
                 "response_objs": [output(text) for text in TEXTS[:2]]},
    "/rerank": {"query": PROMPT, "documents": TEXTS[:2]},
    "/score": {"queries": PROMPT, "documents": TEXTS[:1]},
    "/classify": {"messages": [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": TEXTS[0]}]},
    "/v1/svr/compare": {"prompt": PROMPT, "a": TEXTS[0], "b": TEXTS[1]},
}  # fmt: skip
REWARDS = 9  # in these replies: compare and rerank have two each, our own comparison none


def number_in(path: str, found: Any) -> Any:
    """Return the number that a client of a shape reads first."""
    read = {
        "/get_reward": lambda: found["rewards"][0],
        "/reward?key=reward": lambda: found["reward"],
        "/verify": lambda: found["reward"],
        "/compare": lambda: found["rewards"][0],
        "/rerank": lambda: found["results"][0]["relevance_score"],
        "/score": lambda: found["data"][0]["score"],
        "/classify": lambda: found["data"][0]["probs"][0],
        "/v1/svr/compare": lambda: found["margin"],
    }
    return read[path]()


async def all_fall_back(at: Arena, value: float, reason: str) -> None:
    """Ask in every shape at once: each reply is a 200 with the fallback, marked in its header and counted."""
    before = at.server.rewarder.reasons[reason]

    async def ask(path: str) -> None:
        async with at.client.post(at.server.url + path, json=BODIES[path]) as reply:
            assert reply.status == 200
            assert int(reply.headers["X-SVR-Fallback"]) >= 1
            found = await reply.json()
        assert number_in(path, found) == (None if path == "/v1/svr/compare" else value)
        assert path != "/verify" or found["mask_sample"]

    await asyncio.gather(*map(ask, BODIES))
    assert at.server.rewarder.reasons[reason] - before == REWARDS


async def test_a_judge_that_is_down_and_comes_back(tmp_path: Path) -> None:
    """Everyone is answered at the deadline; later questions are judged."""
    async with arena(tmp_path, fallback=-1.5, deadline_s=0.4) as at:
        await at.sim.stop()
        await all_fall_back(at, -1.5, "deadline")
        await at.sim.start()
        for path in ("/get_reward", "/v1/svr/compare"):
            while number_in(path, await at.answer(path, BODIES[path])) in {None, -1.5}:
                pass  # a busy machine misses a deadline more


async def test_the_answer_of_a_slow_judge_is_kept(tmp_path: Path) -> None:
    """The deadline holds; the call continues, and the same question is answered by the cache later."""
    async with arena(tmp_path, SimConfig(latency_ms=2500.0), deadline_s=0.3) as at:
        await all_fall_back(at, 0.0, "deadline")
        await until(lambda: not at.server.judge._tasks)
        paid = at.sim.stats()["paid"]
        assert (await at.answer("/v1/svr/compare", BODIES["/v1/svr/compare"]))["margin"] is not None
        assert at.sim.stats()["paid"] == paid


async def test_an_unreadable_judge_gives_no_number(tmp_path: Path) -> None:
    """Replies that cannot be read are asked again, then a parse error is counted."""
    async with arena(tmp_path, SimConfig(fault_rate=1.0, faults=("empty",), faulty_attempts=99), fallback=0.125) as at:
        await all_fall_back(at, 0.125, "parse_error")
        _, metrics = await at.get("/metrics")
        assert f'svr_server_rewards_total{{reason="parse_error"}} {REWARDS}.0' in metrics


async def test_a_refused_account_is_asked_again_after_a_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is made meanwhile, a line says why; another engine on the same cache continues when there is credit."""
    monkeypatch.setattr(rewarder, "REST_S", 0.2)
    async with arena(tmp_path, SimConfig(quota=1)) as at:
        compared = {"prompt": PROMPT, "a": TEXTS[4], "b": TEXTS[5]}
        margin = (await at.answer("/v1/svr/compare", compared))["margin"]
        await all_fall_back(at, 0.0, "api_error")
        status, ready = await at.get("/readyz")
        assert (status, orjson.loads(ready)["status"]) == (503, "no judge")
        assert any("every reward is the fallback" in line for line in at.said)
        at.sim.reset()
        await asyncio.sleep(0.25)
        assert (await at.answer("/v1/svr/compare", compared))["margin"] == margin
        assert (await at.answer("/v1/svr/compare", {**compared, "b": TEXTS[6]}))["margin"] is not None
        assert (await at.get("/readyz"))[0] == 200


async def test_a_cap_on_calls_holds_while_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent beyond it, also not by another engine."""
    monkeypatch.setattr(rewarder, "REST_S", 0.0)
    async with arena(tmp_path, limits={"max_calls": 2}) as at:
        found = await at.answer("/reward?key=reward", {"prompt": PROMPT, "responses": TEXTS[:6]})
        assert any(one["svr_fallback"] for one in found)
        await all_fall_back(at, 0.0, "api_error")
        assert at.sim.stats()["calls"] == 2
        assert "until the server is started again" in " ".join(at.said)


async def test_a_bug_is_a_line_and_a_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails below, a trainer has its reply."""

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oh no")

    async with arena(tmp_path) as at:
        monkeypatch.setattr(rewarder, "ascore_pair", broken)
        monkeypatch.setattr(rewarder, "ascore", broken)
        await all_fall_back(at, 0.0, "api_error")
        assert "a bug: RuntimeError: oh no" in at.said[0]
