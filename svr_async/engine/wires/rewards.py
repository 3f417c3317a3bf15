"""Reward models: the three wires of vLLM's pooling endpoints (`classify`, `pooling`, `score`).

Shapes: vLLM's `/classify`, `/pooling` and `/score`, as its `entrypoints/pooling` of 2026 has them.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.core.verdict import is_number
from svr_async.engine.reply import BadBodyError, Reply, Usage, json_of, token_count
from svr_async.engine.wires import Params, Settings, Wire, WireRequest
from svr_async.engine.wires.openai import error_in_body, headers

RAW = ("use_activation", False)  # the score as the model's head gives it, not squeezed into [0, 1]


def params(settings: Settings) -> Params:
    """Return the wish for a raw score, and the fields that a profile adds: nothing of a chat's settings is known."""
    return (RAW, *settings.extra)


def named(asked: WireRequest) -> dict[str, Any]:
    """Return the fields of every body: the settings, and the model where one is named."""
    return dict(asked.params) | ({"model": asked.model} if asked.model else {})


def conversation(asked: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST that shows prompt and response as one conversation."""
    return named(asked) | {"messages": [{"role": role, "content": text} for role, text in asked.messages]}


def wire_of(name: str, field: str, body: Callable[[WireRequest], dict[str, Any]] = conversation) -> Wire:
    """Return the wire whose rows hold the score as `field`."""

    def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
        """Read the score of the first row; BadBodyError where there is none."""
        value = json_of(data, status)
        rows = value.get("data") if isinstance(value, dict) else None
        row = rows[0] if isinstance(rows, list) and rows else None
        return _reply_of(_last(row.get(field) if isinstance(row, dict) else None), value)

    return Wire(
        name=name,
        path=f"/{name}",
        headers=headers,
        params=params,
        body=body,
        read=read,
        error=error_in_body,
        score=True,
    )


def _last(value: Any) -> float:
    """Return a number, or the last of a list: of the classes, as `verl` takes it, or of a value for each token."""
    while isinstance(value, list) and value:
        value = value[-1]
    if not is_number(value):
        raise BadBodyError(f"the reply has no score: {str(value)[:40]}")
    return float(value)


def _reply_of(score: float, value: dict[str, Any]) -> Reply:
    told = value.get("usage")
    usage = Usage(
        prompt_tokens=token_count(told.get("prompt_tokens")) if isinstance(told, dict) else None, completion_tokens=0
    )
    return Reply(
        text=orjson.dumps({"score": score}).decode(),
        usage=usage,
        model=str(value.get("model") or ""),
        fingerprint=str(value.get("system_fingerprint") or ""),  # `svr sim` signs its scores so
        id=str(value.get("id") or ""),
    )


def _text_pair(asked: WireRequest) -> dict[str, Any]:
    """Return the JSON body of `/score`: the last turn is the response, all earlier turns are the prompt."""
    *turns, (_, response) = asked.messages
    lone = len(turns) == 1 and turns[0][0] == "user"
    prompt = turns[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in turns)
    return named(asked) | {"text_1": prompt, "text_2": response}


WIRES = {
    "classify": wire_of("classify", "probs"),
    "pooling": wire_of("pooling", "data"),
    "score": wire_of("score", "score", _text_pair),
}
