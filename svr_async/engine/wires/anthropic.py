"""Anthropic's Messages API, and endpoints compatible with it.

Shapes, headers and errors: https://platform.claude.com/docs/en/api/messages, /errors and /rate-limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.reply import BadBodyError, Reply, Usage, clean_text, identity, json_of, token_count
from svr_async.engine.wires import Params, Settings, Wire, WireRequest, openai

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
"""Error types, with the names that `classify.py` knows."""
NO_CREDIT = "credit balance is too low"  # its type is invalid_request_error


def headers(key: str) -> dict[str, str]:
    """Return the API version, and the key if there is one."""
    return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})


def params(settings: Settings) -> Params:
    """Return the optional body fields; the API has neither n nor a seed, and no json_object mode.

    A top_p of 1 is omitted: it has no effect, and many models refuse it next to a temperature.
    """
    config: dict[str, Any] = {}
    if settings.effort and settings.effort_style != "none":
        config["effort"] = settings.effort
    if settings.structured == "json_schema":
        schema = {} if settings.form is None else {"schema": orjson.Fragment(settings.form.schema)}
        config["format"] = {"type": "json_schema", **schema}
    wanted: tuple[tuple[str, Any], ...] = (
        ("temperature", settings.temperature),
        ("top_p", None if settings.top_p == 1 else settings.top_p),
        ("stop_sequences", list(settings.stop) or None),
        ("output_config", config or None),
    )
    return tuple((name, value) for name, value in wanted if value is not None) + settings.extra


def body(request: WireRequest) -> dict[str, Any]:
    """Return the JSON body: system messages are a separate field, and the token limit is required."""
    system = "\n\n".join(content for role, content in request.messages if role in SYSTEM)
    messages = [{"role": role, "content": content} for role, content in request.messages if role not in SYSTEM]
    fields = {"model": request.model, "messages": messages, "max_tokens": request.max_tokens}
    return fields | ({"system": system} if system else {}) | dict(request.params)


def read_message(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read a message; thinking is kept apart from the text. BadBodyError if the body is not a message."""
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
        **identity(value),  # `svr sim` adds a system_fingerprint
    )


def _joined(content: list[Any], kind: str) -> str:
    parts = [part.get(kind) for part in content if isinstance(part, dict) and part.get("type") == kind]
    return clean_text("".join(part for part in parts if isinstance(part, str)))


def _read_usage(value: Any) -> Usage:
    """Return the tokens; input_tokens excludes those read from the prefix cache or written to it."""
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
    """Return the error of a body with a code that `classify.py` knows; empty without an error."""
    error = openai.error_in_body(data)
    kind, message = str(error.get("type") or ""), str(error.get("message") or "")
    code = "insufficient_quota" if NO_CREDIT in message else CODES.get(kind, kind)
    return {"message": message, "type": kind, "code": code} if error else {}


def limits(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the rate limits under OpenAI's names; reset times become seconds from now."""
    found = {name.lower(): value for name, value in headers.items()}
    for unit in ("requests", "tokens"):
        own = f"anthropic-ratelimit-{unit}"
        for part in ("limit", "remaining"):
            if f"{own}-{part}" in found:
                found[f"x-ratelimit-{part}-{unit}"] = found[f"{own}-{part}"]
        seconds = _seconds_to(found.get(f"{own}-reset", ""), found.get("date", ""))
        if seconds is not None:
            found[f"x-ratelimit-reset-{unit}"] = f"{seconds:.3f}s"
    return found


def _seconds_to(moment: str, now: str) -> float | None:
    """Return the seconds from the date of a reply to an ISO time in it; None if either is invalid."""
    try:
        gap = datetime.fromisoformat(moment).astimezone(UTC) - parsedate_to_datetime(now).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, gap.total_seconds())


WIRE = Wire(
    name="anthropic", path="/messages", headers=headers, params=params, body=body, read=read_message,
    error=error_in_body, limits=limits,
)  # fmt: skip
