"""A judge that is down, slow, lying, refusing or too dear: the declared fallback, marked and counted, no error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from arena import PROMPT, TEXTS, Arena, arena, output, rollout
from rig import until

from svr_async.server import referee
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig

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
REWARDS = 9  # in the replies to them: compare and rerank have two each, our own has none


def number_in(path: str, told: Any) -> Any:
    """Return the number that a client of a shape reads first."""
    read = {
        "/get_reward": lambda: told["rewards"][0],
        "/reward?key=reward": lambda: told["reward"],
        "/verify": lambda: told["reward"],
        "/compare": lambda: told["rewards"][0],
        "/rerank": lambda: told["results"][0]["relevance_score"],
        "/score": lambda: told["data"][0]["score"],
        "/classify": lambda: told["data"][0]["probs"][0],
        "/v1/svr/compare": lambda: told["margin"],
    }
    return read[path]()


async def all_fall_back(at: Arena, value: float, reason: str) -> None:
    """Ask in every shape at once: each reply is a 200 with the fallback, marked in its header and counted."""
    before = at.server.tally.rewards[reason]

    async def ask(path: str) -> None:
        async with at.client.post(at.server.url + path, json=BODIES[path]) as reply:
            assert reply.status == 200
            assert int(reply.headers["X-SVR-Fallback"]) >= 1
            told = await reply.json()
        assert number_in(path, told) == (None if path == "/v1/svr/compare" else value)
        assert path != "/verify" or told["mask_sample"]

    await asyncio.gather(*map(ask, BODIES))
    assert at.server.tally.rewards[reason] - before == REWARDS


async def test_a_judge_that_is_down_then_there_again(tmp_path: Path) -> None:
    """Everyone is answered at the deadline; what is asked later is judged."""
    async with arena(tmp_path, fallback=-1.5, deadline_s=0.4, gather_s=0.2) as at:
        await at.sim.go_down()
        await all_fall_back(at, -1.5, "deadline")
        await at.sim.come_back()
        await until(lambda: at.sim.stats()["paid"] == 2)  # all that was asked meanwhile is answered, and kept
        for path in ("/get_reward", "/v1/svr/compare"):
            while number_in(path, await at.told(path, BODIES[path])) in {None, -1.5}:
                pass  # a busy machine misses a deadline more


async def test_a_slow_judge_is_not_waited_for_and_its_answer_is_kept(tmp_path: Path) -> None:
    """The deadline holds; the call goes on, and the same question is answered of the cache later."""
    async with arena(tmp_path, SimConfig(latency_ms=600.0, latency_sigma=0.01), deadline_s=0.3, gather_s=0.2) as at:
        await all_fall_back(at, 0.0, "deadline")
        await until(lambda: not at.server.rewarder._work)
        paid = at.sim.stats()["paid"]
        assert (await at.told("/v1/svr/compare", BODIES["/v1/svr/compare"]))["margin"] is not None
        assert at.sim.stats()["paid"] == paid


async def test_a_lying_judge_is_no_judge(tmp_path: Path) -> None:
    """Replies that cannot be read are asked for again, then given up: a parse error is counted, no number invented."""
    faults = FaultConfig(rate=1.0, kinds=("empty-content",), max_faulty_attempts=99)
    async with arena(tmp_path, SimConfig(faults=faults), fallback=0.125) as at:
        await all_fall_back(at, 0.125, "parse_error")
        assert at.server.tally.judgements["parse_error"] > 0
        _, metrics = await at.get("/metrics")
        assert f'svr_server_rewards_total{{reason="parse_error"}} {REWARDS}.0' in metrics
        assert f"svr_server_fallbacks_total {REWARDS}.0" in metrics


async def test_one_response_that_cannot_be_judged_costs_only_itself(tmp_path: Path) -> None:
    """The others of its group have scores among themselves; the broken circle is still a line."""
    faults = FaultConfig(poison=("POISON",))
    async with arena(
        tmp_path, SimConfig(faults=faults), fallback=-1.0, deadline_s=2.0, gather_s=1.0, drain_s=0.0
    ) as at:
        texts = [*TEXTS[:2], "POISON", TEXTS[3]]
        told = await at.told("/reward?key=reward", {"prompt": PROMPT, "responses": texts})
        assert [one["svr_fallback"] for one in told] == [False, False, True, False]
        assert (told[2]["reward"], told[2]["svr_coverage"]) == (-1.0, 0.0)
        assert [one["svr_coverage"] for one in told[:2]] == [1.0, 0.5]
        assert sum(one["reward"] for one in told if not one["svr_fallback"]) == pytest.approx(0.0, abs=1e-6)


async def test_a_refused_account_is_asked_again_after_a_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is made meanwhile, a line says why; another engine on the same cache goes on when there is credit."""
    monkeypatch.setattr(referee, "REST_S", 0.2)
    async with arena(tmp_path, SimConfig(quota=1)) as at:
        compared = {"prompt": PROMPT, "a": TEXTS[4], "b": TEXTS[5]}
        margin = (await at.told("/v1/svr/compare", compared))["margin"]
        await all_fall_back(at, 0.0, "api_error")
        status, ready = await at.get("/readyz")
        assert (status, orjson.loads(ready)["status"]) == (503, "no judge")
        assert any("every reward is the fallback" in line for line in at.said)
        assert (await at.told("/v1/svr/compare", compared))["margin"] is None
        at.sim.reset()
        await asyncio.sleep(0.25)
        assert (await at.told("/v1/svr/compare", compared))["margin"] == margin
        assert (await at.told("/v1/svr/compare", {**compared, "b": TEXTS[6]}))["margin"] is not None
        assert at.said[-1] == "asking the judge again"
        assert (await at.get("/readyz"))[0] == 200
        assert at.server.tally.renewed == 1


async def test_a_cap_on_calls_is_for_as_long_as_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent beyond it, also not by another engine; only a new start spends more."""
    monkeypatch.setattr(referee, "REST_S", 0.0)
    async with arena(tmp_path, limits={"max_calls": 2}) as at:
        told = await at.told("/reward?key=reward", {"prompt": PROMPT, "responses": TEXTS[:6]})
        assert any(one["svr_fallback"] for one in told)
        await all_fall_back(at, 0.0, "api_error")
        assert at.sim.stats()["calls"] == 2
        assert "until the server is started again" in " ".join(at.said)


async def test_a_bug_is_a_line_and_a_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong below, a trainer has its reply."""

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oh no")

    async with arena(tmp_path) as at:
        monkeypatch.setattr(at.server.referee, "_pair", broken)
        monkeypatch.setattr(referee, "score", broken)
        await all_fall_back(at, 0.0, "api_error")
        assert "a bug: RuntimeError: oh no" in at.said[0]


async def test_an_engine_with_many_failures_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it neither grows, nor keeps to what an endpoint could not do an hour ago."""
    monkeypatch.setattr(referee, "MOST_FAILURES", 1)
    faults = FaultConfig(rate=1.0, kinds=("empty-content",), max_faulty_attempts=99)
    async with arena(tmp_path, SimConfig(faults=faults)) as at:
        for number in range(6):
            body = {"prompt": PROMPT, "a": f"Answer {number}", "b": TEXTS[0]}
            assert (await at.told("/v1/svr/compare", body))["margin"] is None
        assert at.server.tally.renewed == 3
        assert at.said == []
