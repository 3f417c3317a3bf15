"""OpenAI's chat completions, which vLLM, many providers and `svr sim` also serve."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.reply import (
    BadBodyError,
    Reply,
    Usage,
    clean_text,
    dollars,
    identity,
    json_of,
    json_value,
    token_count,
)
from svr_async.engine.wires import Params, Settings, Wire, WireRequest


def headers(key: str) -> dict[str, str]:
    """Return the header with the key, if there is one."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def params(settings: Settings) -> Params:
    """Return the optional body fields."""
    effort: dict[str, Params] = {
        "field": (("reasoning_effort", settings.effort),),
        "object": (("reasoning", {"effort": settings.effort}),),
    }
    wanted: tuple[tuple[str, Any], ...] = (
        ("temperature", settings.temperature),
        ("top_p", settings.top_p),
        ("n", settings.n),
        ("seed", settings.seed),
        ("stop", list(settings.stop) or None),
        *(effort.get(settings.effort_style, ()) if settings.effort else ()),
        ("response_format", _response_format(settings)),
    )
    return tuple((name, value) for name, value in wanted if value is not None) + settings.extra


def _response_format(settings: Settings) -> dict[str, Any] | None:
    """Return the format of the reply; llama-cpp-python and others use `json_object_schema`."""
    if settings.structured == "none":
        return None
    if settings.structured == "json_object" or settings.form is None:
        return {"type": settings.structured}
    schema = orjson.Fragment(settings.form.schema)
    if settings.structured == "json_object_schema":
        return {"type": "json_object", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": settings.form.name, "strict": True, "schema": schema}}


def body(request: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST."""
    messages = [{"role": role, "content": content} for role, content in request.messages]
    fields = {"model": request.model, "messages": messages, request.max_tokens_field: request.max_tokens}
    fields.update(request.params)
    return fields


def read_completion(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read a chat completion; BadBodyError if the body is not one."""
    value = json_of(data, status)
    try:
        choice = value["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadBodyError("the reply has no choice with a message") from None
    reason = "refusal" if refusal and isinstance(refusal, str) else str(choice.get("finish_reason") or "stop")
    return Reply(
        text=_text(content),
        reasoning=_reasoning(message),
        finish_reason=reason,
        usage=_read_usage(value.get("usage")),
        **identity(value),
    )


def error_in_body(data: bytes) -> dict[str, Any]:
    """Return the `error` object of a body, whatever its status; empty without one."""
    try:
        value = json_value(data)
    except ValueError:
        return {}
    if isinstance(value, list) and value:  # Google's endpoint sends a list
        value = value[0]
    if not isinstance(value, dict):
        return {}
    error = value.get("error")
    if isinstance(error, str):
        return {"message": error}
    if isinstance(error, dict):
        return error
    if value.get("object") == "error":
        return value
    return {} if "choices" in value else _detail(value.get("detail"))


def _detail(value: Any) -> dict[str, Any]:
    """Read the errors of servers built on FastAPI: a text, or a list of faults with their place in the body."""
    if isinstance(value, str):
        return {"message": value}
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    places = [".".join(str(part) for part in row.get("loc") or () if part != "body") for row in rows]
    faults = [f"{place}: {row.get('msg')}" for place, row in zip(places, rows, strict=True)]
    return {"message": "; ".join(faults), "code": str(rows[0].get("type") or ""), "param": places[0]} if rows else {}


def _text(content: Any) -> str:
    """Return the text of a content: a string, or a list of parts of which only texts count."""
    if isinstance(content, str):
        return clean_text(content)
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return clean_text("".join(text for text in texts if isinstance(text, str)))


def _reasoning(message: dict[str, Any]) -> str:
    """Return the reasoning that came separately: as a field, or as parts of the content."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str):
            return clean_text(message[name])
    content = message.get("content")
    parts = [part.get("thinking") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(_text(part) for part in parts)


def _read_usage(value: Any) -> Usage:
    if not isinstance(value, dict):
        return Usage()
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else value.get("cached_tokens")
    return Usage(
        prompt_tokens=token_count(value.get("prompt_tokens")),
        cached_tokens=token_count(cached),
        completion_tokens=token_count(value.get("completion_tokens")),
        cost_usd=dollars(value["cost"]) if "cost" in value else None,
    )


WIRE = Wire(
    name="openai", path="/chat/completions", headers=headers, params=params, body=body, read=read_completion,
    error=error_in_body, batch_url="/v1/chat/completions",
)  # fmt: skip
