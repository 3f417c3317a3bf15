"""Per-prompt rubrics with points: Σ points · satisfied in the library, over HTTP, for TRL and verl."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from arena import arena
from rewarding import judged_by

from svr_async import ascore
from svr_async.core.verdict import Outcome
from svr_async.errors import UsageError
from svr_async.serving.hooks.judging import configure
from svr_async.serving.hooks.trl import svr_reward
from svr_async.serving.hooks.verl import compute_score
from svr_async.simulation.server import SimServer

PROMPT, RESPONSE = "Name two colours as a list.", "- Blue.\n- Red.\n\nI am sorry!"
RUBRICS = [  # five criteria, one negative; the third is not met, and the fault is there
    {"criterion": "The response has at most 12 words.", "points": 5, "check": {"name": "max_words", "args": {"n": 12}}},
    {"criterion": "The response has a bullet list.", "points": 3, "check": {"name": "bullet_list"}},
    {"criterion": "The response ends with a question.", "points": 2, "check": {"name": "ends_with_question"}},
    {"description": "The response has 2 paragraphs or more.", "weight": 1,
     "check": {"name": "min_paragraphs", "args": {"n": 2}}},
    {"text": "The response apologises.", "points": -4, "check": {"name": "apologises"}},
]  # fmt: skip
BY_HAND = 5 + 3 + 1 - 4


async def everywhere(judge: str, url: str, expected: float) -> None:
    """Assert the reward of TRL, verl and the server."""
    column = [RUBRICS, RUBRICS]
    assert await svr_reward([PROMPT] * 2, [RESPONSE, RESPONSE], rubrics=column) == [expected] * 2
    info = {"prompt": PROMPT, "rubrics": RUBRICS}
    for settings in ({}, {"server": url}):
        found = await compute_score("d", RESPONSE, None, info, judge=judge, **settings)
        assert (found["score"], found["svr_fallback"], found["svr_coverage"]) == (expected, 0.0, 1.0)


async def test_rules_give_the_reward_by_hand(tmp_path: Path) -> None:
    """Each criterion is a check, so the sum is known exactly."""
    assert (await ascore(PROMPT, RESPONSE, rubrics=RUBRICS, engine="rules")).value == BY_HAND
    configure(judge="rules")
    async with arena(tmp_path, judge="rules", bank=False) as at:
        await everywhere("rules", at.server.url, BY_HAND)
        body = {"query": PROMPT, "documents": [RESPONSE, "Blue?"], "rubrics": RUBRICS}
        ranked = (await at.answer("/rerank", body))["results"]
        assert [(one["index"], one["relevance_score"]) for one in ranked] == [(1, 5 + 2), (0, BY_HAND)]
        asked = {"query": [PROMPT + RESPONSE], "prompts": [PROMPT], "rubrics": [RUBRICS]}
        assert (await at.answer("/get_reward", asked))["rewards"] == [BY_HAND]


async def test_a_model_gives_the_same_reward_everywhere_in_one_call(sim: SimServer, tmp_path: Path) -> None:
    """The simulated judge's scores give one sum, with one call for all five criteria; SIMULATED."""
    judge = judged_by(sim, tmp_path).judge
    before = sim.stats()["calls"]
    found = await ascore(PROMPT, RESPONSE, rubrics=RUBRICS, engine=judge)
    assert sim.stats()["calls"] - before == 1
    assert found.value == sum(part.importance for part in found.parts if (part.value or 0) >= 0.5)
    async with arena(tmp_path, judge=judge, bank=False) as at:
        await everywhere(judge, at.server.url, found.value)


async def test_a_missing_verdict_is_no_zero(tmp_path: Path) -> None:
    """Without a verdict on one criterion there is no reward; TRL gets None, a server marks the fallback."""
    rubrics = [*RUBRICS, {"criterion": "It sounds like a friend.", "points": 9}]  # rules cannot decide this
    found = await ascore(PROMPT, RESPONSE, rubrics=rubrics, engine="rules")
    assert (found.value, found.outcome, found.detail) == (
        None, Outcome.PARSE_ERROR, "no verdict on 'It sounds like a friend.'",
    )  # fmt: skip
    configure(judge="rules")
    assert await svr_reward([PROMPT], [RESPONSE], rubrics=[rubrics]) == [None]
    async with arena(tmp_path, judge="rules", bank=False, fallback=-7.0) as at:
        body: dict[str, Any] = {"prompt": PROMPT, "response": RESPONSE, "rubrics": rubrics}
        told = await at.answer("/reward?key=reward", body)
        assert (told["reward"], told["svr_fallback"], told["svr_reason"]) == (-7.0, True, "parse_error")


def test_an_invalid_rubric_is_named() -> None:
    """Its number, and the form."""
    with pytest.raises(UsageError, match="rubric 2: "):
        asyncio.run(ascore(PROMPT, RESPONSE, rubrics=["It is short.", {"points": 3}], engine="rules"))
