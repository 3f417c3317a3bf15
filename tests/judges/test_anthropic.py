"""The wire of Anthropic's messages: its own shapes written and read, and the same verdicts as in OpenAI's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import QUICK, pairs, serving

from svr_async.core.pair import Order, present
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.caller import EngineConfig
from svr_async.engine.classify import Kind, classify_reply
from svr_async.engine.request import Request
from svr_async.engine.wires import Form, Settings
from svr_async.engine.wires.anthropic import WIRE
from svr_async.errors import AuthError, ModelError, QuotaError, SvrError
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.profiles import Profile
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig, parse_kinds
from svr_async.simulation.server import SimServer

KEY = "sk-ant-sentinel-1"


def message(**changes: Any) -> bytes:
    """Return a reply in the manner of Anthropic's."""
    usage = {
        "input_tokens": 12,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
        "service_tier": "standard",
    }
    content = [
        {"type": "thinking", "thinking": "B is longer. [[B]]", "signature": "EqQB"},
        {"type": "text", "text": "The first is right. "},
        {"type": "text", "text": "[[A]]"},
    ]
    whole = {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    return orjson.dumps(whole | changes)


def failed(status: int, kind: str, text: str, **headers: str) -> Any:
    """Return how an error in Anthropic's shape is taken."""
    body = orjson.dumps({"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"})
    return classify_reply(WIRE, status, headers, body, "unreadable")


def test_a_question_is_written_as_messages_have_it() -> None:
    """The system stands on top, the limit is always there, a top_p of 1 is left out, a list of stops has its name."""
    settings = Settings(stop=("END",), effort="low", effort_style="object", top_p=0.9, extra=(("metadata", {}),))
    turns = (("system", "Judge."), ("user", "A or B?"), ("assistant", "(empty)"), ("user", "Again."))
    asked = Request(endpoint="e", model="m", messages=turns, max_tokens=64, params=WIRE.params(settings), wire=WIRE)
    assert orjson.loads(asked.body_bytes) == {
        "model": "m",
        "max_tokens": 64,
        "system": "Judge.",
        "messages": [{"role": role, "content": text} for role, text in turns[1:]],
        "temperature": 0.0,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low"},
        "metadata": {},
    }
    assert dict(WIRE.params(Settings())) == {"temperature": 0.0}
    assert WIRE.params(Settings(temperature=None)) == ()
    assert dict(WIRE.headers(KEY)) == {"anthropic-version": "2023-06-01", "x-api-key": KEY}
    form = Form(name="f", schema=b'{"type":"object"}')
    formed = orjson.dumps(dict(WIRE.params(Settings(structured="json_schema", form=form))))
    assert orjson.loads(formed)["output_config"]["format"] == {"type": "json_schema", "schema": {"type": "object"}}


def test_a_reply_is_read_with_its_thinking_apart() -> None:
    """Only text counts as the answer; all input counts, what came from the cache is told."""
    reply = WIRE.read(message(), 200)
    assert (reply.text, reply.reasoning) == ("The first is right. [[A]]", "B is longer. [[B]]")
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens, reply.usage.completion_tokens) == (142, 100, 7)
    assert (reply.model, reply.id[:4], reply.finish_reason) == ("claude-sonnet-5-5", "msg_", "stop")
    assert WIRE.read(message(usage=None), 200).usage.prompt_tokens is None


@pytest.mark.parametrize(
    ("reason", "truncated", "refused"),
    [("max_tokens", True, False), ("model_context_window_exceeded", True, False), ("refusal", False, True),
     ("stop_sequence", False, False), (None, False, False), ("pause_turn", False, False)],
)  # fmt: skip
def test_why_a_reply_ended_is_understood(reason: str | None, truncated: bool, refused: bool) -> None:
    """A limit is a truncation, a refusal a refusal."""
    reply = WIRE.read(message(stop_reason=reason), 200)
    assert (reply.truncated, reply.refused) == (truncated, refused)


@pytest.mark.parametrize(
    ("failure", "kind", "outcome", "error"),
    [
        (failed(529, "overloaded_error", "Overloaded"), Kind.TRANSIENT, None, None),
        (failed(500, "api_error", "Internal server error"), Kind.TRANSIENT, None, None),
        (failed(429, "rate_limit_error", "This request would exceed …"), Kind.RATE_LIMITED, None, None),
        (failed(401, "authentication_error", "invalid x-api-key"), Kind.RUN, None, AuthError),
        (failed(403, "permission_error", "no access"), Kind.RUN, None, AuthError),
        (failed(404, "not_found_error", "model: claude-x"), Kind.RUN, None, ModelError),
        (failed(400, "invalid_request_error", "Your credit balance is too low …"), Kind.RUN, None, QuotaError),
        (failed(402, "billing_error", "no"), Kind.RUN, None, QuotaError),
        (failed(413, "request_too_large", "Request exceeds the maximum size"), Kind.ITEM, "context_too_long", None),
        (failed(400, "invalid_request_error", "prompt is too long: 9 tokens > 5 maximum"), Kind.ITEM,
         "context_too_long", None),
        (failed(400, "invalid_request_error", "messages: at least one is required"), Kind.ITEM, "api_error", None),
    ],
)  # fmt: skip
def test_errors_are_what_they_mean(failure: Any, kind: Kind, outcome: str | None, error: type[SvrError] | None) -> None:
    """Overload and limits are waited out, keys, credit and models end the run, a long prompt is its item's."""
    assert failure.kind is kind
    assert outcome is None or failure.outcome is Outcome(outcome)
    assert error is None or failure.error is error


def test_rates_are_heard() -> None:
    """Limits have OpenAI's names, a moment of refill becomes seconds; a wait that is asked for is kept to."""
    told = {
        "Anthropic-Ratelimit-Requests-Limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-22T12:00:12Z",
        "anthropic-ratelimit-tokens-reset": "soon",
        "date": "Sun, 22 Nov 2026 12:00:00 GMT",
    }
    assert WIRE.limits is not None
    found = WIRE.limits(told)
    names = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")
    assert [found[name] for name in names] == ["50", "0", "12.000s"]
    assert "x-ratelimit-reset-tokens" not in found
    waits = classify_reply(WIRE, 429, {**found, "retry-after": "7"}, b"{}", "")
    assert waits.wait_s == 7.0
    assert classify_reply(WIRE, 429, found, b"{}", "").wait_s == 12.0


# --- on the simulated endpoint ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endpoint() -> Iterator[SimServer]:
    """Serve a flawless endpoint that wants a key."""
    with serving(SimConfig(api_key=KEY, prefix_blocks=4096)) as server:
        yield server


def verdicts(url: str, cache: Path, count: int = 4, **settings: Any) -> tuple[list[Any], Any, Any]:
    """Return what a judge says of pairs, directly and by rubrics, with its facts and the engine's."""
    usual = {"name": "sim", "model": "gpt-oss-120b", "base_url": url, "key_env": "ANT_KEY"}
    spec = JudgeSpec(text="sim", profile=Profile(**{**usual, **settings}))

    async def ask() -> tuple[list[Any], Any, Any]:
        opened = open_judge(spec, JudgeLimits(cache=cache, timeout_s=10.0), config=EngineConfig(**QUICK))
        judge, calls = opened.judge, list[Any]()
        for pair in pairs(count):
            shown, asked = present(pair, Order.AB), [Rubric(text=text) for text in pair.rubrics[:3]]
            calls += [judge.prefer(shown), judge.compare(shown, asked, overall=True)]
        try:
            found = [answer.value for answer in await asyncio.gather(*calls)]
            assert opened.engine is not None
            return found, opened.facts(), opened.engine.stats()
        finally:
            await opened.close()

    return asyncio.run(ask())


def test_the_verdicts_are_those_of_openais_shape(
    endpoint: SimServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same planted world gives the same verdicts, on either wire, and is labelled simulated."""
    monkeypatch.setenv("ANT_KEY", KEY)
    endpoint.reset()
    theirs, _, _ = verdicts(endpoint.base_url, tmp_path / "a")
    ours, facts, stats = verdicts(endpoint.base_url, tmp_path / "b", wire="anthropic", structured="json_schema")
    assert ours == theirs
    assert None not in ours
    assert facts["marks"] == ["simulated"]
    assert facts["wire"] == "anthropic"
    assert stats.prompt_tokens > 0
    assert stats.cached_tokens > 0
    again, _, stats = verdicts(endpoint.base_url, tmp_path / "b", wire="anthropic", structured="json_schema")
    assert (again, stats.sent) == (ours, 0)


def test_faults_are_survived_in_its_shape(tmp_path: Path) -> None:
    """Overload, limits, cut and broken replies, refusals: the verdicts are those of a run without any."""
    kinds = parse_kinds("status,content,body,reset-mid,truncated,close-cut,bad-utf8,wrong-model,bad-usage")
    faults = FaultConfig(rate=0.5, kinds=kinds, retry_after_s=0.01)
    with serving() as calm, serving(SimConfig(faults=faults)) as rough:
        expected, _, _ = verdicts(calm.base_url, tmp_path / "a", wire="anthropic", key_env="")
        found, _, _ = verdicts(rough.base_url, tmp_path / "b", wire="anthropic", key_env="")
        assert len(rough.stats()["faults"]) >= 3
    assert found == expected
