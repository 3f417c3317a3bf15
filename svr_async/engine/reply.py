"""Replies: what is kept of a model's answer, the row that the cache has of it, and what all wires read it with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.endpoint_json import json_value

MAX_CREDIBLE_TOKENS = 100_000_000
OPENING = re.compile(r"\s*<(think|thinking|thought|reasoning)>")
THOUGHTS_END = "</think>"
LONE_END = re.compile(rf"{THOUGHTS_END}[ \t]*$", re.MULTILINE)


WHOLE = frozenset({"stop", "STOP", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "COMPLETE", ""})
TRUNCATED = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length"})
REFUSED = frozenset({
    "content_filter", "refusal", "safety", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII",
    "guardrail_intervened", "sensitive",
})  # fmt: skip
"""How answers end, in the words of the endpoints that we know. What stands nowhere here is no answer: error, abort …"""


class BadBodyError(ValueError):
    """The body is no whole answer: truncated, not JSON, or without what a wire looks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one reply; None where the endpoint did not say, or said nonsense. `batch`: bought in a batch file."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One complete answer of a model, as kept in the cache. `reasoning` is what it thought, where that comes apart."""

    text: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    model: str = ""
    fingerprint: str = ""
    id: str = ""
    tries: int = 1
    reasoning: str = ""

    @property
    def answer(self) -> str:
        """The text without what a model thinks aloud before it."""
        return without_thoughts(self.text)

    @property
    def whole(self) -> bool:
        """Whether the model ended the answer itself, as far as the endpoint says."""
        return self.finish_reason in WHOLE

    @property
    def truncated(self) -> bool:
        """Whether the answer ran into the token limit."""
        return self.finish_reason in TRUNCATED

    @property
    def refused(self) -> bool:
        """Whether a content filter or the model's refusal field ended the answer."""
        return self.finish_reason in REFUSED

    def to_bytes(self) -> bytes:
        """Return the reply as JSON for the cache: what orjson makes of the object itself, in half the time."""
        usage = self.usage
        counts = {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "batch": usage.batch,
        }
        row = {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "usage": counts,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "id": self.id,
            "tries": self.tries,
        }
        return orjson.dumps(row | {"reasoning": self.reasoning} if self.reasoning else row)

    @classmethod
    def from_bytes(cls, data: bytes) -> Reply:
        """Read what `to_bytes` wrote; ValueError, KeyError or TypeError on anything else."""
        value = orjson.loads(data)
        usage = value["usage"]
        if type(usage) is not dict:
            raise TypeError("a reply's usage is no object")
        value["usage"] = counts = Usage(**usage)
        reply = cls(**value)
        for count in (counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens):
            if count is not None and token_count(count) is None:
                raise TypeError("a reply's counts have other types")
        if type(counts.batch) is not bool:
            raise TypeError("a reply's mark of a batch has another type")
        if token_count(reply.tries) is None:
            raise TypeError("a reply's number of tries has another type")
        for text in (reply.text, reply.finish_reason, reply.model, reply.fingerprint, reply.id, reply.reasoning):
            if type(text) is not str:
                raise TypeError("a reply's fields have other types")
        return reply


def json_of(body: bytes, status: int = HTTPStatus.OK) -> Any:
    """Return the JSON of a reply; BadBodyError where it is no success, or where the body is not JSON.

    That the JSON is complete is the only proof that the body is: a connection that closes early can look like success.
    """
    if not 200 <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise BadBodyError(preview(body) or "an empty body")
    try:
        value = json_value(body)
    except ValueError:
        raise BadBodyError(f"the body of {len(body)} bytes is not JSON: {preview(body)}") from None
    if isinstance(value, dict) and value.get("error"):  # whatever stands beside it
        raise BadBodyError("the reply is an error")
    return value


def preview(body: bytes, limit: int = 120) -> str:
    """Return the beginning of a body as one printable line."""
    text = body[: 4 * limit].decode("utf-8", "replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line[:limit] + ("…" if len(line) > limit else "")


def without_thoughts(text: str) -> str:
    """Return a reply without the thoughts ahead of its answer: `<think>…</think>`, or all up to a lone `</think>` line.

    Some templates write the opening tag into the prompt, so that a reply has only the closing one. A tag within a line
    is a quotation. Thoughts that do not end leave no answer.
    """
    if THOUGHTS_END not in text and not OPENING.match(text):
        return text
    opened = OPENING.match(text)
    if opened is None:
        found = LONE_END.search(text)
        return text if found is None or text.lstrip().startswith("{") else text[found.end() :].lstrip()
    _, ended, rest = text[opened.end() :].partition(f"</{opened[1]}>")
    return rest.lstrip() if ended else ""


def token_count(value: Any) -> int | None:
    """Return a number of tokens, or None for what can be none."""
    return value if type(value) is int and 0 <= value <= MAX_CREDIBLE_TOKENS else None
