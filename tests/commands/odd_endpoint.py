"""A small endpoint that honours what it is told to, and refuses or leaves out the rest; for tests of the doctor."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from rig import serving_routes, verdict

MODELS = [{"id": "odd", "max_model_len": 4096}]


@dataclass
class Odd:
    """How the endpoint behaves, and the bodies that it was sent; calls number `busy`, from 1, get a 503."""

    honours: frozenset[str] = frozenset({"system", "schema", "object", "effort", "seed", "prefix", "usage"})
    refuses: frozenset[str] = frozenset()
    models: Any = field(default_factory=lambda: MODELS)
    headers: dict[str, str] = field(default_factory=dict)
    limited: int = 0
    busy: frozenset[int] = frozenset()
    tls: ssl.SSLContext | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    def text(self, body: dict[str, Any]) -> str:
        """Return the answer to a question."""
        content = body["messages"][-1]["content"]
        form = body.get("response_format", {}).get("type", "")
        if (form == "json_schema" and "schema" in self.honours) or (form == "json_object" and "object" in self.honours):
            return '{"verdict": "B"}'
        return f"Candidate A is right.\n{verdict(content, 'A')}" if "[[A" in content else "ready"

    def usage(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return token counts; cached ones from the second long prompt on."""
        read = body["messages"] if "system" in self.honours else body["messages"][-1:]
        tokens = sum(len(one["content"]) for one in read) // 4
        again = sum(len(one["messages"][-1]["content"]) > 2000 for one in self.bodies) > 1
        cached = tokens - 10 if again and "prefix" in self.honours else 0
        return {"prompt_tokens": tokens, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}

    async def chat(self, http: web.Request) -> web.Response:
        """Answer one call."""
        body = orjson.loads(await http.read())
        self.bodies.append(body)
        if self.limited:
            self.limited -= 1
            return _refusal(429, "slow down", {"retry-after": "0.01"})
        if len(self.bodies) in self.busy:
            return _refusal(503, "busy", {})
        if "system" in self.refuses and body["messages"][0]["role"] == "system":
            return _refusal(400, "System role not supported", {})
        for name in self.refuses:
            if name in body:
                return _refusal(400, f"unknown field {name}", {})
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text(body)}, "finish_reason": "stop"}
        reply: dict[str, Any] = {"id": "1", "model": body["model"], "choices": [choice]}
        if "usage" in self.honours:
            reply["usage"] = self.usage(body)
        return web.Response(body=orjson.dumps(reply), headers={"content-type": "application/json", **self.headers})

    async def list_models(self, _: web.Request) -> web.Response:
        """Answer the request for the models."""
        if self.models is None:
            return web.Response(status=404, text="not here")
        return web.Response(body=orjson.dumps({"data": self.models}), content_type="application/json")


def _refusal(status: int, message: str, headers: dict[str, str]) -> web.Response:
    body = orjson.dumps({"error": {"message": message}})
    return web.Response(status=status, body=body, headers={"content-type": "application/json", **headers})


@contextmanager
def odd_endpoint(**behaviour: Any) -> Iterator[Odd]:
    """Serve such an endpoint from a thread; `base_url` is set."""
    odd = Odd(**behaviour)
    routes = web.post("/v1/chat/completions", odd.chat), web.get("/v1/models", odd.list_models)
    with serving_routes(*routes, tls=odd.tls) as address:
        odd.base_url = f"{address}/v1"
        yield odd
