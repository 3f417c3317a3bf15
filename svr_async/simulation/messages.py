"""Anthropic's messages in the simulated endpoint: its shape of requests, replies, limits and errors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from svr_async.simulation.refusals import ApiError, seconds_of
from svr_async.simulation.request import ChatRequest, Shape, effort_in, parse_request, request_key
from svr_async.simulation.world import draw_bytes

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
DECODING = ("temperature", "top_p")


def parse_messages(body: Any) -> ChatRequest:
    """Read the JSON of a messages request; `ApiError` (400) says what is wrong with it."""
    if not isinstance(body, dict) or not isinstance(body.get("max_tokens"), int):
        raise ApiError.bad_request("max_tokens: Field required")
    turns = body.get("messages")
    if any(isinstance(turn, dict) and turn.get("role") not in ("user", "assistant") for turn in turns or ()):
        raise ApiError.bad_request("messages: Unexpected role; the system prompt is a top-level parameter")
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    shared = {name: body[name] for name in ("model", "max_tokens") if name in body}
    messages = [*system, *turns] if isinstance(turns, list) else turns
    plain = parse_request({**shared, "messages": messages})
    return replace(plain, key=request_key(body), shape=Shape.MESSAGES, effort=effort_in(body))


def refuse_settings(body: Mapping[str, Any]) -> None:
    """Raise the 400 of a model that always thinks for the first setting that it does not take."""
    for name in DECODING:
        if body.get(name) not in (None, 1):
            raise ApiError.bad_request(f"`{name}` is deprecated for this model.")


def as_message(completion: Mapping[str, Any], key: str, attempt: int) -> dict[str, Any]:
    """Return a chat completion as a message: cached input is told apart from the rest."""
    choice, usage = completion["choices"][0], completion["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    text = choice["message"]["content"]
    return {
        "id": f"msg_{draw_bytes(key, attempt).hex()[:24]}",
        "type": "message",
        "role": "assistant",
        "model": completion["model"],
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": REASONS[choice["finish_reason"]],
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"] - cached,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage["completion_tokens"],
        },
        "system_fingerprint": completion["system_fingerprint"],  # theirs has none: it says that this is no model
    }


def as_error(error: ApiError) -> ApiError:
    """Return an error in the words of Anthropic's."""
    status, message = error.status, error.message
    if error.kind == "insufficient_quota":
        status, message = 400, "Your credit balance is too low to access the Anthropic API."
    if error.code == "context_length_exceeded":
        message = f"prompt is too long: {message}"
    if error.code == "model_not_found":
        message = f"model: {message}"
    headers = {name: value for name, value in error.headers.items() if name.lower() != "retry-after-ms"}
    return ApiError(status, message, kind=TYPES.get(status, "api_error"), code=error.code, headers=as_limits(headers))


def error_payload(error: ApiError) -> dict[str, Any]:
    """Return the JSON of an error."""
    return {"type": "error", "error": {"type": error.kind, "message": error.message}, "request_id": "req_simulated"}


def as_limits(headers: Mapping[str, str]) -> dict[str, str]:
    """Return rate-limit headers under Anthropic's names, with moments in the place of spans."""
    found = {}
    for name, value in headers.items():
        _, mark, rest = name.partition("x-ratelimit-")
        what, _, unit = rest.partition("-")
        moment = datetime.fromtimestamp(time.time() + seconds_of(value), UTC) if what == "reset" else None
        told = value if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found[f"anthropic-ratelimit-{unit}-{what}" if mark else name] = told
    return found
