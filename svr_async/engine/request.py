"""Requests: the bytes sent to an endpoint, and the cache key they are known by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, TypeVar, overload

import orjson

from svr_async.engine.wires.contract import Wire
from svr_async.engine.wires.openai import WIRE as OPENAI
from svr_async.vocabulary.verdict import Outcome

KEY_SCHEMA = 1
SYSTEM = "system"
CHARS_PER_TOKEN = 4.0
"""Of cl100k, DeepSeek's and an older tokenizer of Anthropic's: 4.0 to 4.8 of English answers, 3.2 to 4.0 of code."""
T = TypeVar("T")
Messages = tuple[tuple[str, str], ...]
CONTINGENT: ContextVar[bool] = ContextVar("contingent", default=False)
"""Set while a run asks what may turn out not to be needed, since it is not known yet what it depends on."""


class once(Generic[T]):  # noqa: N801  (a decorator)
    """A value worked out at its first use and kept on its object: `cached_property` without its lock."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> T | once[T]:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work(instance)
        return value


@dataclass(frozen=True, kw_only=True)
class Request:
    """One question to an endpoint. `endpoint` is its identity in the cache key: the base URL, or a name for it.

    `params` are further fields of the body (temperature, response_format …) as the endpoint spells them. `spelled` is
    how earlier versions had the endpoint in the key, where that was otherwise. `no_cache` asks gateways in between for
    a fresh answer; it is not part of the key. `wire` is how the endpoint is spoken to, which the key knows by the body
    alone: profiles give endpoints on other wires another identity. `sample` tells several answers to one question
    apart: it is part of the key, from 1 on, and of no body. `signature` is what the reply is asked to repeat, "" where
    it is asked for nothing of the kind: a transport knows by it whose reply a reply is.
    """

    endpoint: str
    model: str
    messages: Messages
    max_tokens: int = 8192
    max_tokens_field: str = "max_tokens"
    params: tuple[tuple[str, Any], ...] = ()
    no_cache: bool = False
    spelled: str = ""
    wire: Wire = field(default=OPENAI, repr=False)
    sample: int = 0
    signature: str = ""

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the POST."""
        return self.wire.body(self)

    @once
    def body_bytes(self) -> bytes:
        """The body as sent: its keys in order, so that equal bodies have equal bytes."""
        return orjson.dumps(self.body(), option=orjson.OPT_SORT_KEYS)

    @once
    def key(self) -> bytes:
        """BLAKE2b-256 over everything that can change the answer: never the API key, a timeout or an attempt.

        What is hashed is the JSON of body, endpoint, schema and, of one of several answers, sample in that order.
        """
        whole = b'{"body":%b%b' % (self.body_bytes, _after_body(self.endpoint, self.sample))
        return hashlib.blake2b(whole, digest_size=32).digest()

    @property
    def prompt_chars(self) -> int:
        """Characters in all messages, for token estimates."""
        return sum(len(content) for _, content in self.messages)

    def with_repair(self, reply: str, problem: str) -> Request:
        """Ask again after a reply that could not be read: the reply and what is wrong with it are added as turns."""
        turns = (
            ("assistant", reply[:4000] or "(empty)"),
            ("user", f"{problem} Answer again, in the asked format only."),
        )
        return replace(self, messages=self.messages + turns, no_cache=True)

    def as_spelled(self) -> Request:
        """The request as earlier versions knew it."""
        return replace(self, endpoint=self.spelled, spelled="")

    def fresh(self) -> Request:
        """The same request, past any gateway cache."""
        return replace(self, no_cache=True)

    def with_max_tokens(self, max_tokens: int) -> Request:
        """The same request with another token budget for the answer."""
        return replace(self, max_tokens=max_tokens)


def without_system(messages: Messages) -> Messages:
    """Return messages with what the system says ahead of the first of the user's; the same where it says nothing."""
    system = [content for role, content in messages if role == SYSTEM]
    others = [one for one in messages if one[0] != SYSTEM]
    at = next((place for place, (role, _) in enumerate(others) if role == "user"), None)
    if not system or at is None:
        return messages
    return (*others[:at], ("user", "\n\n".join([*system, others[at][1]])), *others[at + 1 :])


@cache
def _after_body(endpoint: str, sample: int) -> bytes:
    last = b',"sample":%d}' % sample if sample else b"}"
    return b',"endpoint":%b,"schema":%d%b' % (orjson.dumps(endpoint), KEY_SCHEMA, last)


class ReplyRejectedError(ValueError):
    """Raised by a question's `parse` when a reply cannot be read; the message tells the model what to mend."""

    outcome = Outcome.PARSE_ERROR


class AmbiguousReplyError(ReplyRejectedError):
    """Raised where a reply can be read in more than one way: it is asked again once, and never guessed."""

    outcome = Outcome.AMBIGUOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[T]):
    """A request with the pure function that reads its reply.

    `parse` raises `ReplyRejectedError` on a reply that is no answer; such a reply is never cached. `salvage` reads
    more than `parse` does, by repairing what is broken; it is tried only when asking again did not help.
    `sketch` gives a plausible value for a dry run; `expected_tokens` is the guess of the answer's length for its price,
    `expected_of` the same once its value is known.
    """

    request: Request
    parse: Callable[[str], T]
    sketch: Callable[[], T]
    expected_tokens: int = 500
    expected_of: Callable[[T], int] | None = None
    salvage: Callable[[str], T] | None = None


def estimate_tokens(chars: int) -> int:
    """Estimate tokens from characters."""
    return int(chars / CHARS_PER_TOKEN) + 1
