"""Files and batches of the endpoint, as the Batch API of OpenAI documents them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from aiohttp import BodyPartReader, web

from svr_async.simulation.wire import ApiError, Shape
from svr_async.simulation.world import draw_bytes

if TYPE_CHECKING:
    from svr_async.simulation.server import SimServer

ENDPOINT = "/v1/chat/completions"
EXPIRED = {"code": "batch_expired", "message": "The window of the batch closed before this request was answered."}
CANCELLED = {"code": "batch_cancelled", "message": "The batch was cancelled before this request was answered."}
Found = TypeVar("Found")
LOST = {"code": "server_error", "message": "The server had an error while it answered this request."}


@dataclass(slots=True, kw_only=True)
class Batch:
    """A batch at the endpoint, with the fields of OpenAI's object."""

    id: str
    input_file_id: str
    metadata: dict[str, str] | None
    object: str = "batch"
    endpoint: str = ENDPOINT
    completion_window: str = "24h"
    status: str = "validating"
    request_counts: dict[str, int] = field(default_factory=lambda: {"total": 0, "completed": 0, "failed": 0})
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int = field(default_factory=lambda: int(time.time()))


class Batches:
    """Files and batches of one endpoint: done at once, results in another order than the requests.

    `answered` lines are answered before the window closes, None for all. A batch stays in progress while `held`.
    `lost_answers` is how often a batch is created and the answer about it gets lost.
    """

    def __init__(self, server: SimServer) -> None:
        self.answered: int | None = None
        self.held = False
        self.lost_answers = 0
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self.reset()

    def reset(self) -> None:
        """Forget all files and batches."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.may_go_on: dict[str, asyncio.Event] = {}

    def add_file(self, data: bytes) -> str:
        """Keep a file; return its id."""
        made = f"file-{draw_bytes(self._server.config.seed, 'file', len(self.files)).hex()[:24]}"
        self.files[made] = data
        return made

    def create(self, asked: Any) -> Batch:
        """Create a batch; `ApiError` for an unknown file or endpoint."""
        if not isinstance(asked, dict) or asked.get("endpoint") != ENDPOINT or asked.get("completion_window") != "24h":
            raise ApiError(400, f"endpoint has to be {ENDPOINT}, and completion_window 24h")
        _find(self.files, asked.get("input_file_id"))
        name = f"batch_{draw_bytes(self._server.config.seed, 'batch', len(self.batches)).hex()[:24]}"
        self.batches[name] = Batch(id=name, input_file_id=asked["input_file_id"], metadata=asked.get("metadata"))
        self.may_go_on[name] = asyncio.Event()
        if not self.held:
            self.may_go_on[name].set()
        return self.batches[name]

    def cancel(self, name: str) -> Batch:
        """Cancel a batch; `ApiError` if it has ended."""
        batch = _find(self.batches, name)
        if batch.status not in {"validating", "in_progress"}:
            raise ApiError(409, f"a batch that is {batch.status} cannot be cancelled")
        batch.status = "cancelling"
        self.may_go_on[name].set()
        return batch

    async def work(self, batch: Batch) -> None:
        """Take a batch to its end."""
        lines = [orjson.loads(row) for row in self.files[batch.input_file_id].splitlines()]
        if batch.status == "validating":
            batch.status = "in_progress"
        await self.may_go_on[batch.id].wait()
        good, bad = list[dict[str, Any]](), list[dict[str, Any]]()
        for number, line in enumerate(lines):
            if batch.status == "cancelling" or number == self.answered:
                ending, why = ("cancelled", CANCELLED) if batch.status == "cancelling" else ("expired", EXPIRED)
                bad += [_row(batch, line, None, why) for line in lines[number:]]
                break
            row = self._result(batch, line)
            is_good = row["error"] is None and row["response"]["status_code"] == 200
            (good if is_good else bad).append(row)
            batch.request_counts = {"total": len(lines), "completed": len(good), "failed": len(bad)}
            await asyncio.sleep(0)
        else:
            ending = "completed"
        random.Random(f"{batch.id}|order").shuffle(good)  # noqa: S311  (an order, not a secret)
        batch.output_file_id, batch.error_file_id = (
            self.add_file(b"".join(orjson.dumps(row) + b"\n" for row in rows)) if rows else None for rows in (good, bad)
        )
        batch.status = ending

    def _result(self, batch: Batch, line: dict[str, Any]) -> dict[str, Any]:
        """Answer one line as a live call is answered, and keep its record."""
        server = self._server
        try:
            with server.recording() as record:
                chat, fault = server.begin(line["body"], Shape.CHAT, record)
                reply = None if fault and not fault.paid else server.work(chat, fault, record)
                record.completed = fault is None
        except ApiError as error:
            return _row(batch, line, {"status_code": error.status, "body": error.payload}, None)
        if fault and fault.name in {"hang", "cut"}:
            return _row(batch, line, None, LOST)
        return _row(batch, line, {"status_code": 200, "body": reply}, None)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of files and batches."""
        return [
            web.post("/v1/files", self._upload),
            web.get("/v1/files/{id}/content", self._content),
            web.post("/v1/batches", self._create),
            web.get("/v1/batches", self._list),
            web.get("/v1/batches/{id}", self._act(_find)),
            web.post("/v1/batches/{id}/cancel", self._act(lambda _, name: self.cancel(name))),
        ]

    async def close(self) -> None:
        """Stop work on batches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _upload(self, http: web.Request) -> web.Response:
        data = b""
        async for part in await http.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                data = bytes(await part.read())
        return web.json_response({"id": self.add_file(data), "object": "file", "bytes": len(data), "purpose": "batch"})

    async def _content(self, http: web.Request) -> web.Response:
        return web.Response(body=_find(self.files, http.match_info["id"]))

    async def _create(self, http: web.Request) -> web.Response:
        batch = self.create(await http.json(loads=orjson.loads))
        begun = web.json_response(asdict(batch))
        task = asyncio.create_task(self.work(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.lost_answers and http.transport is not None:
            self.lost_answers -= 1
            http.transport.abort()
        return begun

    async def _list(self, http: web.Request) -> web.Response:
        newest, after = list(reversed(self.batches.values())), http.query.get("after", "")
        start = newest.index(_find(self.batches, after)) + 1 if after else 0
        end = start + int(http.query.get("limit", "20"))
        rows = [asdict(batch) for batch in newest[start:end]]
        return web.json_response({"object": "list", "data": rows, "has_more": len(newest) > end})

    def _act(self, act: Callable[[dict[str, Batch], str], Batch]) -> Any:
        async def answer(http: web.Request) -> web.Response:
            return web.json_response(asdict(act(self.batches, http.match_info["id"])))

        return answer


def _find(known: dict[str, Found], name: Any) -> Found:
    if name not in known:
        raise ApiError(404, f"No such object: {name}")
    return known[name]


def _row(batch: Batch, line: dict[str, Any], response: dict[str, Any] | None, error: Any) -> dict[str, Any]:
    mark = draw_bytes(batch.id, line["custom_id"]).hex()
    response = response and {"request_id": mark, **response}
    return {"id": f"batch_req_{mark}", "custom_id": line["custom_id"], "response": response, "error": error}
