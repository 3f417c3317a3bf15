"""The simulated endpoint with what tests ask of it: records of calls, a key, a quota, a small context, batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import BodyPartReader, web

from svr_async.simulation import server, simulator
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.wire import ApiError, ChatRequest, Json, Shape
from svr_async.simulation.world import draw


@dataclass(frozen=True, slots=True, kw_only=True)
class SimConfig(simulator.SimConfig):
    """Settings of a stricter endpoint. `too_long` is the share of requests that it refuses for good, as too long."""

    api_key: str = ""
    quota: int | None = None
    context_tokens: int = 131_072
    too_long: float = 0.0


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call. `paid`: the server did the work. `completed`: the whole of an honest reply was handed to the socket."""

    key: str = ""
    fault: str = ""
    paid: bool = False
    completed: bool = False
    under_way: bool = True


_CURRENT: ContextVar[CallRecord] = ContextVar("call")


class SimServer(server.SimServer):
    """A simulated endpoint whose calls and batches can be looked at."""

    def __init__(self, config: simulator.SimConfig | None = None, simulated: Simulator | None = None) -> None:
        fields = {name: getattr(config, name) for name in simulator.SimConfig.__dataclass_fields__} if config else {}
        self.strict = config if isinstance(config, SimConfig) else SimConfig(**fields)
        super().__init__(self.strict, simulated)
        self.batches = Batches(self)
        self.reset()

    def reset(self) -> None:
        """Forget all calls, limits, files and batches, as if just started."""
        self._records: list[CallRecord] = []
        self._attempts.clear()
        self._next_free = 0.0
        self.batches.files.clear()
        self.batches.batches.clear()

    def log(self) -> tuple[CallRecord, ...]:
        """Return the records of all calls, in the order in which they came."""
        return tuple(self._records)

    def paid(self, start: int = 0) -> Counter[str]:
        """Count the paid calls by request key, after the first `start` calls."""
        return Counter(record.key for record in self._records[start:] if record.paid)

    def stats(self) -> dict[str, Any]:
        """Return the numbers of calls, of paid and completed ones, of those in flight, and of faults by name."""
        return {
            "calls": len(self._records),
            "paid": sum(record.paid for record in self._records),
            "completed": sum(record.completed for record in self._records),
            "in_flight": sum(record.under_way for record in self._records),
            "faults": dict(Counter(record.fault for record in self._records if record.fault)),
        }

    @contextmanager
    def recording(self) -> Iterator[CallRecord]:
        """Keep the record of a call, however it ends."""
        record = CallRecord()
        self._records.append(record)
        token = _CURRENT.set(record)
        try:
            yield record
        except ApiError as error:
            record.fault = str(error.status)
            raise
        finally:
            record.under_way = False
            _CURRENT.reset(token)

    def answer(self, request: ChatRequest) -> tuple[str, Json]:
        """Refuse what the settings refuse, else answer."""
        record, limit = _CURRENT.get(), self.strict.context_tokens
        record.key = request.key
        if self.strict.quota is not None and self.stats()["paid"] >= self.strict.quota:
            raise ApiError(429, "You exceeded your current quota, please check your plan.", "insufficient_quota")
        if request.prompt_tokens > limit or draw("too long", request.key) < self.strict.too_long:
            message = f"This model's maximum context length is {limit} tokens, which the messages exceed."
            raise ApiError(400, message, "context_length_exceeded")
        record.fault, reply = super().answer(request)
        record.paid = True
        return record.fault, reply

    async def respond(self, http: web.Request, *, shape: Shape) -> web.StreamResponse:
        """Answer a call and record whether the reply got out."""
        with self.recording() as record:
            response = await super().respond(http, shape=shape)
            if not record.fault:
                await response.prepare(http)
                await response.write_eof()
                record.completed = True
            return response

    @web.middleware
    async def guard(self, request: web.Request, handler: server.Handler) -> web.StreamResponse:
        """Refuse a wrong or missing key."""
        if self.strict.api_key and request.headers.get("Authorization") != f"Bearer {self.strict.api_key}":
            error = ApiError(401, "Incorrect API key provided.", "invalid_api_key")
            return web.json_response(error.payload, status=error.status)
        return await super().guard(request, handler)

    def routes(self) -> list[web.RouteDef]:
        """Return the simulated routes and those of batches."""
        return [*super().routes(), *self.batches.routes()]


class Batches:
    """Files and batches, as the Batch API of OpenAI documents them; a look at a batch completes it.

    `window` is the number of lines that are answered before a batch expires.
    """

    def __init__(self, sim: SimServer) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}
        self.window = 10**9
        self._sim = sim

    def add_file(self, data: bytes) -> str:
        """Keep a file; return its id."""
        name = f"file-{len(self.files)}"
        self.files[name] = data
        return name

    def create(self, asked: Mapping[str, Any]) -> Json:
        """Create a batch; `ApiError` for an unknown file."""
        _find(self.files, asked.get("input_file_id"))
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {**asked, "id": name, "object": "batch", "status": "in_progress"}
        return self.batches[name]

    def look(self, name: str) -> Json:
        """Return a batch, taken to its end if it is in progress; `ApiError` for an unknown one."""
        batch: Json = _find(self.batches, name)
        if batch["status"] == "in_progress":
            lines = [orjson.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
            rows = [{"custom_id": line["custom_id"], **self._answer(line["body"], n)} for n, line in enumerate(lines)]
            good = [row for row in rows if row["response"] and row["response"]["status_code"] == 200]
            parts = {"output_file_id": good[::-1], "error_file_id": [row for row in rows if row not in good]}
            for key, part in parts.items():
                batch[key] = self.add_file(b"".join(orjson.dumps(row) + b"\n" for row in part)) if part else None
            batch["request_counts"] = {"total": len(rows), "completed": len(good), "failed": len(rows) - len(good)}
            batch["status"] = "completed" if len(rows) <= self.window else "expired"
        return batch

    def _answer(self, body: Json, number: int) -> Json:
        """Answer one line as a live call is answered, or return its error."""
        if number >= self.window:
            return {"response": None, "error": {"code": "batch_expired", "message": "The batch expired."}}
        try:
            with self._sim.recording() as record:
                fault, reply = self._sim.answer(self._sim.simulator.read(body))
                record.completed = not fault
        except ApiError as error:
            return {"response": {"status_code": error.status, "body": error.payload}, "error": None}
        if fault == "cut":
            return {"response": None, "error": {"code": "server_error", "message": "The server had an error."}}
        return {"response": {"status_code": 200, "body": reply}, "error": None}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of files and batches."""
        return [
            web.post("/v1/files", self._upload),
            web.get("/v1/files/{id}/content", self._download),
            web.post("/v1/batches", self._create),
            web.get("/v1/batches", self._list),
            web.get("/v1/batches/{id}", self._retrieve),
        ]

    async def _upload(self, http: web.Request) -> web.Response:
        async for part in await http.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                return web.json_response({"id": self.add_file(bytes(await part.read())), "object": "file"})
        raise ApiError(400, "The form has no file.")

    async def _download(self, http: web.Request) -> web.Response:
        return web.Response(body=_find(self.files, http.match_info["id"]))

    async def _create(self, http: web.Request) -> web.Response:
        return web.json_response(self.create(await http.json(loads=orjson.loads)))

    async def _list(self, http: web.Request) -> web.Response:
        newest = list(reversed(self.batches.values()))
        start = newest.index(_find(self.batches, http.query["after"])) + 1 if "after" in http.query else 0
        end = start + int(http.query.get("limit", "20"))
        return web.json_response({"object": "list", "data": newest[start:end], "has_more": len(newest) > end})

    async def _retrieve(self, http: web.Request) -> web.Response:
        return web.json_response(self.look(http.match_info["id"]))


def _find(known: Mapping[str, Any], name: Any) -> Any:
    if name not in known:
        raise ApiError(404, f"No such object: {name}")
    return known[name]
