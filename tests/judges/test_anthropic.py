"""Anthropic's wire: the same verdicts as with OpenAI's, with faults too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rig import QUICK, pairs, serving

from svr_async.core.pair import Order, present
from svr_async.core.rubric import Rubric
from svr_async.engine.caller import EngineConfig
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.profiles import Profile
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig, parse_kinds

KEY = "sk-ant-sentinel-1"


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


def test_both_wires_give_the_same_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails on the way: overload, limits, cut and broken replies. The facts say that it is simulated."""
    monkeypatch.setenv("ANT_KEY", KEY)
    kinds = parse_kinds("status,content,body,reset-mid,truncated,close-cut,bad-utf8,wrong-model,bad-usage")
    faults = FaultConfig(rate=0.5, kinds=kinds, retry_after_s=0.01)
    with serving(SimConfig(api_key=KEY, prefix_blocks=4096)) as calm, serving(SimConfig(faults=faults)) as rough:
        expected, _, _ = verdicts(calm.base_url, tmp_path / "a")
        assert None not in expected
        settings: dict[str, Any] = {"wire": "anthropic", "structured": "json_schema"}
        found, facts, stats = verdicts(calm.base_url, tmp_path / "b", **settings)
        assert found == expected
        assert (facts["marks"], facts["wire"]) == (["simulated"], "anthropic")
        assert stats.prompt_tokens > stats.cached_tokens > 0
        again, _, stats = verdicts(calm.base_url, tmp_path / "b", **settings)
        assert (again, stats.sent) == (expected, 0)
        found, _, _ = verdicts(rough.base_url, tmp_path / "c", wire="anthropic", key_env="")
        assert found == expected
        assert len(rough.stats()["faults"]) >= 3
