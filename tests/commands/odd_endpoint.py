"""A small endpoint that honours what it is told to, and refuses or leaves out the rest; for tests of the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from rig import serving_routes, verdict

MODELS = [{"id": "odd", "max_model_len": 4096}]


@dataclass
class Odd:
    """How the endpoint behaves, and the bodies that it was sent."""

    honours: frozenset[str] = frozenset({"schema", "object", "usage"})
    refuses: frozenset[str] = frozenset()
    models: Any = field(default_factory=lambda: MODELS)
    headers: dict[str, str] = field(default_factory=dict)
    on_call: Callable[[], object] = object
    bodies: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    def text(self, body: dict[str, Any]) -> str:
        """Return the answer to a question."""
        content = body["messages"][-1]["content"]
        form = body.get("response_format", {}).get("type", "")
        if (form == "json_schema" and "schema" in self.honours) or (form == "json_object" and "object" in self.honours):
            return '{"verdict": "B"}'
        return f"Candidate A is right.\n{verdict(content, 'A')}" if "[[A" in content else "ready"

    async def chat(self, http: web.Request) -> web.Response:
        """Answer one call."""
        body = orjson.loads(await http.read())
        self.bodies.append(body)
        self.on_call()
        for name in self.refuses:
            if name in body:
                error = orjson.dumps({"error": {"message": f"unknown field {name}"}})
                return web.Response(status=400, body=error, content_type="application/json")
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text(body)}, "finish_reason": "stop"}
        reply: dict[str, Any] = {"id": "1", "model": body["model"], "choices": [choice]}
        if "usage" in self.honours:
            reply["usage"] = {"prompt_tokens": 40, "completion_tokens": 3}
        return web.Response(body=orjson.dumps(reply), headers={"content-type": "application/json", **self.headers})

    async def list_models(self, _: web.Request) -> web.Response:
        """Answer the request for the models."""
        if self.models is None:
            return web.Response(status=404, text="not here")
        return web.Response(body=orjson.dumps({"data": self.models}), content_type="application/json")


@contextmanager
def odd_endpoint(**behaviour: Any) -> Iterator[Odd]:
    """Serve such an endpoint from a thread; `base_url` is set."""
    odd = Odd(**behaviour)
    routes = web.post("/v1/chat/completions", odd.chat), web.get("/v1/models", odd.list_models)
    with serving_routes(*routes) as address:
        odd.base_url = f"{address}/v1"
        yield odd
