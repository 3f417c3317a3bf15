"""Requests and replies: cache keys, any JSON in any place, how answers end, thoughts, lenient reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace
from rig import ask, by_turn, completion, pairs, scripted_engine, writer

from svr_async.core.pair import Order, present
from svr_async.core.verdict import Outcome
from svr_async.engine.batch_files import batch_line
from svr_async.engine.cache import pack, unpack
from svr_async.engine.caller import EngineConfig
from svr_async.engine.reply import BadBodyError, Reply, Usage, without_thoughts
from svr_async.engine.request import Request
from svr_async.engine.wires import MODULES, find_wire
from svr_async.engine.wires.openai import WIRE, error_in_body, read_completion
from svr_async.judges.protocol import Preference
from svr_async.judges.recorded import load_recorded

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
    """Yield the value with each place replaced by each odd value."""
    yield from ODD
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: one for other, one in value.items() if other != name}
            yield from (value | {name: one} for one in mutants(inner))
    if isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], one, *value[at + 1 :]] for one in mutants(inner))


@pytest.mark.parametrize("name", MODULES)
def test_any_value_in_any_place_of_a_reply_is_handled(name: str) -> None:
    """Each wire reads the reply or raises BadBodyError; what it reads can be stored and read again."""
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
        assert unpack(REQUEST.key, pack(REQUEST.key, reply)) == reply


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
def test_sloppy_json_is_read(body: bytes, text: str) -> None:
    """A paid reply whose meaning is clear is an answer, and can be stored."""
    reply = find_wire("openai").read(body, 201)
    assert reply.text == text
    assert unpack(REQUEST.key, pack(REQUEST.key, reply)) == reply


@pytest.mark.parametrize("error", [{"message": "upstream died", "code": 502}, "upstream died"])
def test_an_error_with_an_answer_is_an_error(error: object) -> None:
    """A gateway that fails midway sends both: the answer is not finished."""
    for name, whole in WHOLE.items():
        with pytest.raises(BadBodyError, match="is an error"):
            find_wire(name).read(orjson.dumps(whole | {"error": error}), 200)


@pytest.mark.parametrize("reason", ["error", "abort", "tool_calls", "cancelled", "unheard-of"])
async def test_an_incomplete_answer_is_asked_again(reason: str, tmp_path: Path) -> None:
    """Only known good finish reasons are answers; the detail of the item names any other."""
    incomplete = completion("[[A]] but", reason)
    async with scripted_engine(tmp_path / "stays", by_turn(incomplete)) as (engine, transport):
        done = await engine.complete(ask())
        assert (done.outcome, len(transport.sent)) == (Outcome.PARSE_ERROR, EngineConfig().repairs + 1)
        assert reason in done.detail
        assert engine.cache.get(ask().request.key) is None
    async with scripted_engine(tmp_path / "passes", by_turn(incomplete, completion("[[A]]"))) as (engine, transport):
        assert (await engine.complete(ask())).value == "[[A]]"
        assert len(transport.sent) == 2


# --- thoughts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>A or B? [[B]]</think>\n\nShort. [[A]]", "Short. [[A]]"),
        ("\n<thinking>hm</thinking>[[A]]", "[[A]]"),
        ("hm, the template opened it\n</think>\n[[A]]", "[[A]]"),
        ("hm</think>\n\n[[A]]", "[[A]]"),
        ("<think>it never ends [[A]]", ""),
        ("no thoughts [[A]]", "no thoughts [[A]]"),
        ("A writes </think> in its text. [[A]]", "A writes </think> in its text. [[A]]"),
        ('{"reason": "A says\\n</think>"}', '{"reason": "A says\\n</think>"}'),
        ("I quote <think>B</think>. [[A]]", "I quote <think>B</think>. [[A]]"),
    ],
)
def test_thoughts_before_the_answer_are_removed(text: str, answer: str) -> None:
    """Thoughts lead the reply or end with a lone closing tag; a tag within a line is a quotation."""
    assert without_thoughts(text) == answer
    assert Reply(text=text).answer == answer


def read(message: dict[str, Any]) -> Reply:
    """Read a completion with this message."""
    return WIRE.read(orjson.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}), 200)


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "[[A]]", "reasoning_content": "hm"}, "[[A]]", "hm"),
        ({"content": "[[A]]", "reasoning": "hm"}, "[[A]]", "hm"),
        ({"content": None, "reasoning_content": "[[B]]"}, "", "[[B]]"),
        ({"content": [{"type": "text", "text": "[["}, {"type": "text", "text": "A]]"}]}, "[[A]]", ""),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                      {"type": "text", "text": "[[A]]"}]}, "[[A]]", "hm"),
        ({"content": ["[[A]]", {"type": "image_url"}, {"text": 5}, 7]}, "[[A]]", ""),
        ({"content": "[[A]]", "reasoning": {"tokens": 5}}, "[[A]]", ""),
    ],
)  # fmt: skip
def test_every_shape_of_a_message_is_read(message: dict[str, Any], text: str, reasoning: str) -> None:
    """Text, parts, reasoning in a separate field or in parts: the answer is the text alone."""
    reply = read(message)
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert unpack(REQUEST.key, pack(REQUEST.key, reply)) == reply


def test_a_verdict_among_thoughts_does_not_count(tmp_path: Path) -> None:
    """In a live or recorded reply, a verdict within thoughts does not count; one after them does."""
    shown = present(pairs(1)[0], Order.AB)
    texts = iter(["<think>[[B]]", "<think>[[B]]</think> [[A]]"])

    async def live() -> None:
        async with scripted_engine(tmp_path / "cache", lambda *_: completion(next(texts))) as (engine, _):
            done = await engine.complete(writer().direct(shown))
            assert (done.value, done.outcome) == (Preference(margin=1.0), Outcome.SCORED)

    asyncio.run(live())
    line = {"pair_id": shown.pair_id, "order": "ab", "role": "direct", "reply": "<think>[[B]] or [[A]]"}
    (tmp_path / "r.jsonl").write_bytes(orjson.dumps(line))
    judge = load_recorded(tmp_path / "r.jsonl", {})
    assert asyncio.run(judge.prefer(shown)).value is None


# --- requests ---------------------------------------------------------------------------------------------------------

REQUEST = Request(endpoint="e", model="m", messages=(("system", "s"), ("user", "u")), params=(("temperature", 0.0),))


# What 0.1.0 sent: these bytes identify replies in existing caches and batches.
OLD_REQUEST = Request(
    endpoint="http://127.0.0.1:8000/v1", model="m", messages=(("system", "Judge."), ("user", "A or B? é")),
    max_tokens=64, params=(("temperature", 0.0), ("top_p", 1.0), ("n", 1)),
)  # fmt: skip
OLD_BODY = (
    b'{"max_tokens":64,"messages":[{"content":"Judge.","role":"system"},{"content":"A or B? \xc3\xa9","role":"user"}],'
    b'"model":"m","n":1,"temperature":0.0,"top_p":1.0}'
)
OLD_KEY = "1e9db8a9859aeddcdcfcc4a4df6d0c1615751f860bee5487943944a36b0fffee"


def test_bodies_keys_and_batch_lines_are_those_of_earlier_versions() -> None:
    """No reply is paid for again after an update."""
    assert (OLD_REQUEST.body_bytes, OLD_REQUEST.key.hex()) == (OLD_BODY, OLD_KEY)
    line = b'{"custom_id":"%b","method":"POST","url":"/v1/chat/completions","body":%b}\n'
    assert batch_line(OLD_REQUEST) == line % (OLD_KEY.encode(), OLD_BODY)


def test_the_key_covers_what_can_change_the_answer_and_nothing_else() -> None:
    """Endpoint, model, messages, token limit, parameters and sample change the key; cache control does not."""
    others = [
        Request(endpoint="f", model="m", messages=REQUEST.messages, params=REQUEST.params),
        Request(endpoint="e", model="n", messages=REQUEST.messages, params=REQUEST.params),
        Request(endpoint="e", model="m", messages=REQUEST.messages[:1], params=REQUEST.params),
        Request(endpoint="e", model="m", messages=REQUEST.messages, params=(("temperature", 1.0),)),
        replace(REQUEST, max_tokens=1),
        REQUEST.with_repair("bad", "Correct it."),
        replace(REQUEST, sample=1),
    ]
    assert len({request.key for request in [REQUEST, *others]}) == len(others) + 1
    fresh = replace(REQUEST, no_cache=True)
    assert (fresh.key, fresh.body_bytes) == (REQUEST.key, REQUEST.body_bytes)
    swapped = Request(endpoint="e", model="m", messages=REQUEST.messages, params=(*REQUEST.params, ("n", 1)))
    turned = Request(endpoint="e", model="m", messages=REQUEST.messages, params=(("n", 1), *REQUEST.params))
    assert swapped.key == turned.key


# --- replies of the openai wire ---------------------------------------------------------------------------------------


def body(**extra: Any) -> bytes:
    """Return a completion's body."""
    message = {"role": "assistant", "content": "hi"}
    return orjson.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **extra})


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"<html>", b'{"choices": []}', b'{"choices": [null]}', b'{"choices": [{}]}',
     b'{"choices": {"0": 1}}', b'{"choices": [{"message": "text"}]}', b"\xff\xfe"],
)  # fmt: skip
def test_other_bodies_are_refused(data: bytes) -> None:
    """A truncated, foreign or empty body is an error, never an empty answer."""
    with pytest.raises(BadBodyError):
        read_completion(data)


def test_a_completion_cut_anywhere_is_refused() -> None:
    """A body that ends early is not JSON, so it can never look like success."""
    whole = body(usage={"prompt_tokens": 7}, model="m")
    for end in range(len(whole)):
        with pytest.raises(BadBodyError):
            read_completion(whole[:end])


@pytest.mark.parametrize(
    "usage",
    [None, [], "many", {"prompt_tokens": -1}, {"prompt_tokens": "7"}, {"prompt_tokens": True}, {"prompt_tokens": 1.5},
     {"prompt_tokens": 10**12}, {"prompt_tokens_details": 3}, {"cost": -1}, {"cost": "much"}, {"cost": True}],
)  # fmt: skip
def test_absurd_usage_counts_as_unknown(usage: Any) -> None:
    """Missing, negative, enormous or mistyped counts and costs are None."""
    assert read_completion(body(usage=usage)).usage == Usage()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"error": {"code": "x"}}', {"code": "x"}),
        (b'{"error": "text"}', {"message": "text"}),
        (b'{"object": "error", "message": "vllm"}', {"object": "error", "message": "vllm"}),
        (b'{"detail": "Not Found"}', {"message": "Not Found"}),
        (b'{"detail": ["x"]}', {}), (b"[]", {}), (b"<html>", {}), (b'{"error": 5}', {}),
    ],
)  # fmt: skip
def test_errors_are_found_in_every_servers_shape(data: bytes, expected: dict[str, Any]) -> None:
    """OpenAI's, vLLM's and FastAPI's errors are read; anything else is not an error object."""
    assert error_in_body(data) == expected
