"""Wires of other providers: requests, replies, errors and limits."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest

from svr_async.core.verdict import Outcome
from svr_async.engine.classify import Kind, classify_status
from svr_async.engine.reply import BadBodyError, Reply, Usage
from svr_async.engine.request import Request
from svr_async.engine.wires import QUESTION, Form, Settings, find_wire
from svr_async.engine.wires.anthropic import WIRE
from svr_async.errors import AuthError, ModelError, QuotaError, SvrError

CHAT = (("system", "Judge."), ("user", "A: 4. B: 5."))
STATED = ((QUESTION, "A is right."), (QUESTION, "B is right."))
INPUT = [{"role": role, "content": content} for role, content in CHAT]


def body(wire: str, messages: tuple[tuple[str, str], ...], settings: Settings, max_tokens: int = 1) -> Any:
    """Return the JSON that a request on a wire is sent as."""
    spoken = find_wire(wire)
    params = spoken.params(settings)
    request = Request(endpoint="e", model="m", messages=messages, max_tokens=max_tokens, params=params, wire=spoken)
    return orjson.loads(request.body_bytes)


def read(wire: str, value: Any) -> Reply:
    """Read a reply on a wire."""
    return find_wire(wire).read(orjson.dumps(value), 200)


# --- requests ---------------------------------------------------------------------------------------------------------

USUAL = Settings(temperature=0.0, top_p=1.0, effort="high", effort_style="field")
TURNS = (("system", "Judge."), ("user", "A or B?"), ("assistant", "(empty)"), ("user", "Again."))
FORM = Form(name="f", schema=b'{"type":"object"}')
SENT: dict[str, tuple[Any, Any]] = {
    "decisions": (body("decisions", CHAT + STATED, USUAL), {
        "model": "m", "input": INPUT,
        "questions": [{"type": "predicate", "name": "q1", "instructions": "A is right."},
                      {"type": "predicate", "name": "q2", "instructions": "B is right."}],
    }),
    "systemone": (body("systemone", CHAT + STATED, USUAL), {
        "model": "m", "state": "Judge.\n\nA: 4. B: 5.",
        "questions": {"q1": {"type": "noul", "instructions": "A is right."},
                      "q2": {"type": "noul", "instructions": "B is right."}},
    }),
    "logprobs": (body("logprobs", CHAT + STATED[:1], USUAL), {
        "model": "m", "messages": [INPUT[0], {"role": "user", "content": "A: 4. B: 5.\n\nA is right."}],
        "max_tokens": 1, "temperature": 0.0, "top_p": 1.0, "n": 1, "logprobs": True, "top_logprobs": 20,
    }),
    "anthropic": (
        body("anthropic", TURNS, Settings(stop=("END",), effort="low", effort_style="object", top_p=0.9), 64), {
            "model": "m", "max_tokens": 64, "system": "Judge.", "temperature": 0.0, "top_p": 0.9,
            "messages": [{"role": role, "content": text} for role, text in TURNS[1:]],
            "stop_sequences": ["END"], "output_config": {"effort": "low"},
        }),
    "anthropic with a schema": (
        body("anthropic", TURNS[1:2], Settings(temperature=None, structured="json_schema", form=FORM), 9), {
            "model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "A or B?"}],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        }),
}  # fmt: skip


@pytest.mark.parametrize("name", SENT)
def test_requests_have_the_shape_of_the_provider(name: str) -> None:
    """Settings that the provider does not know are not sent."""
    sent, expected = SENT[name]
    assert sent == expected


# --- probabilities ----------------------------------------------------------------------------------------------------


def predicates(*rows: tuple[str | None, Any]) -> dict[str, Any]:
    """Return a reply of OpenAI's decisions; a probability of None is a refusal."""
    answers = [
        {"type": "refusal", "name": name}
        if chance is None
        else {"type": "predicate", "name": name, "probability": chance}
        for name, chance in rows
    ]
    usage = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 0}
    return {"model": "m", "answers": answers, "usage": usage}


def token(*tops: tuple[str, float], text: str = "Yes") -> Any:
    """Return a chat completion of one token with the probabilities of its alternatives."""
    alternatives = [{"token": token, "logprob": math.log(share), "bytes": None} for token, share in tops]
    first = [{"token": text, "logprob": -0.1, "top_logprobs": alternatives}]
    message = {"role": "assistant", "content": text}
    choice = {"message": message, "finish_reason": "length", "logprobs": {"content": first}}
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 50, "completion_tokens": 1}}


NO_LOGPROBS = {"model": "m", "choices": [{"message": {"content": "Yes"}, "finish_reason": "stop", "logprobs": None}]}
READ: dict[str, tuple[str, Any, dict[str, float | None]]] = {
    "by name or place": ("decisions", predicates(("q1", 0.93), ("q2", None), (None, 0)),
                         {"q1": 0.93, "q2": None, "q3": 0.0}),
    "twice, once in conflict": ("decisions", predicates(("q1", 0.9), ("q2", 0.4), ("q1", 0.9), ("q2", 0.6)),
                                {"q1": 0.9}),
    "in any order": ("systemone", {"model": "m", "answers": {"q2": {"noul": 0.1}, "q1": {"noul": 1}}},
                     {"q1": 1.0, "q2": 0.1}),
    "all spellings of yes and no": ("logprobs", token(("Yes", 0.5), (" yes", 0.1), ("NO", 0.2), ("Maybe", 0.2)),
                                    {"q1": 0.75}),
    "another word was written": ("logprobs", token(("Is", 0.3), ("Yes", 0.03), ("No", 0.01), text="Is"), {"q1": 0.75}),
    "no is missing": ("logprobs", token(("Maybe", 0.9), ("Yes", 0.001)), {}),
    "no alternatives": ("logprobs", token(), {}),
    "no log-probabilities": ("logprobs", NO_LOGPROBS, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_probabilities_are_read_and_never_invented(name: str) -> None:
    """A statement without a clear probability is left out; a refused one is None."""
    wire, value, expected = READ[name]
    reply = read(wire, value)
    assert orjson.loads(reply.text) == {key: chance if chance is None else pytest.approx(chance)
                                        for key, chance in expected.items()}  # fmt: skip
    assert (reply.refused, reply.truncated) == (False, False)


def test_tokens_and_refusals_of_decisions_are_counted() -> None:
    """Cached tokens are known; a reply that refuses every statement is a refusal."""
    assert read("decisions", predicates(("q1", 0.5))).usage == Usage(
        prompt_tokens=90, cached_tokens=64, completion_tokens=0
    )
    assert read("decisions", predicates(("q1", None))).refused


@pytest.mark.parametrize("logprob", [None, True, "-0.1", [-0.1], {}, 5.0, 1e308])
def test_an_invalid_log_probability_counts_as_missing(logprob: Any) -> None:
    """Without a value for Yes or No the probability is missing; other words do not matter."""
    value = token(("Yes", 0.5), ("No", 0.3), ("Maybe", 0.2))
    tops = value["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    for place, left in ((2, {"q1": pytest.approx(0.625)}), (0, {})):
        tops[place]["logprob"] = logprob
        assert orjson.loads(read("logprobs", value).text) == left


@pytest.mark.parametrize("wire", ["decisions", "systemone"])
def test_damaged_probabilities_are_not_a_reply(wire: str) -> None:
    """The question is asked again."""
    for chance in (1.2, -0.1, True, "0.5", None):
        answer = {"type": "predicate", "name": "q1", "probability": chance, "noul": chance}
        with pytest.raises(BadBodyError):
            read(wire, {"answers": [answer] if wire == "decisions" else {"q1": answer}})
    values: tuple[Any, ...] = ({}, {"answers": 3}, [], {"choices": []})
    for value in values:
        with pytest.raises(BadBodyError, match="no answers"):
            read(wire, value)


# --- Anthropic --------------------------------------------------------------------------------------------------------


def message(**changes: Any) -> bytes:
    """Return a reply in Anthropic's shape."""
    usage = {
        "input_tokens": 12, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 100, "output_tokens": 7,
    }  # fmt: skip
    content = [
        {"type": "thinking", "thinking": "B is longer. [[B]]", "signature": "EqQB"},
        {"type": "text", "text": "The first is right. "},
        {"type": "text", "text": "[[A]]"},
    ]
    whole = {"id": "msg_1", "model": "claude", "content": content, "stop_reason": "end_turn", "usage": usage}
    return orjson.dumps(whole | changes)


def test_thinking_is_not_part_of_the_answer() -> None:
    """All input tokens count, cached ones too."""
    reply = WIRE.read(message(), 200)
    assert (reply.text, reply.reasoning) == ("The first is right. [[A]]", "B is longer. [[B]]")
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens, reply.usage.completion_tokens) == (142, 100, 7)
    assert (reply.model, reply.id, reply.finish_reason) == ("claude", "msg_1", "stop")
    for reason, truncated, refused in (("max_tokens", True, False), ("model_context_window_exceeded", True, False),
                                       ("refusal", False, True), ("stop_sequence", False, False)):  # fmt: skip
        reply = WIRE.read(message(stop_reason=reason), 200)
        assert (reply.truncated, reply.refused) == (truncated, refused)


@pytest.mark.parametrize(
    ("status", "name", "text", "kind", "detail"),
    [
        (529, "overloaded_error", "Overloaded", Kind.TRANSIENT, None),
        (429, "rate_limit_error", "This request would exceed …", Kind.RATE_LIMITED, None),
        (401, "authentication_error", "invalid x-api-key", Kind.RUN, AuthError),
        (404, "not_found_error", "model: claude-x", Kind.RUN, ModelError),
        (400, "invalid_request_error", "Your credit balance is too low …", Kind.RUN, QuotaError),
        (402, "billing_error", "no", Kind.RUN, QuotaError),
        (413, "request_too_large", "Request exceeds the maximum size", Kind.ITEM, Outcome.CONTEXT_TOO_LONG),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 5", Kind.ITEM, Outcome.CONTEXT_TOO_LONG),
        (400, "invalid_request_error", "messages: at least one is required", Kind.ITEM, Outcome.API_ERROR),
    ],
)
def test_errors_of_anthropic_are_classified(
    status: int, name: str, text: str, kind: Kind, detail: type[SvrError] | Outcome | None
) -> None:
    """Overload is waited for; keys, credit and models end the run; a long prompt fails its item."""
    data = orjson.dumps({"type": "error", "error": {"type": name, "message": text}, "request_id": "req_1"})
    failure = classify_status(status, {}, WIRE.error(data), body_preview="unreadable")
    assert failure.kind is kind
    assert detail is None or detail in (failure.error, failure.outcome)


def test_rate_limits_of_anthropic_are_understood() -> None:
    """They are translated to OpenAI's names; a moment of refill becomes seconds."""
    headers = {
        "Anthropic-Ratelimit-Requests-Limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-22T12:00:12Z",
        "anthropic-ratelimit-tokens-reset": "soon",
        "date": "Sun, 22 Nov 2026 12:00:00 GMT",
    }
    assert WIRE.limits is not None
    found = WIRE.limits(headers)
    names = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")
    assert [found[name] for name in names] == ["50", "0", "12.000s"]
    assert "x-ratelimit-reset-tokens" not in found
    assert classify_status(429, {**found, "retry-after": "7"}, {}).wait_s == 7.0
    assert classify_status(429, found, {}).wait_s == 12.0
