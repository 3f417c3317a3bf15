"""Reward models: the three wires of vLLM's pooling endpoints (`classify`, `pooling`, `score`).

Shapes: vLLM's `entrypoints/pooling` of 2026.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.core.verdict import is_number
from svr_async.engine.reply import BadBodyError, Reply, Usage, identity, json_of, token_count
from svr_async.engine.wires import Params, Settings, Wire, WireRequest
from svr_async.engine.wires.openai import error_in_body, headers

RAW = ("use_activation", False)  # the raw score of the model's head, not squeezed into [0, 1]


def params(settings: Settings) -> Params:
    """Ask for a raw score; the endpoints have no optional settings of a chat."""
    return (RAW, *settings.extra)


def conversation(request: WireRequest) -> dict[str, Any]:
    """Return the body that shows prompt and response as one conversation."""
    return _common(request) | {"messages": [{"role": role, "content": text} for role, text in request.messages]}


def text_pair(request: WireRequest) -> dict[str, Any]:
    """Return the body of `/score`: the last turn is the response, all earlier turns are the prompt."""
    *turns, (_, response) = request.messages
    lone = len(turns) == 1 and turns[0][0] == "user"
    prompt = turns[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in turns)
    return _common(request) | {"text_1": prompt, "text_2": response}


def _common(request: WireRequest) -> dict[str, Any]:
    return dict(request.params) | ({"model": request.model} if request.model else {})


def wire_of(name: str, field: str, body: Callable[[WireRequest], dict[str, Any]] = conversation) -> Wire:
    """Return the wire whose rows hold the score as `field`."""

    def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
        """Read the score of the first row; BadBodyError without one."""
        value = json_of(data, status)
        try:
            score, usage = value["data"][0].get(field), value.get("usage")
        except (KeyError, IndexError, TypeError, AttributeError):
            raise BadBodyError("the reply has no rows") from None
        while isinstance(score, list) and score:  # of classes, of which verl takes the last, or of tokens
            score = score[-1]
        if not is_number(score):
            raise BadBodyError(f"the reply has no score: {str(score)[:40]}")
        prompt = token_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
        return Reply(
            text=orjson.dumps({"score": float(score)}).decode(),
            usage=Usage(prompt_tokens=prompt, completion_tokens=0),
            **identity(value),
        )

    return Wire(
        name=name, path=f"/{name}", headers=headers, params=params, body=body, read=read,
        error=error_in_body, score=True,
    )  # fmt: skip


WIRES = {
    "classify": wire_of("classify", "probs"),
    "pooling": wire_of("pooling", "data"),
    "score": wire_of("score", "score", text_pair),
}
