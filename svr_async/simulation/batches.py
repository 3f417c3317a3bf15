"""Files and batches of the endpoint, as the Batch API of OpenAI documents them; a look at a batch completes it."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from aiohttp import BodyPartReader, web

from svr_async.simulation.wire import ApiError, Shape
from svr_async.simulation.world import draw_bytes

if TYPE_CHECKING:
    from svr_async.simulation.server import SimServer

ENDPOINT = "/v1/chat/completions"
UNANSWERED = {
    "expired": "The window of the batch closed before this request was answered.",
    "cancelled": "The batch was cancelled before this request was answered.",
}
LOST = {"code": "server_error", "message": "The server had an error while it answered this request."}
Json = dict[str, Any]
Found = TypeVar("Found")


class Batches:
    """Files and batches of one endpoint: results come in another order than the requests.

    `answered` lines are answered before the window closes, None for all. A batch stays in progress while `held`.
    `lost_answers` is how often a batch is created and the answer about it gets lost.
    """

    def __init__(self, server: SimServer) -> None:
        self.answered: int | None = None
        self.held = False
        self.lost_answers = 0
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

    def create(self, asked: Any) -> Json:
        """Create a batch; `ApiError` for an unknown file or endpoint."""
        if not isinstance(asked, dict) or asked.get("endpoint") != ENDPOINT or asked.get("completion_window") != "24h":
            raise ApiError(400, f"endpoint has to be {ENDPOINT}, and completion_window 24h")
        _find(self.files, asked.get("input_file_id"))
        name = f"batch_{draw_bytes(self._server.config.seed, 'batch', len(self.batches)).hex()[:24]}"
        kept = {key: asked.get(key) for key in ("input_file_id", "metadata", "endpoint", "completion_window")}
        made = {"id": name, "object": "batch", "status": "in_progress", "created_at": int(time.time())}
        counts = {"total": 0, "completed": 0, "failed": 0}
        self.batches[name] = {**made, **kept, "request_counts": counts, "output_file_id": None, "error_file_id": None}
        return self.batches[name]

    def look(self, name: str) -> Json:
        """Return a batch, taken to its end unless it is held; `ApiError` for an unknown one."""
        batch = _find(self.batches, name)
        if batch["status"] == "cancelling" or (batch["status"] == "in_progress" and not self.held):
            self._work(batch)
        return batch

    def cancel(self, name: str) -> Json:
        """Cancel a batch; `ApiError` if it has ended."""
        batch = _find(self.batches, name)
        if batch["status"] != "in_progress":
            raise ApiError(409, f"a batch that is {batch['status']} cannot be cancelled")
        batch["status"] = "cancelling"
        return batch

    def _work(self, batch: Json) -> None:
        lines = [orjson.loads(row) for row in self.files[batch["input_file_id"]].splitlines()]
        n_answered = len(lines) if self.answered is None else min(self.answered, len(lines))
        ending = "completed" if n_answered == len(lines) else "expired"
        if batch["status"] == "cancelling":
            n_answered, ending = 0, "cancelled"
        good, bad = list[Json](), list[Json]()
        for number, line in enumerate(lines):
            if number < n_answered:
                response, error = self._result(line["body"])
            else:
                response, error = None, {"code": f"batch_{ending}", "message": UNANSWERED[ending]}
            mark = draw_bytes(batch["id"], line["custom_id"]).hex()
            response = response and {"request_id": mark, **response}
            row = {"id": f"batch_req_{mark}", "custom_id": line["custom_id"], "response": response, "error": error}
            (good if response and response["status_code"] == 200 else bad).append(row)
        random.Random(f"{batch['id']}|order").shuffle(good)  # noqa: S311  (an order, not a secret)
        for key, rows in (("output_file_id", good), ("error_file_id", bad)):
            batch[key] = self.add_file(b"".join(orjson.dumps(row) + b"\n" for row in rows)) if rows else None
        batch["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        batch["status"] = ending

    def _result(self, body: Json) -> tuple[Json | None, Json | None]:
        """Answer one line as a live call is answered, and keep its record; return the response or the error."""
        try:
            with self._server.recording() as record:
                _, reply = self._server.answer(body, Shape.CHAT, record)
                record.completed = not record.fault
        except ApiError as error:
            return {"status_code": error.status, "body": error.payload}, None
        if record.fault in {"hang", "cut"}:
            return None, LOST
        return {"status_code": 200, "body": reply}, None

    # --- over HTTP ----------------------------------------------------------------------------------------------------

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of files and batches."""
        return [
            web.post("/v1/files", self._post_file),
            web.get("/v1/files/{id}/content", self._get_file),
            web.post("/v1/batches", self._post_batch),
            web.get("/v1/batches", self._get_batches),
            web.get("/v1/batches/{id}", self._get_batch),
            web.post("/v1/batches/{id}/cancel", self._post_cancel),
        ]

    async def _post_file(self, http: web.Request) -> web.Response:
        data = b""
        async for part in await http.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                data = bytes(await part.read())
        return web.json_response({"id": self.add_file(data), "object": "file", "bytes": len(data), "purpose": "batch"})

    async def _get_file(self, http: web.Request) -> web.Response:
        return web.Response(body=_find(self.files, http.match_info["id"]))

    async def _post_batch(self, http: web.Request) -> web.Response:
        batch = self.create(await http.json(loads=orjson.loads))
        if self.lost_answers and http.transport is not None:
            self.lost_answers -= 1
            http.transport.abort()
        return web.json_response(batch)

    async def _get_batches(self, http: web.Request) -> web.Response:
        newest, after = list(reversed(self.batches.values())), http.query.get("after", "")
        start = newest.index(_find(self.batches, after)) + 1 if after else 0
        end = start + int(http.query.get("limit", "20"))
        return web.json_response({"object": "list", "data": newest[start:end], "has_more": len(newest) > end})

    async def _get_batch(self, http: web.Request) -> web.Response:
        return web.json_response(self.look(http.match_info["id"]))

    async def _post_cancel(self, http: web.Request) -> web.Response:
        return web.json_response(self.cancel(http.match_info["id"]))


def _find(known: dict[str, Found], name: Any) -> Found:
    if name not in known:
        raise ApiError(404, f"No such object: {name}")
    return known[name]
