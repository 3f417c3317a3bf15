"""Anthropic's wire: the same verdicts as with OpenAI's, with faults too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from rig import QUICK, pairs, serving, serving_routes

from svr_async.core.pair import Order, present
from svr_async.core.rubric import Rubric
from svr_async.engine.caller import EngineConfig
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.profiles import Profile
from svr_async.simulation.simulator import Simulator

KEY = "sk-ant-sentinel-1"


class Anthropic:
    """The simulated judge behind Anthropic's shape; it wants a key, and no temperature."""

    def __init__(self) -> None:
        self.simulator, self.paid = Simulator(), 0

    async def models(self, http: web.Request) -> web.Response:
        """List one model."""
        assert http.headers["x-api-key"] == KEY
        return web.json_response({"data": [{"id": "gpt-oss-120b"}]})

    async def messages(self, http: web.Request) -> web.Response:
        """Answer a message."""
        body = orjson.loads(await http.read())
        assert http.headers["x-api-key"] == KEY
        if body.get("temperature") not in (None, 1):
            error = {"type": "invalid_request_error", "message": "`temperature` is deprecated for this model."}
            return web.json_response({"type": "error", "error": error}, status=400)
        system = [{"role": "system", "content": body["system"]}] if "system" in body else []
        reply = self.simulator.answer({"model": body["model"], "messages": [*system, *body["messages"]]})
        self.paid += 1
        content = [{"type": "text", "text": reply["choices"][0]["message"]["content"]}]
        usage = {"input_tokens": 9, "output_tokens": 3}
        fields = {"content": content, "stop_reason": "end_turn", "usage": usage}
        return web.json_response({name: reply[name] for name in ("id", "model", "system_fingerprint")} | fields)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, Anthropic]]:
    """Serve the simulated judge in Anthropic's shape."""
    theirs = Anthropic()
    routes = (web.post("/v1/messages", theirs.messages), web.get("/v1/models", theirs.models))
    with serving_routes(*routes) as address:
        yield f"{address}/v1", theirs


def verdicts(url: str, cache: Path, count: int = 4, **settings: Any) -> tuple[list[Any], Any, Any]:
    """Judge pairs directly and by rubrics; return the verdicts, the judge's facts and the engine's stats."""
    usual = {"name": "sim", "model": "gpt-oss-120b", "base_url": url, "key_env": "ANT_KEY"}
    spec = JudgeSpec(text="sim", profile=Profile(**{**usual, **settings}))

    async def ask() -> tuple[list[Any], Any, Any]:
        opened = open_judge(spec, JudgeLimits(cache=cache, timeout_s=10.0), config=EngineConfig(**QUICK))
        judge, calls = opened.judge, list[Any]()
        for pair in pairs(count):
            shown, rubrics = present(pair, Order.AB), [Rubric(text=text) for text in pair.rubrics[:3]]
            calls += [judge.prefer(shown), judge.compare(shown, rubrics, overall=True)]
        try:
            found = [answer.value for answer in await asyncio.gather(*calls)]
            assert opened.engine is not None
            return found, opened.facts(), opened.engine.stats()
        finally:
            await opened.close()

    return asyncio.run(ask())


def test_the_verdicts_are_those_of_openais_shape(
    endpoint: tuple[str, Anthropic], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same judge gives the same verdicts on either wire; a refused temperature costs one call, which is unpaid."""
    monkeypatch.setenv("ANT_KEY", KEY)
    url, server = endpoint
    with serving() as sim:
        theirs, _, _ = verdicts(sim.base_url, tmp_path / "a")
    ours, facts, stats = verdicts(url, tmp_path / "b", wire="anthropic", structured="json_schema")
    assert ours == theirs
    assert None not in ours
    assert (facts["marks"], facts["wire"]) == (["simulated"], "anthropic")
    assert facts["refused"] == ["temperature is not sent"]
    assert "temperature" not in facts["params"]
    assert (server.paid, stats.prompt_tokens) == (len(ours), 9 * len(ours))
    again, _, stats = verdicts(url, tmp_path / "b", wire="anthropic", structured="json_schema")
    assert (again, stats.sent) == (ours, 0)
