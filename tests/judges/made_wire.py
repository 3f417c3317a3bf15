"""A wire that is unlike OpenAI's in every part, and an endpoint on it: what a wire has to be able to say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import orjson
import pytest
from aiohttp import web

from svr_async.engine import wires
from svr_async.engine.reply import BadBodyError, Reply, Usage, clean_text, json_of, token_count
from svr_async.engine.wires import Params, Settings, Wire, WireRequest

NAME = "letters"
KEY = "letter-key-1234"


def body(asked: WireRequest) -> dict[str, Any]:
    """Return a letter: what the system says on top, the conversation below."""
    spoken = [{"by": role, "words": words} for role, words in asked.messages if role != "system"]
    top = "\n".join(words for role, words in asked.messages if role == "system")
    return {"to": asked.model, "top": top, "spoken": spoken, "room": asked.max_tokens, **dict(asked.params)}


def params(settings: Settings) -> Params:
    """Return how warm the answer may be."""
    return (("warmth", settings.temperature),)


def read(data: bytes, status: int) -> Reply:
    """Read a letter back."""
    value = json_of(data, status)
    if "letter" not in value:
        raise BadBodyError("no letter came back")
    usage = Usage(prompt_tokens=token_count(value["read"]), completion_tokens=token_count(value["written"]))
    return Reply(text=clean_text(value["letter"]), model=value["by"], usage=usage)


def error(data: bytes) -> dict[str, Any]:
    """Return the complaint in a body, in the words that are known here."""
    try:
        complaint = orjson.loads(data)["complaint"]
    except (ValueError, KeyError, TypeError):
        return {}
    codes = {"who are you": "invalid_api_key", "nobody of that name": "model_not_found"}
    return {"message": complaint, "code": codes.get(complaint, "")}


def headers(key: str) -> dict[str, str]:
    """Return the edition of the post, and the seal."""
    return {"X-Edition": "3"} | ({"X-Seal": key} if key else {})


def limits(told: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the number of letters a minute under the name that is known here."""
    return {name.lower(): value for name, value in told.items()} | {
        "x-ratelimit-limit-requests": told.get("x-letters", ""),
    }


LETTERS = Wire(
    name=NAME, path="/letters", headers=headers, params=params, body=body, read=read, error=error, limits=limits
)


def register(patch: pytest.MonkeyPatch) -> None:
    """Add the wire as a developer does: a module, and its line in `MODULES`."""
    module = ModuleType(f"{wires.__name__}.{NAME}")
    module.WIRE = LETTERS  # type: ignore[attr-defined]
    patch.setitem(sys.modules, module.__name__, module)
    patch.setattr(wires, "MODULES", {**wires.MODULES, NAME: NAME})
    wires.find_wire.cache_clear()


def post_office(seen: list[web.Request], *, busy: int = 0, says: str = "I choose [[A]]") -> Callable[..., Any]:
    """Return an endpoint that takes letters, keeps each request, and is busy for the first few."""

    async def answer(request: web.Request) -> web.Response:
        letter = await request.json()
        seen.append(request)
        if request.headers.get("X-Seal") != KEY:
            return web.json_response({"complaint": "who are you"}, status=400)
        if letter["to"] != "writer":
            return web.json_response({"complaint": "nobody of that name"}, status=400)
        if len(seen) <= busy:
            return web.json_response({"complaint": "later"}, status=429, headers={"Retry-After": "0.01"})
        told = {"X-Letters": "90"}
        return web.json_response({"letter": says, "by": letter["to"], "read": 40, "written": 5}, headers=told)

    return answer
