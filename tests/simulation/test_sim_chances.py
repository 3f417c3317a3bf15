"""The simulated endpoint as a decision judge: the same judge as the one of verdicts, and honest about its errors."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import mean
from typing import Any

import pytest
from endpoint import SimConfig
from sim_requests import fence

from svr_async.core.pair import Side, prompt_text
from svr_async.core.verdict import EVEN
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.judge import MODELS, PlantedJudge
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.wire import ApiError, Shape
from svr_async.simulation.world import PromptReading, ResponseReading, World

MODEL = MODELS["gpt-oss-120b"]
WORLD = World(3)
RUBRIC = f"Response A satisfies this rubric: {CRITERIA[0].rubric}"


def read() -> list[tuple[PromptReading, dict[str, ResponseReading], tuple[int, ...]]]:
    """Return pairs as read: prompt, both responses by name, and the criteria that the type cares about."""
    found = []
    for item in WORLD.pairs(60, "test"):
        texts = {"A": item.pair.chosen, "B": item.pair.rejected}
        responses = {name: WORLD.read_response(text) for name, text in texts.items()}
        found.append((WORLD.read_prompt(prompt_text(item.pair.prompt)), responses, WORLD.kinds[item.kind].cares))
    return found


def test_what_is_likelier_is_the_verdict() -> None:
    """Each probability lies on the side of the same judge's verdict: A, B and better."""
    judge = PlantedJudge(WORLD, MODEL)
    for prompt, responses, cares in read()[:20]:
        for number in cares:
            rubric = CRITERIA[number].rubric
            row = judge.compare(prompt, responses["A"], responses["B"], WORLD.read_rubric(rubric))
            ends = ("A satisfies this rubric", "B satisfies this rubric")
            asked = (*ends, "A satisfies this rubric better than response B does")
            said = [judge.chance(f"Response {one}: {rubric}", prompt, responses) >= EVEN for one in asked]
            assert said == [row.a.value == "pass", row.b.value == "pass", row.better is Side.A]


def test_the_probabilities_are_honest() -> None:
    """Of all verdicts on a response with one probability, about that share is true."""
    judge, truths = PlantedJudge(WORLD, MODEL), defaultdict[float, list[bool]](list)
    for prompt, responses, cares in read():
        for number in cares:
            met = judge.chance(f"Response A satisfies this rubric: {CRITERIA[number].rubric}", prompt, responses)
            truths[met].append(bool(responses["A"].met >> number & 1))
    assert len(truths) == 2
    for chance, found in truths.items():
        assert abs(mean(found) - chance) < 0.05


def material() -> str:
    """Return one planted pair between its fences."""
    pair = next(iter(WORLD.pairs(1, "test"))).pair
    parts = {"PROMPT": prompt_text(pair.prompt), "RESPONSE_A": pair.chosen, "RESPONSE_B": pair.rejected}
    return "\n\n".join(fence(name, text) for name, text in parts.items())


def test_every_shape_gets_the_same_answer() -> None:
    """A statement has one probability, as a decision and as the log-probabilities of a token, the same each time."""
    simulator = Simulator(SimConfig(seed=3))
    asked = f"{material()}\n\n{RUBRIC}\nIs this statement true? Answer Yes or No."
    chat = {"messages": [{"role": "user", "content": asked}], "logprobs": True, "top_logprobs": 5}
    statement = {"type": "predicate", "name": "q1", "instructions": RUBRIC}
    decision = {"input": [{"role": "user", "content": material()}], "questions": [statement]}
    replies = [
        simulator.reply(simulator.read({"model": MODEL.name, **body}, shape))
        for shape, body in ((Shape.CHAT, chat), (Shape.CHAT, chat), (Shape.DECISIONS, decision))
    ]
    assert replies[0] == replies[1]
    chance = replies[2]["answers"][0]["probability"]
    tops = replies[0]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    yes, no = (math.exp(next(one["logprob"] for one in tops if one["token"] == word)) for word in ("Yes", "No"))
    assert chance in {0.1, 0.9}
    assert yes / (yes + no) == pytest.approx(chance)


@pytest.mark.parametrize(("body", "names"), [({"questions": []}, "input"), ({"input": [], "questions": [{}]}, "name")])
def test_a_malformed_decision_request_is_a_400(body: dict[str, Any], names: str) -> None:
    """The refusal names the mistake."""
    with pytest.raises(ApiError, match=names) as caught:
        Simulator().read({"model": MODEL.name, **body}, Shape.DECISIONS)
    assert caught.value.status == 400
