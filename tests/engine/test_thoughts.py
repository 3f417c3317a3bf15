"""What a model thinks aloud is no part of its answer, in whichever form an endpoint tells it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import completion, pairs, scripted_engine, writer

from svr_async.engine.reply import Reply, without_thoughts
from svr_async.engine.wires.openai import WIRE
from svr_async.judges.recorded import load_recorded
from svr_async.vocabulary.pair import Order, Side, present
from svr_async.vocabulary.verdict import Outcome


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
def test_thoughts_end_where_the_answer_begins(text: str, answer: str) -> None:
    """Only what stands ahead of the answer, or up to a lone closing tag, is thought; a tag in a line is a quotation."""
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
    """Texts, lists of parts, reasoning in a field of its own or in parts: the answer is the text alone."""
    reply = read(message)
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert Reply.from_bytes(reply.to_bytes()) == reply


def test_a_row_without_reasoning_is_what_it_was() -> None:
    """Caches of replies without reasoning hold the same bytes as before."""
    assert b"reasoning" not in Reply(text="x").to_bytes()


def test_a_verdict_among_thoughts_does_not_count(tmp_path: Path) -> None:
    """A live reply, or a recorded one, that only thinks of a verdict has none; the one after the thoughts counts."""
    shown = present(pairs(1)[0], Order.AB)
    texts = iter(["<think>[[B]]", "<think>[[B]]</think> [[A]]"])

    async def live() -> None:
        async with scripted_engine(tmp_path / "cache", lambda *_: completion(next(texts))) as (engine, _):
            done = await engine.complete(writer().direct(shown))
            assert (done.value, done.outcome) == (Side.A, Outcome.SCORED)

    asyncio.run(live())
    line = {"pair_id": shown.pair_id, "order": "ab", "role": "direct", "reply": "<think>[[B]] or [[A]]"}
    (tmp_path / "r.jsonl").write_bytes(orjson.dumps(line))
    judge = load_recorded(tmp_path / "r.jsonl", {})
    assert asyncio.run(judge.prefer(shown)).value is None
