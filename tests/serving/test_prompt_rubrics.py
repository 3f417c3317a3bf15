"""Per-prompt rubrics with points: Σ points · satisfied in the library, over HTTP, for TRL and verl."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from arena import arena
from endpoint import SimServer
from rewarding import Points, points_of

from svr_async import ascore
from svr_async.core.verdict import Outcome
from svr_async.errors import UsageError
from svr_async.serving.hooks.judging import configure
from svr_async.serving.hooks.trl import svr_reward
from svr_async.serving.hooks.verl import compute_score


async def test_the_reward_is_the_same_everywhere(points: Points, sim: SimServer, tmp_path: Path) -> None:
    """The sum by hand in the library, TRL, verl, and each shape over HTTP; a model is asked once for all criteria."""
    prompt, text, rubrics = points.prompt, points.response, points.rubrics
    before = sim.stats()["calls"]
    assert await svr_reward([prompt] * 2, [text, text], rubrics=[rubrics, rubrics]) == [points.reward] * 2
    assert sim.stats()["calls"] - before == (points.judge != "rules")
    assert (await ascore(prompt, text, rubrics=rubrics, engine=points.judge)).value == points.reward
    async with arena(tmp_path, judge=points.judge, bank=False) as at:
        for settings in ({}, {"server": at.server.url}):
            found = await compute_score("d", text, None, {"prompt": prompt, "rubrics": rubrics}, **settings)
            assert (found["score"], found["svr_fallback"], found["svr_coverage"]) == (points.reward, 0.0, 1.0)
        ranked = await at.answer("/rerank", {"query": prompt, "documents": [text], "rubrics": rubrics})
        assert ranked["results"][0]["relevance_score"] == points.reward
        asked = {"query": [prompt + text], "prompts": [prompt], "rubrics": [rubrics]}
        assert (await at.answer("/get_reward", asked))["rewards"] == [points.reward]
        body = {"prompt": prompt, "responses": [text, text], "rubrics": rubrics}
        assert await at.answer("/reward", body) == [points.reward] * 2


async def test_a_missing_verdict_is_no_zero(tmp_path: Path) -> None:
    """Without a verdict on one criterion the reward is missing; TRL gets None, a server marks the fallback."""
    points = points_of("rules", "")
    rubrics = [*points.rubrics, {"criterion": "It sounds like a friend.", "points": 9}]  # rules cannot decide this
    found = await ascore(points.prompt, points.response, rubrics=rubrics, engine="rules")
    assert (found.value, found.outcome) == (None, Outcome.PARSE_ERROR)
    assert found.detail == "no verdict on 'It sounds like a friend.'"
    configure(judge="rules")
    assert await svr_reward([points.prompt], [points.response], rubrics=[rubrics]) == [None]
    async with arena(tmp_path, judge="rules", bank=False, fallback=-7.0) as at:
        body: dict[str, Any] = {"prompt": points.prompt, "response": points.response, "rubrics": rubrics}
        reply = await at.answer("/reward?key=reward", body)
        assert (reply["reward"], reply["svr_fallback"], reply["svr_reason"]) == (-7.0, True, "parse_error")


def test_rows_of_arrow_tables_are_rubrics() -> None:
    """A column of a Hugging Face Dataset has every key in every row, with None where it is missing."""
    rows = [
        {
            "criterion": "Short.",
            "text": None,
            "points": 3,
            "check": {"name": "max_words", "args": {"n": 2, "word": None}},
        },
        {"criterion": None, "text": "Sorry.", "points": 2, "check": {"name": "apologises", "args": None}},
        {"criterion": None, "text": "The response is at most 9 words long.", "points": 1, "check": None},
    ]
    assert asyncio.run(ascore("Name two.", "I am sorry.", rubrics=rows, engine="rules")).value == 2 + 1


def test_an_invalid_rubric_is_named() -> None:
    """Its number, and the form."""
    with pytest.raises(UsageError, match="rubric 2: "):
        asyncio.run(ascore("Name two.", "Red.", rubrics=["It is short.", {"points": 3}], engine="rules"))
