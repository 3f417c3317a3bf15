"""The simulated endpoint over real HTTP: `async with SimServer(config) as sim: … sim.base_url …`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

from svr_async.errors import ConfigError, system_words
from svr_async.simulation.batches import Batches, BatchRoutes, BatchSettings
from svr_async.simulation.brain import Simulator
from svr_async.simulation.config import Outage, SimConfig
from svr_async.simulation.damage import HTML, error_of, strike
from svr_async.simulation.faults import Fault, Stage
from svr_async.simulation.judge import MODELS
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.request import ChatRequest, Shape
from svr_async.simulation.service import CallRecord, Service
from svr_async.simulation.wires import CREATED, FIELDS, as_detail, as_error, as_limits, detail_payload, error_payload

MAX_BODY = 64 * 2**20
CLIENT_LEFT = "client-left"
ERRORS: Mapping[Shape, tuple[Callable[[ApiError], ApiError], Callable[[ApiError], dict[str, Any]]]] = {
    Shape.MESSAGES: (as_error, error_payload),
    Shape.SYSTEMONE: (as_detail, detail_payload),
}
"""How the shapes that are not OpenAI's tell an error: its status and words, its JSON."""


class SimServer:
    """A simulated endpoint that listens while it is entered. One event loop, no threads.

    `go_down` and `come_back` take it off the network and back by hand, as the outages of the config do by the clock;
    `busy` makes every call a 503.
    """

    def __init__(
        self,
        config: SimConfig | None = None,
        batch: BatchSettings | None = None,
        simulator: Simulator | None = None,
    ) -> None:
        self.config = config or SimConfig()
        self.service = Service(self.config, simulator)
        self.batches = Batches(self.service, self._uptime, batch)
        self.port = self.config.port
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._started = 0.0
        self.busy = False
        self._slots = asyncio.Semaphore(self.config.slots) if self.config.slots else nullcontext()
        self._stack = AsyncExitStack()

    @property
    def base_url(self) -> str:
        """The address to give to a client, with `/v1` at its end."""
        return f"http://{self.config.host}:{self.port}/v1"

    @property
    def listening(self) -> bool:
        """Whether connections are accepted at the moment."""
        return self._site is not None

    @property
    def admin_url(self) -> str:
        """The address of `/log`, `/stats` and `/reset`."""
        return f"http://{self.config.host}:{self.port}/sim"

    def _uptime(self) -> float:
        return time.monotonic() - self._started

    def log(self) -> tuple[CallRecord, ...]:
        """Return the records of all finished calls, in the order in which they ended."""
        return tuple(self.service.history.records)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return calls, paid, completed and in flight per request key."""
        return self.service.history.by_key()

    def stats(self) -> dict[str, Any]:
        """Return totals of calls, faults and tokens."""
        return self.service.stats()

    def reset(self) -> None:
        """Forget all calls, attempts, limits, cached prefixes, files and batches, as if just started."""
        self.service.reset()
        self.batches.reset()

    async def __aenter__(self) -> Self:
        try:
            await self._enter()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _enter(self) -> None:
        self.service.history.open()
        self._stack.callback(self.service.history.close)
        app = web.Application(client_max_size=MAX_BODY)
        app.add_routes(self._routes())
        batches = BatchRoutes(self.batches, self.service.check_key)
        app.add_routes(batches.routes())
        self._stack.push_async_callback(batches.close)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        self._stack.push_async_callback(self._runner.cleanup)
        self._started = time.monotonic()
        await self.come_back()
        if self.config.outages:
            self._stack.push_async_callback(_cancelled, asyncio.create_task(self._keep_outages()))

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", partial(self._answer, shape=Shape.CHAT)),
            web.post("/v1/decisions", partial(self._answer, shape=Shape.DECISIONS)),
            web.post("/v1/messages", partial(self._answer, shape=Shape.MESSAGES)),
            web.post("/v1/systemone", partial(self._answer, shape=Shape.SYSTEMONE)),
            *[
                web.post(f"{root}/{shape.value}", partial(self._answer, shape=shape))
                for shape in FIELDS
                for root in ("", "/v1")
            ],
            web.get("/v1/models", self._models),
            web.get("/sim/log", self._get_log),
            web.get("/sim/stats", self._get_stats),
            web.post("/sim/reset", self._post_reset),
            web.route("*", "/sim/elsewhere", self._elsewhere),
        ]

    async def go_down(self) -> None:
        """Stop listening and cut every connection: clients are refused until `come_back`."""
        if self._site is None or self._runner is None or self._runner.server is None:
            return
        await self._site.stop()
        self._site = None
        for connection in list(self._runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def come_back(self) -> None:
        """Listen, on the same port as before where there was one; `ConfigError` when the port is taken."""
        if self._site is not None or self._runner is None:
            return
        site = web.TCPSite(self._runner, self.config.host, self.port, reuse_address=True, backlog=4096)
        try:
            await site.start()
        except OSError as error:
            what = f"cannot listen on {self.config.host}:{self.port}: {system_words(error)}"
            raise ConfigError(what, hint="choose another --port") from error
        self._site = site
        self.port = self._runner.addresses[0][1]

    async def _keep_outages(self) -> None:
        for outage in sorted(self.config.outages, key=lambda outage: outage.start_s):
            await asyncio.sleep(max(0.0, self._started + outage.start_s - time.monotonic()))
            await self._be_away(outage)

    async def _be_away(self, outage: Outage) -> None:
        self.busy = not outage.refuse
        if outage.refuse:
            await self.go_down()
        await asyncio.sleep(outage.duration_s)
        self.busy = False
        await self.come_back()

    async def _models(self, http: web.Request) -> web.Response:
        try:
            self.service.check_key(_key_of(http))
        except ApiError as error:
            return _refusal(error)
        rows = [{"id": name, "object": "model", "created": CREATED, "owned_by": "svr-sim"} for name in MODELS]
        return _json({"object": "list", "data": rows})

    async def _get_log(self, _http: web.Request) -> web.Response:
        return _json({"in_flight": self.service.history.in_flight, "keys": self.counts()})

    async def _get_stats(self, _http: web.Request) -> web.Response:
        return _json(self.stats())

    async def _post_reset(self, _http: web.Request) -> web.Response:
        self.reset()
        return _json({"reset": True})

    async def _elsewhere(self, _http: web.Request) -> web.Response:
        self.service.redirects_followed += 1
        return _json({"followed": self.service.redirects_followed})

    async def _answer(self, http: web.Request, *, shape: Shape) -> web.StreamResponse:
        """Answer one call and keep its record, however it ends."""
        record = CallRecord(t=round(self._uptime(), 6), key="")
        try:
            if self.busy:
                raise ApiError.server(503, "The server is overloaded or down for maintenance.")
            self.service.check_key(_key_of(http))
            chat, headers = self.service.admit(await http.read(), record, shape)
            return await self._serve(http, chat, record, headers)
        except ApiError as error:
            record.status = error.status
            record.fault = record.fault or error.code or error.kind
            return _refusal(error, shape)
        except (asyncio.CancelledError, ConnectionError):
            record.fault = record.fault or CLIENT_LEFT
            raise
        finally:
            self.service.history.end(record)

    async def _serve(
        self, http: web.Request, chat: ChatRequest, record: CallRecord, headers: dict[str, str]
    ) -> web.StreamResponse:
        fault = self.service.fault_of(chat, record)
        if fault is not None and fault.stage in (Stage.STATUS, Stage.FINAL):
            raise error_of(fault, self.config.faults)
        record.status = fault.status if fault else 200
        if fault is not None and not fault.paid:
            return await self._without_work(http, fault, chat.shape)
        worked = self.service.work(chat, fault, record)
        delay_s = self.service.latency_s(chat, record.attempt, worked.completion_tokens)
        if delay_s:
            async with self._slots:
                await asyncio.sleep(delay_s)
        body = orjson.dumps(worked.reply)
        if fault is not None and fault.stage is Stage.WIRE:
            await strike(fault, self.config.faults, http, body)
            return web.Response()
        response = await _send(http, body, as_limits(headers) if chat.shape is Shape.MESSAGES else headers)
        record.completed = fault is None or fault.stage is Stage.BENIGN
        return response

    async def _without_work(self, http: web.Request, fault: Fault, shape: Shape) -> web.Response:
        if fault.name == "html":
            return web.Response(body=HTML, content_type="text/html")
        if fault.name == "error-200":
            failed = _refusal(ApiError.server(500, "Upstream failed."), shape)
            failed.set_status(200)
            return failed
        await strike(fault, self.config.faults, http, b"")
        return web.Response()


async def _send(http: web.Request, body: bytes, headers: dict[str, str]) -> web.Response:
    """Write a reply to the end here and now, so that the record knows whether it got out."""
    response = web.Response(body=body, content_type="application/json", headers=headers)
    await response.prepare(http)
    await response.write_eof()
    return response


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def _key_of(http: web.Request) -> str:
    """Return what a request is let in with, as the header of OpenAI's endpoints has it."""
    own = http.headers.get("x-api-key")
    return http.headers.get("Authorization", "") if own is None else f"Bearer {own}"


def _refusal(error: ApiError, shape: Shape = Shape.CHAT) -> web.Response:
    """Return an error in the words and the JSON of a shape."""
    told, payload = ERRORS.get(shape, (lambda same: same, ApiError.payload))
    error = told(error)
    response = _json(payload(error), error.status)
    response.headers.update(error.headers)
    return response


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
