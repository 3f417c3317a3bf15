"""HTTP for the simulated endpoint's files and batches: the routes of OpenAI's Batch API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson
from aiohttp import BodyPartReader, web

from svr_async.simulation.batches import MAX_FILE_BYTES, Batches, StoredFile
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.wire import reset

MOST_ON_A_PAGE = 100
USUAL_ON_A_PAGE = 20
Answer = Callable[[web.Request], Awaitable[web.Response]]


class BatchRoutes:
    """Serves the files and batches of one endpoint. `check` raises the `ApiError` for a wrong key."""

    def __init__(self, batches: Batches, check: Callable[[str], None]) -> None:
        self._batches = batches
        self._check = check
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, each behind the check of the key."""
        table: list[tuple[str, str, Answer]] = [
            ("POST", "/v1/files", self._upload),
            ("GET", "/v1/files/{id}", self._file),
            ("GET", "/v1/files/{id}/content", self._content),
            ("POST", "/v1/batches", self._create),
            ("GET", "/v1/batches", self._list),
            ("GET", "/v1/batches/{id}", self._retrieve),
            ("POST", "/v1/batches/{id}/cancel", self._cancel),
        ]
        return [web.route(method, path, self._guarded(answer)) for method, path, answer in table]

    async def close(self) -> None:
        """Stop work on batches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _guarded(self, answer: Answer) -> Answer:
        async def guarded(http: web.Request) -> web.Response:
            try:
                self._check(http.headers.get("Authorization", ""))
                return await answer(http)
            except ApiError as error:
                return _json(error.payload(), error.status)

        return guarded

    async def _upload(self, http: web.Request) -> web.Response:
        if not http.content_type.startswith("multipart/"):
            raise ApiError.bad_request("files are uploaded as multipart/form-data")
        purpose, name, data = "", "", None
        async for part in await http.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            if part.name == "purpose":
                purpose = (await part.text())[:100]
            elif part.name == "file":
                name, data = part.filename or "file", await _content(part)
        if data is None:
            raise ApiError.bad_request("there is no file in the form")
        return _json(self._batches.add_file(name, purpose, data).payload())

    async def _file(self, http: web.Request) -> web.Response:
        return _json(self._found(http).payload())

    async def _content(self, http: web.Request) -> web.Response:
        return web.Response(body=self._found(http).data, content_type="application/octet-stream")

    def _found(self, http: web.Request) -> StoredFile:
        return self._batches.file(http.match_info["id"])

    async def _create(self, http: web.Request) -> web.Response:
        try:
            asked = orjson.loads(await http.read())
        except orjson.JSONDecodeError as error:
            raise ApiError.bad_request(f"the body is not JSON: {error}") from error
        batch = self._batches.create(asked)
        begun = _json(batch.payload())
        task = asyncio.create_task(self._batches.work(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._batches.answers_to_lose:
            self._batches.answers_to_lose -= 1
            if isinstance(http.transport, asyncio.Transport):
                reset(http.transport)
        return begun

    async def _list(self, http: web.Request) -> web.Response:
        limit = http.query.get("limit", str(USUAL_ON_A_PAGE))
        if not limit.isdecimal() or not 1 <= int(limit) <= MOST_ON_A_PAGE:
            raise ApiError.bad_request(f"limit has to be from 1 to {MOST_ON_A_PAGE}")
        return _json(self._batches.page(int(limit), http.query.get("after", "")))

    async def _retrieve(self, http: web.Request) -> web.Response:
        return _json(self._batches.batch(http.match_info["id"]).payload())

    async def _cancel(self, http: web.Request) -> web.Response:
        return _json(self._batches.cancel(http.match_info["id"]).payload())


async def _content(part: BodyPartReader) -> bytes:
    pieces, size = [], 0
    while piece := await part.read_chunk(2**16):
        size += len(piece)
        if size > MAX_FILE_BYTES:
            raise ApiError.bad_request(f"the file is larger than {MAX_FILE_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
