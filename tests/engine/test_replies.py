"""What endpoints reply: any JSON value in any place, how answers end, and what is read leniently."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from svr_async.engine.wires.registry import NAMES, find_wire

from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.reply import BadBodyError, Reply, json_of
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.transport import RawReply
from svr_async.vocabulary.verdict import Outcome

CHAT: dict[str, Any] = {
    "id": "1",
    "model": "m",
    "system_fingerprint": "f",
    "choices": [
        {
            "message": {
                "content": [{"type": "text", "text": "yes"}, {"type": "thinking", "thinking": [{"text": "hm"}]}],
                "refusal": None,
                "reasoning": "hm",
            },
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "Yes", "top_logprobs": [{"token": "Yes", "logprob": -0.1}]}]},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}},
}
MESSAGE: dict[str, Any] = {
    "id": "1",
    "model": "m",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 1},
}
ANSWERS: dict[str, Any] = {
    "id": "1",
    "model": "m",
    "answers": [{"type": "predicate", "name": "q1", "probability": 0.5}, {"type": "refusal", "name": "q2"}],
    "usage": {"input_tokens": 3, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 1}},
}
NAMED: dict[str, Any] = {"id": "1", "model": "m", "answers": {"q1": {"noul": 0.5}, "q2": {"type": "refusal"}}}
ROWS: dict[str, Any] = {
    "id": "1",
    "model": "m",
    "data": [{"index": 0, "probs": [0.5], "score": 0.5, "data": [[0.5]]}],
    "usage": {"prompt_tokens": 3},
}
WHOLE = {"openai": CHAT, "logprobs": CHAT, "anthropic": MESSAGE, "decisions": ANSWERS, "systemone": NAMED}
ODD: tuple[Any, ...] = (None, True, 0, -1, 10**30, 1.5, "", "x" * 50, [], {}, [None], [[1]], [{"text": 3}], {"a": None})


def mutants(value: Any) -> Iterator[Any]:
    """Yield the value with each of its places taken by each of the odd values."""
    yield from ODD
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: one for other, one in value.items() if other != name}
            yield from (value | {name: one} for one in mutants(inner))
    if isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], one, *value[at + 1 :]] for one in mutants(inner))


@pytest.mark.parametrize("name", NAMES)
def test_any_value_in_any_place_of_a_reply_is_data(name: str) -> None:
    """Each wire reads a reply with an odd value, or says that it is none; what it reads can be kept and read again."""
    wire = find_wire(name)
    whole = WHOLE.get(name, ROWS)
    assert wire.read(orjson.dumps(whole), 200).model == "m"
    for value in mutants(whole):
        data = json.dumps(value).encode()  # orjson writes no number of 100 bits
        try:
            reply = wire.read(data, 200)
        except BadBodyError:
            continue
        finally:
            assert isinstance(dict(wire.error(data)), dict)
        assert Reply.from_bytes(reply.to_bytes()) == reply


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"choices": [{"message": {"content": "a\\ud800b"}}]}', "a?b"),
        (b'{"choices": [{"message": {"content": "yes"}}], "score": NaN, "x": -Infinity}', "yes"),
        (b'\xef\xbb\xbf{"choices": [{"message": {"content": "yes"}}]}', "yes"),
        (b'{"choices": [{"message": {"content": "two\nlines"}}]}', "two\nlines"),
        (b'{"choices": [{"message": {"content": "a\xffb"}}], "model": "\\udfff"}', "a\ufffdb"),
    ],
    ids=["half a surrogate pair", "NaN", "byte-order mark", "a raw line break", "broken UTF-8"],
)  # fmt: skip
def test_what_only_a_strict_reader_refuses_is_read_and_can_be_kept(body: bytes, text: str) -> None:
    """A paid reply with an oddity that leaves no doubt of what it says is an answer, whatever success it is sent as."""
    reply = find_wire("openai").read(body, 201)
    assert reply.text == text
    assert Reply.from_bytes(reply.to_bytes()) == reply


@pytest.mark.parametrize("body", [b"", b"{", b'{"choices": [', b"[" * 100_000, b'{"a": "\\ud8', b"1" * 5000 + b"x"])
def test_what_is_cut_off_is_no_reply_to_either_reader(body: bytes) -> None:
    """Completeness is the only proof that a reply is whole, so nothing is guessed beyond the end."""
    with pytest.raises(BadBodyError, match="is not JSON"):
        json_of(body)


@pytest.mark.parametrize("error", [{"message": "upstream died", "code": 502}, "upstream died"])
def test_an_error_beside_an_answer_is_an_error(error: object) -> None:
    """A gateway that breaks off tells both: what stands beside the error was not finished."""
    for name, whole in WHOLE.items():
        with pytest.raises(BadBodyError, match="is an error"):
            find_wire(name).read(orjson.dumps(whole | {"error": error}), 200)


class Ends:
    """A transport whose replies end as told, the last way for good; `bodies` counts what was asked."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)
        self.sent = 0

    async def send(self, _: Request) -> RawReply:
        """Reply "[[A]] but" with the next ending."""
        self.sent += 1
        reason = self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]
        choice = CHAT["choices"][0] | {"message": {"content": "[[A]] but"}, "finish_reason": reason}
        return RawReply(status=200, headers={}, body=orjson.dumps(CHAT | {"choices": [choice]}))

    async def close(self) -> None:
        """Close nothing."""


def ending(folder: Path, *reasons: str) -> tuple[Outcome, str, int, bool]:
    """Ask one question; return its outcome, the reason, how many calls it took and whether a reply was kept."""

    async def ask() -> tuple[Outcome, str, int, bool]:
        transport, cache = Ends(*reasons), Cache.open(folder)
        request = Request(endpoint="e", model="m", messages=(("user", "which?"),))
        async with CallEngine(transport, cache, config=EngineConfig()) as engine:
            done = await engine.complete(Question(request=request, parse=str, placeholder=str))
            kept = cache.get(request.key) is not None
        return done.outcome, done.detail, transport.sent, kept

    return asyncio.run(ask())


@pytest.mark.parametrize("reason", ["error", "abort", "tool_calls", "cancelled", "never heard of"])
def test_an_answer_that_was_broken_off_is_asked_again_and_named(reason: str, tmp_path: Path) -> None:
    """Only known good endings are answers: another is asked again, and where it stays so the item says how it ended."""
    outcome, detail, calls, kept = ending(tmp_path / "stays", reason)
    assert (outcome, kept) == (Outcome.PARSE_ERROR, False)
    assert reason in detail
    assert calls == EngineConfig().repairs + 1
    assert ending(tmp_path / "passes", reason, "stop") == (Outcome.SCORED, "", 2, True)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("MAX_TOKENS", Outcome.TRUNCATED), ("max_tokens", Outcome.TRUNCATED), ("SAFETY", Outcome.REFUSAL)],
)
def test_endings_in_the_words_of_other_endpoints_are_known(reason: str, outcome: Outcome, tmp_path: Path) -> None:
    """A token limit is one and a filter is one, whatever the endpoint calls it."""
    assert ending(tmp_path, reason)[0] is outcome


def test_a_kept_reply_that_was_broken_off_counts_no_longer() -> None:
    """Earlier versions kept what ended in an error; read from the cache it is none."""
    from svr_async.engine.engine import _parse

    question = Question(request=Request(endpoint="e", model="m", messages=()), parse=str, placeholder=str)
    kept = Reply(text="[[A]] but", finish_reason="error")
    with pytest.raises(ReplyRejectedError, match="broken off"):
        _parse(question, kept, 1)
    assert _parse(question, replace(kept, finish_reason="end_turn"), 1) == "[[A]] but"
