"""Anthropic's messages, as its own endpoint and those that speak alike serve them.

Shapes, headers and errors: https://platform.claude.com/docs/en/api/messages, /errors and /rate-limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.reply import BadBodyError, Reply, Usage, clean_text, json_of, json_value, token_count
from svr_async.engine.wires import Params, Settings, Wire, WireRequest

VERSION = "2023-06-01"
SYSTEM = ("system", "developer")
REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
CODES = {
    "permission_error": "permission_denied",
    "billing_error": "insufficient_quota",
    "rate_limit_error": "rate_limit_exceeded",
    "request_too_large": "context_length_exceeded",
}
"""Its names of errors in the words of `classify.py`, which knows authentication_error as it is."""
NO_CREDIT = "credit balance is too low"  # an invalid_request_error by its type
UNITS = ("requests", "tokens")


def headers(key: str) -> dict[str, str]:
    """Return the version of the API, which each request names, and the header that carries a key."""
    return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})


def params(settings: Settings) -> Params:
    """Return the body fields beside model, messages and the token limit; it knows neither n nor a seed.

    A top_p of 1 is left out: it asks for nothing, and many models refuse one beside a temperature.
    """
    config = _output_config(settings)
    wanted: tuple[tuple[str, Any], ...] = (
        ("temperature", settings.temperature),
        ("top_p", None if settings.top_p == 1 else settings.top_p),
        ("stop_sequences", list(settings.stop) or None),
        ("output_config", config or None),
    )
    return tuple((name, value) for name, value in wanted if value is not None) + settings.extra


def _output_config(settings: Settings) -> dict[str, Any]:
    """Return how much to reason, and the form of the reply; json_object alone is not known here."""
    found: dict[str, Any] = {}
    if settings.effort and settings.effort_style != "none":
        found["effort"] = settings.effort
    if settings.structured == "json_schema":
        schema = {} if settings.form is None else {"schema": orjson.Fragment(settings.form.schema)}
        found["format"] = {"type": "json_schema", **schema}
    return found


def body(asked: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST: what the system says stands on top, the token limit has to be there."""
    system = "\n\n".join(content for role, content in asked.messages if role in SYSTEM)
    messages = [{"role": role, "content": content} for role, content in asked.messages if role not in SYSTEM]
    found = {"model": asked.model, "messages": messages, "max_tokens": asked.max_tokens}
    return found | ({"system": system} if system else {}) | dict(asked.params)


def read_message(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read the body of a message; BadBodyError where it is none. Thinking is kept apart from the text."""
    value = json_of(data, status)
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, list):
        raise BadBodyError("the reply has no content")
    reason = str(value.get("stop_reason") or "end_turn")
    return Reply(
        text=_joined(content, "text"),
        reasoning=_joined(content, "thinking"),
        finish_reason=REASONS.get(reason, reason),
        usage=_read_usage(value.get("usage")),
        model=str(value.get("model") or ""),
        fingerprint=str(value.get("system_fingerprint") or ""),  # `svr sim` signs its messages so
        id=str(value.get("id") or ""),
    )


def _joined(content: list[Any], kind: str) -> str:
    parts = [part.get(kind) for part in content if isinstance(part, dict) and part.get("type") == kind]
    return clean_text("".join(part for part in parts if isinstance(part, str)))


def _read_usage(value: Any) -> Usage:
    """Return the tokens; what was read from the cache, or written to it, is no part of input_tokens."""
    if not isinstance(value, dict):
        return Usage()
    fresh, cached = token_count(value.get("input_tokens")), token_count(value.get("cache_read_input_tokens"))
    written = token_count(value.get("cache_creation_input_tokens"))
    return Usage(
        prompt_tokens=None if fresh is None else fresh + (cached or 0) + (written or 0),
        cached_tokens=cached,
        completion_tokens=token_count(value.get("output_tokens")),
    )


def error_in_body(data: bytes) -> dict[str, Any]:
    """Return the error of a body, its type in the words of `classify.py`; empty where there is none."""
    try:
        value = json_value(data)
    except ValueError:
        return {}
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return {}
    kind, message = str(error.get("type") or ""), str(error.get("message") or "")
    code = "insufficient_quota" if NO_CREDIT in message else CODES.get(kind, kind)
    return {"message": message, "type": kind, "code": code}


def limits(told: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with its rates under the names that OpenAI's have; moments become seconds from now."""
    found = {name.lower(): value for name, value in told.items()}
    for unit in UNITS:
        own = f"anthropic-ratelimit-{unit}"
        for what in ("limit", "remaining"):
            if f"{own}-{what}" in found:
                found[f"x-ratelimit-{what}-{unit}"] = found[f"{own}-{what}"]
        seconds = _seconds_to(found.get(f"{own}-reset", ""), found.get("date", ""))
        if seconds is not None:
            found[f"x-ratelimit-reset-{unit}"] = f"{seconds:.3f}s"
    return found


def _seconds_to(moment: str, now: str) -> float | None:
    """Return the seconds from a reply's date to a moment in it; None where either cannot be read."""
    try:
        gap = datetime.fromisoformat(moment).astimezone(UTC) - parsedate_to_datetime(now).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, gap.total_seconds())


WIRE = Wire(
    name="anthropic",
    path="/messages",
    headers=headers,
    params=params,
    body=body,
    read=read_message,
    error=error_in_body,
    limits=limits,
)
