"""The simulated endpoint over real HTTP: `async with SimServer(config) as sim: … sim.base_url …`."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self

import orjson
from aiohttp import web

from svr_async.errors import ConfigError, system_words
from svr_async.simulation.simulator import SimConfig, Simulator
from svr_async.simulation.wire import ApiError, ChatRequest, Json, Shape
from svr_async.simulation.world import draw_bytes

HOST = "127.0.0.1"
MAX_BODY = 64 * 2**20
RETRY_AFTER_S = 0.05
BURST_S = 0.1  # how much of the rate limit may be used at once
LATENCY_SIGMA = 0.5
REFERENCE_TOKENS = 256
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SimServer:
    """A simulated endpoint that listens while it is entered. One event loop, no threads."""

    def __init__(self, config: SimConfig | None = None, simulator: Simulator | None = None) -> None:
        self.config = config or SimConfig()
        self.simulator = simulator or Simulator(self.config)
        self.port = self.config.port
        self._runner: web.AppRunner | None = None
        self._attempts: Counter[str] = Counter()
        self._next_free = 0.0  # when the rate limit admits a call again, if calls came evenly

    @property
    def base_url(self) -> str:
        """The address to give to a client, with `/v1` at its end."""
        return f"http://{HOST}:{self.port}/v1"

    def answer(self, request: ChatRequest) -> tuple[str, Json]:
        """Admit a call and do the work; return its fault, if any, and the reply. `ApiError` if it is refused."""
        if self.config.rpm:
            now = time.monotonic()
            self._next_free = max(self._next_free, now - BURST_S)
            if self._next_free > now:
                raise _rate_limited(self._next_free - now)
            self._next_free += 60 / self.config.rpm
        attempt = self._attempts[request.key]
        self._attempts[request.key] += 1
        fault = self.config.fault(request.key, attempt)
        if fault == "429":
            raise _rate_limited(RETRY_AFTER_S)
        if fault == "500":
            raise ApiError(500, "The server had an error.")
        return fault, self.simulator.reply(request, attempt, empty=fault == "empty")

    async def respond(self, http: web.Request, *, shape: Shape) -> web.StreamResponse:
        """Answer a call over HTTP, as late as its reply is written."""
        try:
            body = orjson.loads(await http.read())
        except orjson.JSONDecodeError as error:
            raise ApiError(400, f"the body is not JSON: {error}") from error
        request = self.simulator.read(body, shape)
        fault, reply = self.answer(request)
        await asyncio.sleep(self._latency_s(reply))
        data = orjson.dumps(reply)
        if fault == "cut":
            return await _cut_off(http, data)
        return web.Response(body=data, content_type="application/json")

    def _latency_s(self, reply: Json) -> float:
        """Return the seconds that writing a reply takes: log-normal, half fixed and half by output length."""
        rng = random.Random(draw_bytes(self.config.seed, "latency", reply["id"]))  # noqa: S311  (a planted world)
        scale = 0.5 + 0.5 * int(reply["usage"]["completion_tokens"]) / REFERENCE_TOKENS
        return self.config.latency_ms / 1000 * scale * rng.lognormvariate(0, LATENCY_SIGMA)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; reward models are asked without `/v1`."""
        places = [(f"{root}/{shape}", shape) for shape in Shape for root in ("", "/v1")]
        posts = [web.post(path, partial(self.respond, shape=shape)) for path, shape in places]
        return [*posts, web.get("/v1/models", self._models)]

    async def start(self) -> Self:
        """Listen, on the same port as before if started again; `ConfigError` if the port is taken."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self.guard])
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self.port, reuse_address=True, backlog=4096).start()
        except OSError as error:
            await self.stop()
            what = f"cannot listen on {HOST}:{self.port}: {system_words(error)}"
            raise ConfigError(what, hint="choose another --port") from error
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn the `ApiError` of a handler into its reply."""
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.payload, status=error.status, headers=error.headers)

    async def _models(self, _http: web.Request) -> web.Response:
        rows = [{"id": name, "object": "model", "owned_by": "svr-sim"} for name in self.simulator.judges]
        return web.json_response({"object": "list", "data": rows})


def _rate_limited(seconds: float) -> ApiError:
    message = "Rate limit reached on requests per minute."
    return ApiError(429, message, "rate_limit_exceeded", retry_after=f"{seconds + 0.001:.3f}")


async def _cut_off(http: web.Request, body: bytes) -> web.Response:
    """Send half of a reply and close the connection."""
    if http.transport is not None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        http.transport.write(head.encode() + body[: len(body) // 2])
        await asyncio.sleep(0.002)  # the bytes leave first
        http.transport.close()
    return web.Response()
