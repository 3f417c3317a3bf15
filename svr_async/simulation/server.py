"""The simulated endpoint over real HTTP: `async with SimServer(config) as sim: … sim.base_url …`."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from io import FileIO
from typing import Any, Self

import orjson
from aiohttp import web

from svr_async.errors import ConfigError, StorageError, system_words
from svr_async.simulation.batches import Batches
from svr_async.simulation.config import FAULTS, WITHOUT_ANSWER, SimConfig
from svr_async.simulation.judge import MODELS
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.wire import CREATED, ApiError, ChatRequest, Shape
from svr_async.simulation.world import draw_bytes

MAX_BODY = 64 * 2**20
RETRY_AFTER_S = 0.05
BURST_S = 0.1  # how much of the rate limit may be used at once
HANG_S = 3600.0
LATENCY_SIGMA = 0.5
REFERENCE_TOKENS = 256
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call. `paid`: the server did the work. `completed`: the whole of an honest reply was handed to the socket.

    `attempt` counts the calls for `key` from 0, −1 where the call was refused before it counted.
    """

    key: str = ""
    attempt: int = -1
    fault: str = ""
    status: int = 0
    paid: bool = False
    completed: bool = False


class SimServer:
    """A simulated endpoint that listens while it is entered. One event loop, no threads."""

    def __init__(self, config: SimConfig | None = None, simulator: Simulator | None = None) -> None:
        self.config = config or SimConfig()
        self.simulator = simulator or Simulator(self.config)
        self.batches = Batches(self)
        self.port = self.config.port
        self.reset()
        self._in_flight = 0
        self._log: FileIO | None = None
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """The address to give to a client, with `/v1` at its end."""
        return f"http://{self.config.host}:{self.port}/v1"

    def reset(self) -> None:
        """Forget all calls, limits, files and batches, as if just started; the log file keeps its lines."""
        self._records: list[CallRecord] = []
        self._attempts: Counter[str] = Counter()
        self._unanswered: Counter[bytes] = Counter()  # by topic: a client asks again only once
        self._paid = 0
        self._next_free = 0.0  # when the rate limit admits a call again, if calls came evenly
        self.batches.reset()

    def log(self) -> tuple[CallRecord, ...]:
        """Return the records of all finished calls, in the order in which they ended."""
        return tuple(self._records)

    def paid(self) -> Counter[str]:
        """Count the paid calls by request key."""
        return Counter(record.key for record in self._records if record.paid)

    def stats(self) -> dict[str, Any]:
        """Return the numbers of calls, of paid and completed ones, of those in flight, and of faults by name."""
        return {
            "calls": len(self._records) + self._in_flight,
            "paid": sum(record.paid for record in self._records),
            "completed": sum(record.completed for record in self._records),
            "in_flight": self._in_flight,
            "faults": dict(Counter(record.fault for record in self._records if record.fault)),
        }

    # --- one call -----------------------------------------------------------------------------------------------------

    @contextmanager
    def recording(self) -> Iterator[CallRecord]:
        """Keep the record of a call, however it ends, and append it to the log file."""
        record = CallRecord()
        try:
            yield record
        except ApiError as error:
            record.status = error.status
            record.fault = record.fault or error.code or str(error.status)
            raise
        finally:
            self._in_flight -= record.attempt >= 0
            self._records.append(record)
            if self._log is not None:
                self._log.write(orjson.dumps(asdict(record), option=orjson.OPT_APPEND_NEWLINE))

    def answer(self, body: Any, shape: Shape, record: CallRecord) -> tuple[ChatRequest, dict[str, Any]]:
        """Admit a call, choose its fault, and do the work; `ApiError` if it is refused or fails."""
        chat = self.simulator.read(body, shape)
        record.key = chat.key
        self._admit()
        record.attempt = self._attempts[chat.key]
        self._attempts[chat.key] += 1
        self._in_flight += 1
        record.fault = self.config.fault(chat.key, record.attempt)
        if record.fault in WITHOUT_ANSWER:
            self._unanswered[chat.topic] += 1
            if self._unanswered[chat.topic] > max(1, self.config.faulty_attempts - 1):
                record.fault = ""
        if FAULTS.get(record.fault, 200) >= 400:
            raise _error_of(record.fault)
        record.status = 200
        if record.fault == "hang":
            return chat, {}
        record.paid = True
        self._paid += 1
        return chat, self.simulator.reply(chat, record.attempt, record.fault)

    def _admit(self) -> None:
        """Raise the refusal of a used-up quota or of the rate limit."""
        if self.config.quota is not None and self._paid >= self.config.quota:
            message = "You exceeded your current quota, please check your plan and billing details."
            raise ApiError(429, message, "insufficient_quota")
        if self.config.rpm:
            now = time.monotonic()
            self._next_free = max(self._next_free, now - BURST_S)
            if self._next_free > now:
                raise _rate_limited(self._next_free - now)
            self._next_free += 60 / self.config.rpm

    async def _respond(self, http: web.Request, *, shape: Shape) -> web.StreamResponse:
        """Answer one call and keep its record, however it ends."""
        with self.recording() as record:
            try:
                body = orjson.loads(await http.read())
            except orjson.JSONDecodeError as error:
                raise ApiError(400, f"the body is not JSON: {error}") from error
            chat, reply = self.answer(body, shape, record)
            if record.fault == "hang":
                await asyncio.sleep(HANG_S)
            await asyncio.sleep(self._latency_s(chat, record.attempt, reply["usage"]))
            data = orjson.dumps(reply)
            if record.fault == "cut":
                return await _cut_off(http, data)
            response = web.Response(body=data, content_type="application/json")
            await response.prepare(http)
            await response.write_eof()  # so that the record says whether the reply got out
            record.completed = not record.fault
            return response

    def _latency_s(self, chat: ChatRequest, attempt: int, usage: dict[str, int]) -> float:
        """Return the seconds that writing a reply takes: log-normal, half fixed and half by output length."""
        rng = random.Random(draw_bytes(self.config.seed, "latency", chat.key, attempt))  # noqa: S311
        written = usage.get("completion_tokens") or usage.get("output_tokens", 0)
        scale = 0.5 + 0.5 * written / REFERENCE_TOKENS
        return self.config.latency_ms / 1000 * scale * rng.lognormvariate(0, LATENCY_SIGMA)

    # --- on the network -----------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen, on the same port as before if started again; `ConfigError` if the port is taken."""
        if self.config.log_path is not None:
            try:
                self._log = FileIO(self.config.log_path, "a")
            except OSError as error:
                raise StorageError(f"cannot write the call log {self.config.log_path}: {error.strerror}") from error
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._guard])
        for shape in Shape:
            app.router.add_post(f"/{shape}", partial(self._respond, shape=shape))
            app.router.add_post(f"/v1/{shape}", partial(self._respond, shape=shape))
        app.add_routes([web.get("/v1/models", self._models), web.get("/sim/stats", self._stats)])
        app.add_routes(self.batches.routes())
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.config.host, self.port, reuse_address=True, backlog=4096).start()
        except OSError as error:
            await self.stop()
            what = f"cannot listen on {self.config.host}:{self.port}: {system_words(error)}"
            raise ConfigError(what, hint="choose another --port") from error
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Stop listening and cut every connection; the calls so far stay recorded."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._log is not None:
            self._log.close()
        self._runner = self._log = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Answer) -> web.StreamResponse:
        """Refuse a wrong or missing key, and turn the `ApiError` of a handler into its reply."""
        if self.config.api_key and request.headers.get("Authorization") != f"Bearer {self.config.api_key}":
            return ApiError(401, "Incorrect API key provided.", "invalid_api_key").response()
        try:
            return await handler(request)
        except ApiError as error:
            return error.response()

    async def _models(self, _http: web.Request) -> web.Response:
        rows = [{"id": name, "object": "model", "created": CREATED, "owned_by": "svr-sim"} for name in MODELS]
        return web.json_response({"object": "list", "data": rows})

    async def _stats(self, _http: web.Request) -> web.Response:
        return web.json_response(self.stats())


def _rate_limited(seconds: float) -> ApiError:
    retry_after = f"{math.ceil(seconds * 1000) / 1000:.3f}"
    return ApiError(429, "Rate limit reached on requests per minute.", "rate_limit_exceeded", retry_after=retry_after)


def _error_of(fault: str) -> ApiError:
    if fault == "429":
        return _rate_limited(RETRY_AFTER_S)
    if fault == "too-long":
        return ApiError(400, "This model's maximum context length is exceeded.", "context_length_exceeded")
    return ApiError(FAULTS[fault], "The server had an error.")


async def _cut_off(http: web.Request, body: bytes) -> web.Response:
    """Send half of a reply and close the connection."""
    if http.transport is not None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        http.transport.write(head.encode() + body[: len(body) // 2])
        await asyncio.sleep(0.002)  # the bytes leave first
        http.transport.close()
    return web.Response()
