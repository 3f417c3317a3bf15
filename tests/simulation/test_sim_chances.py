"""The simulated endpoint as a decision judge: the same judge as the one of verdicts, and honest about its errors."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

import orjson
import pytest
from sim_requests import fence

from svr_async.core.pair import Side, prompt_text
from svr_async.core.verdict import EVEN
from svr_async.engine.classify import Kind, classify_reply
from svr_async.engine.wires import find_wire
from svr_async.simulation.brain import Simulator
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.config import SimConfig
from svr_async.simulation.damage import damaged_chances
from svr_async.simulation.faults import FAULTS
from svr_async.simulation.judge import MODELS, PlantedJudge
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.request import Shape
from svr_async.simulation.wires import as_detail, decision_reply, detail_payload
from svr_async.simulation.world import PromptReading, ResponseReading, World, WorldConfig, draw_bytes

MODEL = MODELS["gpt-oss-120b"]
WORLD = World(WorldConfig(seed=3))
RUBRIC = "Response A satisfies this rubric: The response treats the empty input as a separate case."


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
    """Of all answers with one probability, about that share is true."""
    judge, truths = PlantedJudge(WORLD, MODEL), defaultdict[tuple[str, float], list[bool]](list)
    for prompt, responses, cares in read():
        for number in cares:
            rubric = WORLD.read_rubric(CRITERIA[number].rubric)
            chances = judge.likely(prompt, responses["A"], responses["B"], rubric)
            truths["A", chances.a].append(bool(responses["A"].met >> number & 1))
            degrees = [judge.opinion(prompt, responses[name], rubric).degree for name in "AB"]
            truths["better", chances.better].append(degrees[0] > degrees[1])
    for (_, chance), found in truths.items():
        assert abs(mean(found) - chance) < 0.05 + 2 / len(found) ** 0.5


def test_a_negated_rubric_asked_in_the_positive_is_turned_round() -> None:
    """The judge of statements recognises the opposite of a rubric: its probability is one minus the rubric's."""
    judge = PlantedJudge(WORLD, MODEL)
    prompt, responses, _ = read()[0]
    turned = dict(judge._opposites)
    for text, rubric in list(turned.items())[:5]:
        own, opposite = (
            judge.chance(f"Response A satisfies this rubric: {one}", prompt, responses) for one in (rubric, text)
        )
        assert opposite == pytest.approx(1 - own)


def material() -> str:
    """Return one planted pair between its fences."""
    pair = next(iter(WORLD.pairs(1, "test"))).pair
    parts = {"PROMPT": prompt_text(pair.prompt), "RESPONSE_A": pair.chosen, "RESPONSE_B": pair.rejected}
    return "\n\n".join(fence(name, text) for name, text in parts.items())


def bodies() -> dict[Shape, dict[str, Any]]:
    """Return the same statement in the shape of each endpoint."""
    predicate = {"type": "predicate", "name": "q1", "instructions": RUBRIC}
    asked = f"{material()}\n\n{RUBRIC}\nIs this statement true? Answer Yes or No."
    return {
        Shape.DECISIONS: {"input": material(), "questions": [predicate]},
        Shape.SYSTEMONE: {"state": material(), "questions": {"q1": {"type": "noul", "instructions": RUBRIC}}},
        Shape.CHAT: {"messages": [{"role": "user", "content": asked}], "logprobs": True, "top_logprobs": 5},
    }


def test_every_shape_gets_the_same_answer() -> None:
    """A statement has one probability, however it is asked, and the same one each time."""
    simulator = Simulator(SimConfig(seed=3, world=WorldConfig(seed=3)))
    found = []
    for shape, body in bodies().items():
        request = simulator.read({"model": MODEL.name, **body}, shape)
        found += [simulator.compose(request).chances, simulator.compose(request).chances]
    assert found[0]["q1"] in {0.1, 0.9}
    assert all(chances == found[0] for chances in found)


def test_refusals_and_gaps_are_written_in_either_shape() -> None:
    """None is a refusal in its place; what is not there is left out."""
    simulator = Simulator()
    question = {"type": "predicate", "instructions": RUBRIC}
    body = {"model": MODEL.name, "input": "x", "questions": [{**question, "name": name} for name in ("q1", "q2")]}
    request = simulator.read(body, Shape.DECISIONS)
    reply = decision_reply(request, [("q1", None)], fingerprint="f")
    assert reply["answers"] == [{"type": "refusal", "name": "q1"}]


@pytest.mark.parametrize("kind", ["missing-rubrics", "duplicate-ids", "unknown-ids"])
def test_a_damaged_answer_leaves_the_others_honest(kind: str) -> None:
    """One statement is lost, contradicted or called otherwise; the last answer under a name is honest."""
    honest = {f"q{number}": number / 10 for number in range(1, 7)}
    for place in range(20):
        told = damaged_chances(honest, FAULTS[kind], draw_bytes(place))
        assert told != tuple(honest.items())
        assert len(honest.keys() - dict(told).keys()) == (kind != "duplicate-ids")
        assert dict(told).items() & honest.items() == {one for one in honest.items() if one[0] in dict(told)}


def test_system_one_tells_errors_its_own_way() -> None:
    """A status and words, a list where the body is wrong: the wire reads both, and an empty account ends the run."""
    cases = [(ApiError.bad_request("no state"), 422, Kind.ITEM), (ApiError.no_quota(), 402, Kind.RUN),
             (ApiError.no_model("m"), 404, Kind.RUN), (ApiError.server(500, "no"), 500, Kind.TRANSIENT)]  # fmt: skip
    for error, status, kind in cases:
        told = as_detail(error)
        failure = classify_reply(find_wire("systemone"), told.status, {}, orjson.dumps(detail_payload(told)), "")
        assert (told.status, failure.kind) == (status, kind)
        assert error.message in failure.detail


@pytest.mark.parametrize(
    ("shape", "body", "told"),
    [
        (Shape.DECISIONS, {"input": "x"}, "questions"),
        (Shape.DECISIONS, {"input": "x", "questions": []}, "1 to 400"),
        (Shape.DECISIONS, {"input": "x", "questions": [{"type": "score"}]}, "predicate only"),
        (Shape.DECISIONS, {"questions": []}, "input"),
        (Shape.SYSTEMONE, {"state": "x", "questions": {}}, "at least one"),
        (Shape.SYSTEMONE, {"state": "x", "questions": {"q": {"type": "noul"}}}, "instructions"),
        (Shape.SYSTEMONE, {"questions": {}}, "state"),
    ],
)
def test_what_is_no_decision_request_is_a_400(shape: Shape, body: dict[str, Any], told: str) -> None:
    """The refusal says what is wrong."""
    with pytest.raises(ApiError, match=told) as caught:
        Simulator().read({"model": MODEL.name, **body}, shape)
    assert caught.value.status == 400
