"""Wires: how requests to each kind of endpoint are written, and replies read. One module per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from svr_async.engine.reply import Reply

Params = tuple[tuple[str, Any], ...]
QUESTION = "question"  # role of a message that is a statement, answered with the probability that it is true
USUAL = "openai"
MODULES = {
    "openai": "openai", "anthropic": "anthropic", "decisions": "decisions", "systemone": "systemone",
    "logprobs": "logprobs", "classify": "rewards", "pooling": "rewards", "score": "rewards",
}  # fmt: skip
"""The module of each wire; it holds `WIRE`, or `WIRES` by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A name and the JSON schema of a reply.

    The schema is bytes because its order matters: constrained decoding writes keys in the order of the schema.
    """

    name: str
    schema: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Optional settings of a request; each wire spells them in its own way or omits them.

    None, "" and empty values are not sent. `effort` is the reasoning effort; `effort_style` and `structured` come from
    the profile. `form` is the JSON schema of the reply; `extra` are further body fields in the endpoint's spelling.
    """

    temperature: float | None = 0.0
    top_p: float | None = 1.0
    n: int | None = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    effort: str = ""
    effort_style: str = "none"
    structured: str = "none"
    form: Form | None = None
    extra: Params = ()


class WireRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The fields of a request that a wire reads.

    A message is (role, content). `params` are further fields of the body, as the endpoint spells them.
    """

    model: str
    messages: tuple[tuple[str, str], ...]
    max_tokens: int = 8192
    max_tokens_field: str = "max_tokens"
    params: Params = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wire:
    """The API of one kind of endpoint; `name` is its name in profiles.

    `path` follows the base URL. `headers(key)` returns the authentication headers. `params` spells settings, `body`
    builds the JSON of a request, `read(body, status)` reads a reply (BadBodyError if it is not a complete answer).
    `error` returns {code, type, message} from an error body, in the vocabulary of `classify.py`. `limits` renames
    rate-limit headers to OpenAI's names (None if they have them). `batch_url` is the path in OpenAI's Batch API ("" if
    not supported). `questions` is the number of statements a request may hold, for wires that reply with probabilities
    (0 for text). `score`: the reply is the score of the last turn, as {"score": number}.
    """

    name: str
    path: str
    headers: Callable[[str], Mapping[str, str]]
    params: Callable[[Settings], Params]
    body: Callable[[WireRequest], dict[str, Any]]
    read: Callable[[bytes, int], Reply]
    error: Callable[[bytes], Mapping[str, Any]]
    limits: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None
    batch_url: str = ""
    questions: int = 0
    score: bool = False


@cache
def find_wire(name: str) -> Wire:
    """Return the wire of this name; its module is imported on first use."""
    module = import_module(f"svr_async.engine.wires.{MODULES[name]}")
    wire: Wire = module.WIRES[name] if hasattr(module, "WIRES") else module.WIRE
    return wire
