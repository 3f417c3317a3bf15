"""OpenAI's chat completions, as its clones, vLLM and `svr sim` serve them too."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.reply import BadBodyError, Reply, Usage, clean_text, dollars, json_of, json_value, token_count
from svr_async.engine.wires import Params, Settings, Wire, WireRequest


def headers(key: str) -> dict[str, str]:
    """Return the header that carries a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def params(settings: Settings) -> Params:
    """Return the body fields beside model, messages and the token limit."""
    wanted: tuple[tuple[str, Any], ...] = (
        ("temperature", settings.temperature),
        ("top_p", settings.top_p),
        ("n", settings.n),
        ("seed", settings.seed),
        ("stop", list(settings.stop) or None),
        *_effort(settings),
        ("response_format", _response_format(settings)),
    )
    return tuple((name, value) for name, value in wanted if value is not None) + settings.extra


def _effort(settings: Settings) -> Params:
    styles: dict[str, Params] = {
        "field": (("reasoning_effort", settings.effort),),
        "object": (("reasoning", {"effort": settings.effort}),),
    }
    return styles.get(settings.effort_style, ()) if settings.effort else ()


def _response_format(settings: Settings) -> dict[str, Any] | None:
    """Return the form of the reply; without a schema the mode stands for whichever one a question has.

    `json_object_schema` is how llama-cpp-python and others spell it who know `json_object` alone.
    """
    if settings.structured == "none":
        return None
    if settings.structured == "json_object" or settings.form is None:
        return {"type": settings.structured}
    schema = orjson.Fragment(settings.form.schema)
    if settings.structured == "json_object_schema":
        return {"type": "json_object", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": settings.form.name, "strict": True, "schema": schema}}


def body(asked: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST."""
    messages = [{"role": role, "content": content} for role, content in asked.messages]
    found = {"model": asked.model, "messages": messages, asked.max_tokens_field: asked.max_tokens}
    found.update(asked.params)
    return found


def read_completion(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read the body of a chat completion; BadBodyError where it is none."""
    value = json_of(data, status)
    try:
        choice = value["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadBodyError(_lack(value)) from None
    reason = "refusal" if refusal and isinstance(refusal, str) else str(choice.get("finish_reason") or "stop")
    return Reply(
        text=_text(content),
        reasoning=_reasoning(message),
        finish_reason=reason,
        usage=_read_usage(value.get("usage")),
        model=str(value.get("model") or ""),
        fingerprint=str(value.get("system_fingerprint") or ""),
        id=str(value.get("id") or ""),
    )


def error_in_body(data: bytes) -> dict[str, Any]:
    """Return the `error` object of a body, whatever its status; empty where there is none."""
    try:
        value = json_value(data)
    except ValueError:
        return {}
    if isinstance(value, list) and value:  # Google's endpoint wraps its errors so
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
    """Read what servers on FastAPI say: a text, or a list of what is wrong where in the body."""
    if isinstance(value, str):
        return {"message": value}
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    places = [".".join(str(part) for part in row.get("loc") or () if part != "body") for row in rows]
    told = [f"{place}: {row.get('msg')}" for place, row in zip(places, rows, strict=True)]
    return {"message": "; ".join(told), "code": str(rows[0].get("type") or ""), "param": places[0]} if rows else {}


def _lack(value: Any) -> str:
    """Say what a body lacks that is not a completion."""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "the reply has no choices"
    return "the first choice has no message"


def _text(content: Any) -> str:
    """Return the text of a content: one text, or the parts of a list that are texts; thoughts are none."""
    parts = [_part(one) for one in content] if isinstance(content, list) else [content]
    return clean_text("".join(part for part in parts if isinstance(part, str)))


def _part(part: Any) -> Any:
    return part.get("text") if isinstance(part, dict) else part


def _reasoning(message: dict[str, Any]) -> str:
    """Return what a model thought, where an endpoint tells it apart: as a field, or as parts of the content."""
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
    name="openai",
    path="/chat/completions",
    headers=headers,
    params=params,
    body=body,
    read=read_completion,
    error=error_in_body,
    batch_url="/v1/chat/completions",
    tries_settings=True,
)
