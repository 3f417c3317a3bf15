"""Settings that an endpoint refuses: recognised from its error, dropped from then on, and remembered for the next run.

Replies are cached under what was sent. A run that asks for a refused setting therefore looks twice: for the request as
asked, and for the request as it would be sent.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from svr_async.core.files import write_atomic
from svr_async.engine.request import SYSTEM, Request, without_system
from svr_async.errors import StorageError

FILE = "refused.json"
MODEL = "model"
LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
PERMANENT = {
    "max_tokens": 'max_tokens_field = "max_completion_tokens"',
    "max_completion_tokens": 'max_tokens_field = "max_tokens"',
    "response_format": 'structured = "none"',
    "reasoning_effort": 'effort_style = "none"',
    "reasoning": 'effort_style = "none"',
    "output_config": 'effort_style = "none" and structured = "none"',
    "stop_sequences": 'stop = "unset"',
    SYSTEM: 'system_role = "user"',
    MODEL: "the model's full name",
    **{name: f'{name} = "unset"' for name in ("temperature", "top_p", "n", "seed", "stop")},
}
"""Fields of a body that can be dropped or replaced, with the setting of a profile that does so permanently."""
TOGETHER = {
    "temperature": ("temperature", "top_p"),
    "max_tokens": ("max_tokens", "temperature", "top_p"),
}
"""A model that refuses the first field refuses all: one that refuses max_tokens is usually a reasoning model."""
STATUSES = frozenset({400, 404, 422, 500})  # 500 if its message blames the request (`classify.py`)
CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"})
REFUSED = re.compile(
    r"unsupported|not (?:be |currently )?support|n't support|no longer support|unrecogni[sz]ed|unknown|unexpected"
    r"|extra (?:inputs|fields)|not (?:permitted|allowed|available|recogni[sz]ed|valid)|unavailable|deprecated"
    r"|input should be ['\"]|invalid schema|cannot both|cannot find field|only the default|incompatible"
    r"|does not accept",
    re.IGNORECASE,
)
NO_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)s?\b.{0,40}(?:not |n't |un)(?:support|allow|enabled)"
    r"|only user and assistant roles|conversation roles must alternate",
    re.IGNORECASE | re.DOTALL,
)
"""Errors of chat templates without system messages: Gemma's, Mistral's, and endpoints that serve them."""
WORDS = frozenset({"n", "seed", "stop", "reasoning"})
BOTH = re.compile(r"cannot both|not both|only one of", re.IGNORECASE)
TOO_LARGE = re.compile(r"too large|at most|maximum|exceed|less than or equal", re.IGNORECASE)


class ParameterFallback(msgspec.Struct, frozen=True):
    """A field that an endpoint refuses, replaced by `instead`, or dropped if that is empty.

    `system` moves the system message into the user's; `model` sends another name of the model.
    """

    field: str
    instead: str = ""

    def apply(self, request: Request) -> Request:
        """Return the request without the field; the same object if the field is missing."""
        if self.field == SYSTEM:
            messages = without_system(request.messages)
            return request if messages is request.messages else structs.replace(request, messages=messages)
        if self.field == MODEL:
            return request if request.model == self.instead else structs.replace(request, model=self.instead)
        if self.instead:
            same = request.max_tokens_field != self.field
            return request if same else structs.replace(request, max_tokens_field=self.instead)
        kept = tuple(param for param in request.params if param[0] != self.field)
        return request if len(kept) == len(request.params) else structs.replace(request, params=kept)

    def __str__(self) -> str:
        if self.field == SYSTEM:
            return "the system message is sent as part of the user's"
        return f"{self.instead} is sent for {self.field}" if self.instead else f"{self.field} is not sent"


def apply_all(fallbacks: Iterable[ParameterFallback], request: Request) -> Request:
    """Return the request with these fallbacks; the same object if nothing changes."""
    for fallback in fallbacks:
        request = fallback.apply(request)
    return request


def find_fallbacks(request: Request, status: int, error: Mapping[str, Any]) -> tuple[ParameterFallback, ...]:
    """Return the changes that a request needs after a refusal; empty if the refusal is not about a setting.

    `error` is {message, code, param} as the wire read it.
    """
    message, code = str(error.get("message") or ""), str(error.get("code") or error.get("type") or "")
    if status not in STATUSES:
        return ()
    if NO_SYSTEM.search(message):
        fallback = ParameterFallback(SYSTEM, "user")
        return () if fallback.apply(request) is request else (fallback,)
    if not (code in CODES or REFUSED.search(message)):
        return ()
    field = _field_named(request, message, str(error.get("param") or ""))
    if field == request.max_tokens_field and TOO_LARGE.search(message) and LIMITS[field] not in message:
        return ()
    found = [ParameterFallback(name, LIMITS.get(name, "")) for name in TOGETHER.get(field, (field,))]
    return tuple(fallback for fallback in found if fallback.apply(request).body_bytes != request.body_bytes)


def _field_named(request: Request, message: str, param: str) -> str:
    """Return the droppable field of the request that a refusal names, or ""."""
    sent = [request.max_tokens_field, *(name for name, _ in request.params if name in PERMANENT)]
    root = re.split(r"[.\[]", param)[0]
    if root in sent:
        return root
    if "top_p" in sent and BOTH.search(message):
        return "top_p"
    places = {name: found.start() for name in sent if (found := re.search(_mention(name), message))}
    return min(places, key=lambda name: places[name], default="")


def _mention(name: str) -> str:
    """Match a field's name in a text; a name that is an English word only in quotes or before a colon."""
    return rf"['\"`]{name}['\"`]|(?:^|[;,] ){name}: " if name in WORDS else rf"\b{name}\b"


class _Row(msgspec.Struct):
    endpoint: str
    model: str
    refused: tuple[ParameterFallback, ...]


class Fallbacks:
    """What endpoints have refused, by endpoint and model, including earlier runs.

    The file is a convenience: if it cannot be read or written, the next run has one more call refused.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = _load(path)
        self._unreported = dict(self._known)

    def applied(self, request: Request) -> Request:
        """Return the request as it is sent; the same object if nothing of it is refused."""
        if not self._known:
            return request
        sent = apply_all(self.known(request.endpoint, request.model), request)
        return sent if sent.model == request.model else apply_all(self.known(sent.endpoint, sent.model), sent)

    def known(self, endpoint: str, model: str) -> tuple[ParameterFallback, ...]:
        """Return the fallbacks of a model at an endpoint."""
        return self._known.get((endpoint, model), ())

    def recall(self, request: Request) -> str:
        """Return, once for each model, a line about what an earlier run learnt; "" otherwise."""
        found = self._unreported.pop((request.endpoint, request.model), ())
        if not found:
            return ""
        return f"{request.model}: {_listed(found)}, as an earlier run found; {permanent(found)}"

    def learn(self, request: Request, found: tuple[ParameterFallback, ...]) -> str:
        """Remember refused settings and return a line about them; "" if they were known."""
        place = (request.endpoint, request.model)
        known = self._known.get(place, ())
        new = tuple(fallback for fallback in found if fallback not in known)
        if not new:
            return ""
        self._known[place] = known + new
        if self._path is not None:
            rows = [_Row(*where, refused) for where, refused in {**_load(self._path), place: known + new}.items()]
            with contextlib.suppress(StorageError):
                data = msgspec.json.format(msgspec.json.encode(rows))
                write_atomic(self._path, data, hint="the next run asks once more")
        return f"{request.model} refused {found[0].field}: {_listed(new)} from now on; {permanent(new)}"


def _listed(found: tuple[ParameterFallback, ...]) -> str:
    return ", ".join(map(str, found))


def permanent(found: Iterable[ParameterFallback]) -> str:
    """Return the profile settings that make the fallbacks permanent."""
    settings = dict.fromkeys(PERMANENT.get(fallback.field, fallback.field) for fallback in found)
    return f"set {', '.join(settings)} in judges.toml to make it permanent"


def _load(path: Path | None) -> dict[tuple[str, str], tuple[ParameterFallback, ...]]:
    """Read the file; empty if it is missing or damaged."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        rows = msgspec.json.decode(path.read_bytes(), type=list[_Row]) if path is not None else []
        return {(row.endpoint, row.model): row.refused for row in rows}
    return {}
