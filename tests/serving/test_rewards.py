"""Rewards without any trainer: groups, failures, loops, logs, servers; what TRL, verl and promptfoo get."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from endpoint import SimServer
from rewarding import a_server, judged_by
from rig import pairs, serving, serving_routes
from small_bank import checked_bank

from svr_async.errors import BudgetError, ConfigError, EndpointDownError, UsageError
from svr_async.serving.hooks import judging as held
from svr_async.serving.hooks.judging import PREFIX, HookSettings, configure, current
from svr_async.serving.hooks.promptfoo import get_assert
from svr_async.serving.hooks.trl import SvrReward, group_rewards, svr_reward
from svr_async.serving.hooks.verl import compute_score, single_reward

ASKED = "Say it in a few words: what is bread?"
SHORT, LONG = "Baked dough.", "Bread is a food that people bake of flour and water, and eat every day of the week."
KEYS = ("score", "svr_score", "svr_fallback", "svr_coverage", "svr_members", "svr_reason", "svr_judge")
DEAD = "http://127.0.0.1:9/v1#m"


@pytest.fixture
def bank(tmp_path: Path) -> str:
    """Save a bank that the rules judge decides."""
    checked_bank().save(tmp_path / "bank")
    return str(tmp_path / "bank")


def known(values: list[float | None]) -> list[float]:
    """Return rewards; fail if one is None."""
    found = [value for value in values if value is not None]
    assert len(found) == len(values)
    return found


def test_settings_are_variables_that_children_inherit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are in the environment; None unsets one; an invalid one is named."""
    given: dict[str, Any] = {"judge": "rules", "top_k": 3, "budget": 2.5, "schedule": "circle"}
    assert configure(**given) == HookSettings(**given)
    assert configure(top_k=None).top_k is None
    for wrong, says in (
        ({"juge": 1}, "unknown setting SVR_HOOK_JUGE"),
        ({"schedule": "x"}, "schedule"),
        ({"group": 1}, ">= 2"),
    ):
        with pytest.raises(ConfigError, match=says):
            configure(**wrong)
        configure(schedule=None, group=None)
    monkeypatch.setenv(PREFIX + "TOP_K", "many")
    with pytest.raises(ConfigError, match="top_k"):
        current()


async def test_groups_are_ranked_each_within_itself(bank: str) -> None:
    """By equal prompts in a row, or by their number; two rewards add up to 0; equal completions have equal ones."""
    prompts, completions = [ASKED] * 2 + ["Why?"] * 3, [LONG, SHORT, LONG, SHORT, SHORT]
    found = await group_rewards(HookSettings(judge="rules", bank=bank), prompts, completions)
    values = known(found.values)
    assert values[1] > 0 > values[0]
    assert sum(values[:2]) == pytest.approx(0)
    assert values[3] == values[4]
    assert found.reasons[1].startswith("+0.")
    assert "no model" in found.judge
    assert found.metrics().keys() == {"svr/no_reward", "svr/questions", "svr/spread"}
    one = [[{"role": "user", "content": ASKED}]] * 4  # the same prompt twice in a row, as messages
    said = [[{"role": "assistant", "content": text}] for text in (LONG, SHORT, SHORT, SHORT)]
    settings = HookSettings(judge="rules", bank=bank, group=2)
    values = known((await group_rewards(settings, one, said)).values)
    assert (values[0] < values[1], values[2:]) == (True, [0.0, 0.0])


async def test_what_cannot_be_compared_has_no_reward(bank: str) -> None:
    """A lone completion and one that is not a text have None, which is not 0; a cut group is an error with a hint."""
    settings = HookSettings(judge="rules", bank=bank)
    odd = [{"role": "user", "content": "not mine"}]
    values = (await group_rewards(settings, [ASKED] * 3 + ["Why?"], [LONG, odd, SHORT, SHORT])).values
    assert [value is None for value in values] == [False, True, False, True]
    with pytest.raises(UsageError, match="GROUP is 2") as raised:
        await group_rewards(HookSettings(judge="rules", bank=bank, group=2), [ASKED] * 3, [LONG] * 3)
    assert "num_generations" in raised.value.hint
    alone = HookSettings(judge="rules", bank=bank, method="pointwise")
    values = (await group_rewards(alone, [ASKED, "Why?"], [SHORT, LONG])).values
    assert all(value is not None and 0 <= value <= 1 for value in values)
    with pytest.raises(UsageError, match="needs a bank or rubrics"):
        await group_rewards(HookSettings(judge="rules", method="pointwise"), [ASKED], [SHORT])
    with pytest.raises(ConfigError, match="no judge is set"):
        await group_rewards(HookSettings(), [ASKED], [SHORT])


def test_one_engine_serves_all_loops_of_a_process(sim: SimServer, tmp_path: Path) -> None:
    """Two loops on two threads at once, and one after the other: one engine is opened, and nothing is asked twice."""
    judged_by(sim, tmp_path)
    before, results = len(sim.log()), {}

    def ask(name: int) -> None:
        results[name] = asyncio.run(svr_reward([ASKED] * 2, [LONG, SHORT]))

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ask(2)
    assert results[0] == results[1] == results[2]
    assert (len(held._ENGINES), len(sim.log()) - before) == (1, 1)


def test_a_judge_that_is_down_gives_none_until_it_is_back(tmp_path: Path) -> None:
    """None for all, or what `on_failure` says; the next call tries anew, within the caps of the first."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1#gpt-oss-120b"
    given: dict[str, Any] = {"judge": url, "cache": tmp_path / "cache", "give_up_after_s": 1, "max_calls": 20}
    configure(**given)
    ask = [ASKED] * 2, [LONG, SHORT]
    assert asyncio.run(svr_reward(*ask)) == [None, None]
    with pytest.raises(EndpointDownError):
        asyncio.run(SvrReward(**{**given, "cache": str(tmp_path / "cache"), "on_failure": "raise"})(*ask))
    (budget,) = [held._BUDGETS[key] for key in held._BUDGETS if key[1] == current()]
    spent = budget.calls
    from endpoint import SimConfig

    with serving(SimConfig(port=port)):
        values = asyncio.run(svr_reward(*ask))
        assert None not in values
        assert budget.calls > spent
        with pytest.raises(BudgetError):
            asyncio.run(svr_reward([f"{ASKED} {n // 2}" for n in range(60)], [LONG, SHORT] * 30))


def test_the_reward_for_trl_logs_what_decided(bank: str) -> None:
    """A coroutine function of a module, which pickles; it logs a text and the judge each, and fixed numbers."""
    configure(judge="rules", bank=bank)
    assert inspect.iscoroutinefunction(svr_reward)
    extra: dict[str, list[Any]] = {}
    numbers: dict[str, float] = {}
    given = {"completion_ids": [[1], [2]], "note": ["a", "b"], "trainer_state": None}
    logs = {"log_extra": extra.__setitem__, "log_metric": numbers.__setitem__}
    for reward in (svr_reward, SvrReward(judge="rules", bank=bank)):
        again = pickle.loads(pickle.dumps(reward))
        assert again.__name__ == "svr_reward"
        values = asyncio.run(again(prompts=[ASKED] * 2, completions=[LONG, SHORT], **given, **logs))
        assert values[0] < 0 < values[1]
        assert (len(extra["svr_why"]), len(set(extra["svr_judge"])), numbers["svr/no_reward"]) == (2, 1, 0.0)
    assert "no model" in extra["svr_judge"][0]


async def test_the_function_for_verl_finds_the_prompt_and_keeps_its_keys(bank: str) -> None:
    """In extra_info under its usual names or a given one; all replies have the keys of a server's."""
    configure(judge="rules", bank=bank)
    results = [
        await compute_score(data_source="d", solution_str=SHORT, ground_truth=None, extra_info=info, **more)
        for info, more in (
            ({"question": ASKED}, {}),
            ({"mine": [{"role": "user", "content": ASKED}], "question": "x"}, {"prompt_key": "mine"}),
            ({"prompt": ASKED}, {"judge": DEAD, "give_up_after_s": 1.0, "fallback": -2.0}),
        )
    ]
    assert results[0] == results[1]
    assert {tuple(one) for one in results} == {KEYS}
    assert (results[2]["score"], results[2]["svr_fallback"]) == (-2.0, 1.0)
    with pytest.raises(UsageError, match="extra_info has no prompt"):
        await compute_score(data_source="d", solution_str=SHORT, ground_truth=None, extra_info={"index": 3})


async def test_a_server_pools_what_comes_one_at_a_time(sim: SimServer, tmp_path: Path) -> None:
    """Members of a group from anywhere are compared; one that lacks the token ends it; the keys are the same."""
    pair = pairs(4)[3]
    prompt = [{"role": "user", "content": pair.prompt[0].content}]
    with a_server(sim, tmp_path, token="secret") as url:
        asked = HookSettings(server=url, token="secret")
        seat = {"group": "g", "group_size": 2}
        results = await asyncio.gather(
            *(
                single_reward(asked, {"prompt": prompt, "response": text, **seat})
                for text in (pair.chosen, pair.rejected)
            )
        )
        assert results[0]["score"] == pytest.approx(-results[1]["score"])
        assert results[0]["score"] > 0
        assert all((one["svr_members"], one["svr_fallback"]) == (2.0, 0.0) for one in results)
        assert tuple(results[0]) == KEYS
        with pytest.raises(ConfigError, match="answered 401"):
            await single_reward(HookSettings(server=url), {"prompt": prompt, "response": "x", **seat})


async def test_a_server_that_fails_is_the_fallback_and_one_that_refuses_an_error() -> None:
    """Busy servers are asked three times; a refusal carries the server's own line."""
    asked: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(1)
        odd = (await request.json())["response"] == "odd"
        return web.json_response({"error": "no bank"}, status=422) if odd else web.Response(status=503)

    with serving_routes(web.post("/reward", answer)) as url:
        settings = HookSettings(server=url, fallback=-1.0)
        found = await single_reward(settings, {"prompt": "p", "response": "busy"})
        assert (found["score"], found["svr_fallback"], len(asked)) == (-1.0, 1.0, 3)
        assert found["svr_reason"] == "server: ClientResponseError"
        with pytest.raises(ConfigError, match=r"answered 422: .*no bank"):
            await single_reward(settings, {"prompt": "p", "response": "odd"})


def test_the_assertion_for_promptfoo(bank: str) -> None:
    """Score, threshold, a score a rubric; a reference by name or as a text; no pass without a verdict."""
    context = {"prompt": ASKED, "vars": {"ideal": SHORT}, "config": {"judge": "rules", "bank": bank}}
    graded = get_assert(SHORT, context)
    assert (graded["pass"], graded["score"] > 0.5, "no model" in graded["reason"]) == (True, True, True)
    assert set(graded["namedScores"]) == {part["reason"] for part in graded["componentResults"]}
    assert get_assert(LONG, context)["pass"] is False
    for reference in ("ideal", SHORT):
        compared = {**context, "config": {"judge": "rules", "bank": bank, "reference": reference}}
        assert (get_assert(LONG, compared)["score"], get_assert(SHORT, compared)["score"]) == (0.0, 0.5)
        assert "margin" in get_assert(LONG, compared)["reason"]
    for config in ({"judge": "rules"}, {"judge": "rules", "bank": "nowhere"}, {"schedule": "x"}):
        lost = get_assert(SHORT, {**context, "config": config})
        assert (lost["pass"], lost["score"], lost["reason"].startswith("not judged: ")) == (False, 0.0, True)
