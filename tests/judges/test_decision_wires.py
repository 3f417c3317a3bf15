"""The wires of decision judges: what is sent and what is read, in the shapes of their public client packages."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest

from svr_async.engine.reply import BadBodyError, Reply, Usage
from svr_async.engine.request import Request
from svr_async.engine.wires import QUESTION, Settings, find_wire

STATED = ((QUESTION, "A is right."), (QUESTION, "B is right."))
SHOWN = (("system", "Judge."), ("user", "A: 4. B: 5."))


def body(wire: str, *statements: tuple[str, str]) -> Any:
    """Return the JSON that a request on a wire is sent as."""
    spoken = find_wire(wire)
    params = spoken.params(Settings(temperature=0.0, top_p=1.0, effort="high", effort_style="field"))
    request = Request(endpoint="e", model="m", messages=SHOWN + statements, max_tokens=1, params=params, wire=spoken)
    return orjson.loads(request.body_bytes)


def read(wire: str, value: Any) -> Reply:
    """Read a reply on a wire."""
    return find_wire(wire).read(orjson.dumps(value), 200)


def chances(reply: Reply) -> Any:
    """Return the probabilities in a reply."""
    return orjson.loads(reply.text)


# --- OpenAI's decisions -----------------------------------------------------------------------------------------------


def test_decisions_ask_predicates_about_one_input() -> None:
    """Messages are the input, statements the questions in their order; nothing of a chat's settings is sent."""
    assert body("decisions", *STATED) == {
        "model": "m",
        "input": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "A: 4. B: 5."}],
        "questions": [
            {"type": "predicate", "name": "q1", "instructions": "A is right."},
            {"type": "predicate", "name": "q2", "instructions": "B is right."},
        ],
    }


def test_decisions_are_read_in_order_with_what_was_refused() -> None:
    """Probabilities by name, or by place where a name is null; a refusal is no probability; tokens are counted."""
    answers = [
        {"type": "predicate", "name": "q1", "probability": 0.93},
        {"type": "refusal", "name": None},
        {"type": "predicate", "name": None, "probability": 0},
    ]
    usage = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
             "output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 90}  # fmt: skip
    reply = read("decisions", {"answers": answers, "model": "gpt-6-luna", "usage": usage})
    assert chances(reply) == {"q1": 0.93, "q2": None, "q3": 0.0}
    assert reply.usage == Usage(prompt_tokens=90, cached_tokens=64, completion_tokens=0)
    assert not reply.refused


def test_a_statement_that_is_answered_twice_counts_where_both_agree() -> None:
    """Equal answers are one; of two that differ neither is taken, and the statement is asked again as one left out."""
    told = (("q1", 0.9), ("q2", 0.4), ("q1", 0.9), ("q2", 0.6))
    answers = [{"type": "predicate", "name": name, "probability": chance} for name, chance in told]
    assert chances(read("decisions", {"answers": answers})) == {"q1": 0.9}


@pytest.mark.parametrize("wire", ["decisions", "systemone"])
@pytest.mark.parametrize("chance", [1.2, -0.1, True, "0.5", None])
def test_what_is_no_probability_is_no_answer(wire: str, chance: Any) -> None:
    """A number outside 0 to 1, or none, makes a damaged reply, which is asked for again."""
    answer = {"type": "predicate", "name": "q1", "probability": chance, "noul": chance}
    with pytest.raises(BadBodyError):
        read(wire, {"answers": [answer] if wire == "decisions" else {"q1": answer}})


@pytest.mark.parametrize("wire", ["decisions", "systemone"])
@pytest.mark.parametrize("value", [{}, {"answers": 3}, [], {"choices": []}])
def test_a_body_without_answers_is_damaged(wire: str, value: Any) -> None:
    """Whatever else it is, it is not taken for a reply."""
    with pytest.raises(BadBodyError, match="no answers"):
        read(wire, value)


# --- System One -------------------------------------------------------------------------------------------------------


def test_systemone_asks_by_name_about_a_state() -> None:
    """The messages are one state; each statement is a yes/no question under a name."""
    assert body("systemone", *STATED) == {
        "model": "m",
        "state": "Judge.\n\nA: 4. B: 5.",
        "questions": {
            "q1": {"type": "noul", "instructions": "A is right."},
            "q2": {"type": "noul", "instructions": "B is right."},
        },
    }


# --- log-probabilities ------------------------------------------------------------------------------------------------


def completion(*tops: tuple[str, float], text: str = "Yes") -> Any:
    """Return a chat completion of one token with the probabilities of its alternatives."""
    told = [{"token": token, "logprob": math.log(share)} for token, share in tops]
    first = [{"token": text, "logprob": -0.1, "top_logprobs": told}]
    return {
        "model": "m",
        "choices": [
            {
                "message": {"role": "assistant", "content": text},
                "finish_reason": "length",
                "logprobs": {"content": first},
            }
        ],
        "usage": {"prompt_tokens": 50, "completion_tokens": 1},
    }


def test_logprobs_ask_one_token_with_its_alternatives() -> None:
    """The statement ends the last message, so that requests of a pair begin alike; no effort to reason is asked for."""
    assert body("logprobs", STATED[0]) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Judge."},
            {"role": "user", "content": "A: 4. B: 5.\n\nA is right."},
        ],
        "max_tokens": 1,
        "temperature": 0.0,
        "top_p": 1.0,
        "n": 1,
        "logprobs": True,
        "top_logprobs": 20,
    }


@pytest.mark.parametrize("told", [None, True, "-0.1", [-0.1], {}, 5.0, 1e308])
def test_a_yes_without_a_log_probability_is_no_no(told: Any) -> None:
    """Where the value of Yes or of No cannot be read, neither is known; that of any other word does not matter."""
    value = completion(("Yes", 0.5), ("No", 0.3), ("Maybe", 0.2))
    tops = value["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    for place, left in ((2, {"q1": pytest.approx(0.625)}), (0, {})):
        tops[place]["logprob"] = told
        assert chances(read("logprobs", value)) == left


def test_logprobs_are_read_as_llama_cpp_tells_them() -> None:
    """Its token is among the alternatives, bytes are null, and tokens that read alike are one; none for no token."""
    value = completion(("Is", 0.3), ("Yes", 0.03), ("No", 0.01), text="Is")
    for one in value["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
        one["bytes"] = None
    value["choices"][0]["logprobs"]["refusal"] = None
    assert chances(read("logprobs", value)) == {"q1": pytest.approx(0.75)}
    value["choices"][0]["logprobs"]["content"] = []
    assert chances(read("logprobs", value)) == {}


@pytest.mark.parametrize(
    "value",
    [
        completion(("Maybe", 0.9), ("Yes", 0.001)),
        completion(),
        {"model": "m", "choices": [{"message": {"content": "Yes"}, "finish_reason": "stop", "logprobs": None}]},
        {"model": "m", "choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]},
    ],
)
def test_a_token_that_answers_neither_way_is_no_even_chance(value: Any) -> None:
    """Another word, or no log-probabilities at all: no probability is made up."""
    assert chances(read("logprobs", value)) == {}
