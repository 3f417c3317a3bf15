"""Requests: the bytes sent to an endpoint, the cache key they are known by, and how their replies are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from msgspec.structs import replace

from svr_async.engine.wires import Wire, WireRequest
from svr_async.engine.wires.openai import WIRE as OPENAI

KEY_SCHEMA = 1
SYSTEM = "system"
CHARS_PER_TOKEN = 4.0
"""Measured on English answers: 4.0 to 4.8 with the tokenizers of OpenAI, DeepSeek and Anthropic; 3.2 to 4.0 on code."""
REPAIR_CHARS = 4000
T = TypeVar("T")
Messages = tuple[tuple[str, str], ...]
CONTINGENT: ContextVar[bool] = ContextVar("contingent", default=False)
"""True while a run plans requests that may turn out not to be needed."""
AUDIT: ContextVar[bool] = ContextVar("audit", default=False)
"""True while a pair is judged in the other order only to measure the effect of the order."""


class Request(WireRequest, frozen=True, kw_only=True, dict=True):
    """One question to an endpoint.

    `endpoint` identifies the endpoint in the cache key: its base URL, or a name. `no_cache` asks gateways for a
    fresh answer; it is not part of the key. `sample` distinguishes several answers to one question: it is part of the
    key from 1 on, and never part of the body.
    """

    endpoint: str
    no_cache: bool = False
    wire: Wire = OPENAI
    sample: int = 0

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the POST."""
        return self.wire.body(self)

    @cached_property
    def body_bytes(self) -> bytes:
        """The body as sent, with sorted keys: equal bodies have equal bytes."""
        return orjson.dumps(self.body(), option=orjson.OPT_SORT_KEYS)

    @cached_property
    def key(self) -> bytes:
        """BLAKE2b-256 over everything that can change the answer; never the API key, a timeout or an attempt."""
        whole = b"".join((b'{"body":', self.body_bytes, _after_body(self.endpoint, self.sample)))
        return hashlib.blake2b(whole, digest_size=32).digest()

    @property
    def prompt_chars(self) -> int:
        """Characters in all messages, for token estimates."""
        return sum(len(content) for _, content in self.messages)

    def with_repair(self, reply: str, problem: str) -> Request:
        """Return the request with two turns added: the reply that could not be read, and its problem."""
        turns = (
            ("assistant", reply[:REPAIR_CHARS] or "(empty)"),
            ("user", f"{problem} Answer again, in the asked format only."),
        )
        return replace(self, messages=self.messages + turns, no_cache=True)


def without_system(messages: Messages) -> Messages:
    """Return messages with the system text moved to the start of the first user turn; unchanged without system text."""
    system = [content for role, content in messages if role == SYSTEM]
    others = [turn for turn in messages if turn[0] != SYSTEM]
    at = next((place for place, (role, _) in enumerate(others) if role == "user"), None)
    if not system or at is None:
        return messages
    return (*others[:at], ("user", "\n\n".join([*system, others[at][1]])), *others[at + 1 :])


@cache
def _after_body(endpoint: str, sample: int) -> bytes:
    last = b',"sample":%d}' % sample if sample else b"}"
    return b',"endpoint":%b,"schema":%d%b' % (orjson.dumps(endpoint), KEY_SCHEMA, last)


class ReplyRejectedError(ValueError):
    """Raised by a question's `parse` for an unclear reply; the message tells the model what to correct."""


class Question(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A request with the pure function that reads its reply.

    `parse` raises `ReplyRejectedError` on an unreadable reply; such a reply is never cached. `placeholder` gives a
    plausible value for a dry run. `expected_tokens` estimates the length of the answer, `expected_of` the same from its
    value.
    """

    request: Request
    parse: Callable[[str], T]
    placeholder: Callable[[], T]
    expected_tokens: int = 500
    expected_of: Callable[[T], int] | None = None


def estimate_tokens(chars: int) -> int:
    """Estimate tokens from characters."""
    return int(chars / CHARS_PER_TOKEN) + 1
