"""Files and batches of the endpoint, as the Batch API of OpenAI documents them; a look at a batch completes it."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import BodyPartReader, web

from svr_async.simulation.wire import ApiError, Shape
from svr_async.simulation.world import draw_bytes

if TYPE_CHECKING:
    from svr_async.simulation.server import SimServer

EXPIRED = {"code": "batch_expired", "message": "The batch expired before this request was answered."}
LOST = {"code": "server_error", "message": "The server had an error while it answered this request."}
Json = dict[str, Any]


class Batches:
    """Files and batches of one endpoint; a batch expires after `window` answers."""

    def __init__(self, server: SimServer) -> None:
        self.window = sys.maxsize
        self._server = server
        self.reset()

    def reset(self) -> None:
        """Forget all files and batches."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}

    def add_file(self, data: bytes) -> str:
        """Keep a file; return its id."""
        name = f"file-{draw_bytes(self._server.config.seed, 'file', len(self.files)).hex()[:24]}"
        self.files[name] = data
        return name

    def create(self, asked: Mapping[str, Any]) -> Json:
        """Create a batch; `ApiError` for an unknown file."""
        _find(self.files, asked.get("input_file_id"))
        name = f"batch_{draw_bytes(self._server.config.seed, 'batch', len(self.batches)).hex()[:24]}"
        made = {"id": name, "object": "batch", "status": "in_progress", "created_at": int(time.time())}
        self.batches[name] = {"metadata": None, **asked, **made, "output_file_id": None, "error_file_id": None}
        return self.batches[name]

    def look(self, name: str) -> Json:
        """Return a batch, taken to its end if it is in progress; `ApiError` for an unknown one."""
        batch: Json = _find(self.batches, name)
        if batch["status"] == "in_progress":
            self._work(batch)
        return batch

    def _work(self, batch: Json) -> None:
        """Answer the lines of a batch; those after the window get an error."""
        lines = [orjson.loads(row) for row in self.files[batch["input_file_id"]].splitlines()]
        good, bad = list[Json](), list[Json]()
        for number, line in enumerate(lines):
            response, error = self._answer(line["body"]) if number < self.window else (None, EXPIRED)
            mark = draw_bytes(batch["id"], line["custom_id"]).hex()
            row = {"id": f"batch_req_{mark}", "custom_id": line["custom_id"], "response": response, "error": error}
            (good if response and response["status_code"] == 200 else bad).append(row)
        random.Random(f"{batch['id']}|order").shuffle(good)  # noqa: S311  (results come in another order)
        for key, rows in (("output_file_id", good), ("error_file_id", bad)):
            batch[key] = self.add_file(b"".join(orjson.dumps(row) + b"\n" for row in rows)) if rows else None
        batch["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        batch["status"] = "completed" if len(lines) <= self.window else "expired"

    def _answer(self, body: Json) -> tuple[Json | None, Json | None]:
        """Answer one line as a live call is answered, and keep its record; return the response or the error."""
        try:
            with self._server.recording() as record:
                _, reply = self._server.answer(body, Shape.CHAT, record)
                record.completed = not record.fault
        except ApiError as error:
            return {"status_code": error.status, "body": error.payload}, None
        return (None, LOST) if record.fault in {"hang", "cut"} else ({"status_code": 200, "body": reply}, None)

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
        data = b""
        async for part in await http.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                data = bytes(await part.read())
        return web.json_response({"id": self.add_file(data), "object": "file", "bytes": len(data), "purpose": "batch"})

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
