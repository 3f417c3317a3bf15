"""Replies: reading the body of a chat completion, and the row that the memo keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

MAX_CREDIBLE_TOKENS = 100_000_000


class BadBodyError(ValueError):
    """The body is not a chat completion: truncated, not JSON, or without a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one reply; None where the endpoint did not say, or said nonsense. `batch`: bought in a batch file."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One complete answer of a model, as kept in the memo."""

    text: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    model: str = ""
    fingerprint: str = ""
    id: str = ""
    tries: int = 1

    @property
    def truncated(self) -> bool:
        """Whether the answer ran into the token limit."""
        return self.finish_reason == "length"

    @property
    def refused(self) -> bool:
        """Whether a content filter or the model's refusal field ended the answer."""
        return self.finish_reason in {"content_filter", "refusal"}

    def to_bytes(self) -> bytes:
        """Return the reply as JSON for the memo: what orjson makes of the object itself, in half the time."""
        usage = self.usage
        counts = {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "batch": usage.batch,
        }
        return orjson.dumps(
            {
                "text": self.text,
                "finish_reason": self.finish_reason,
                "usage": counts,
                "model": self.model,
                "fingerprint": self.fingerprint,
                "id": self.id,
                "tries": self.tries,
            }
        )

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
            if count is not None and _count(count) is None:
                raise TypeError("a reply's counts have other types")
        if type(counts.batch) is not bool:
            raise TypeError("a reply's mark of a batch has another type")
        for text in (reply.text, reply.finish_reason, reply.model, reply.fingerprint, reply.id):
            if type(text) is not str:
                raise TypeError("a reply's fields have other types")
        return reply


def read_completion(body: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read the body of a chat completion; BadBodyError where it is none.

    That the JSON is complete is the only proof that the body is: a connection that closes early can look like success.
    """
    if status != HTTPStatus.OK:
        raise BadBodyError(preview(body) or "an empty body")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadBodyError(f"the body of {len(body)} bytes is not JSON: {preview(body)}") from None
    try:
        choice = value["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadBodyError(_lack(value)) from None
    reason = "refusal" if refusal and isinstance(refusal, str) else str(choice.get("finish_reason") or "stop")
    return Reply(
        text=_text(content),
        finish_reason=reason,
        usage=_read_usage(value.get("usage")),
        model=str(value.get("model") or ""),
        fingerprint=str(value.get("system_fingerprint") or ""),
        id=str(value.get("id") or ""),
    )


def _lack(value: Any) -> str:
    """Say what a body lacks that is not a completion."""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "the reply has no choices"
    return "the first choice has no message"


def error_in_body(body: bytes) -> dict[str, Any]:
    """Return the `error` object of a body, whatever its status; empty where there is none."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(value, dict):
        return {}
    error = value.get("error")
    if isinstance(error, str):
        return {"message": error}
    if isinstance(error, dict):
        return error
    if value.get("object") == "error":
        return value
    return {"message": value["detail"]} if isinstance(value.get("detail"), str) and "choices" not in value else {}


def preview(body: bytes, limit: int = 120) -> str:
    """Return the beginning of a body as one printable line."""
    text = body[: 4 * limit].decode("utf-8", "replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line[:limit] + ("…" if len(line) > limit else "")


def _text(content: Any) -> str:
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        return ""
    return content if content.isascii() else content.encode("utf-8", "replace").decode("utf-8")


def _read_usage(value: Any) -> Usage:
    if not isinstance(value, dict):
        return Usage()
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else value.get("cached_tokens")
    return Usage(
        prompt_tokens=_count(value.get("prompt_tokens")),
        cached_tokens=_count(cached),
        completion_tokens=_count(value.get("completion_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_CREDIBLE_TOKENS else None
