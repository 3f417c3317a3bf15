"""OpenAI's Batch API over HTTP: upload, create, look, cancel, download.

Uploads and reads are retried. A batch is created once: if the answer is lost, the endpoint's list of batches is
searched for our metadata before it is created again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import orjson
from msgspec.structs import replace

from svr_async.core.files import write_atomic
from svr_async.engine.batch_files import STATE, Batch, State, save, storage_errors
from svr_async.engine.classify import Kind, classify_status
from svr_async.engine.http import NO_EXTRAS, Extras, proxy_for
from svr_async.engine.secrets import Secret
from svr_async.engine.wires.openai import WIRE
from svr_async.errors import EndpointDownError, RefusedError

ATTEMPTS = 5
FIRST_WAIT_S, MAX_WAIT_S = 0.5, 60.0
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 300.0
PAGE = 100
WINDOW = "24h"
LOOKS = 3
LOOK_EVERY_S = 2.0
FIRST_POLL_S = 1.0
AGAIN = "run the same command again: it continues from batch.json"
NOT_SERVED = "it does not serve /v1/files and /v1/batches (vllm run-batch needs neither), or deleted the batch"
NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, ConnectionError)
T = TypeVar("T")


class LostAnswerError(Exception):
    """The endpoint may have received a request, but no usable answer came back."""

    def __init__(self, detail: str, wait_s: float = 0.0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s


class BatchClient:
    """Files and batches of one endpoint, as an async context manager; `extras` go with each request."""

    def __init__(
        self, base_url: str, key: Secret, *, extras: Extras = NO_EXTRAS, first_wait_s: float = FIRST_WAIT_S
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = extras.head(WIRE, key)
        self._query = extras.query
        self._hidden = extras.hidden(key)
        self._first_wait_s = first_wait_s

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=READ_TIMEOUT_S),
            proxy=proxy_for(self._base_url),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def upload(self, path: Path) -> str:
        """Upload a request file and return its id."""

        async def send() -> str:
            with storage_errors(f"read {path}"), path.open("rb") as file:
                form = aiohttp.FormData({"purpose": "batch"})
                form.add_field("file", file, filename=path.name, content_type="application/jsonl")
                return _id(await self._json("POST", "/files", data=form))

        return await self._retry(send)

    async def create(self, file_id: str, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Create a batch, without retries; LostAnswerError if it may exist although no answer came."""
        body = {"input_file_id": file_id, "endpoint": WIRE.batch_url, "completion_window": WINDOW, "metadata": metadata}
        batch = await self._json("POST", "/batches", json=body)
        _id(batch)
        return batch

    async def find(self, metadata: Mapping[str, str]) -> dict[str, Any] | None:
        """Search the endpoint's list for the batch with this metadata."""
        after = ""
        while True:
            query = {"limit": str(PAGE)} | ({"after": after} if after else {})
            page = await self._retry(lambda: self._json("GET", "/batches", params=query))  # noqa: B023  (awaited here)
            rows = [row for row in page.get("data") or [] if isinstance(row, dict)]
            for row in rows:
                if row.get("id") and metadata.items() <= (row.get("metadata") or {}).items():
                    return row
            last = str(rows[-1].get("id")) if rows else ""
            if not page.get("has_more") or last in {"", after}:
                return None
            after = last

    async def retrieve(self, batch_id: str) -> dict[str, Any]:
        """Return a batch."""
        return await self._retry(lambda: self._json("GET", f"/batches/{quote(batch_id, safe='')}"))

    async def download(self, file_id: str, target: Path) -> None:
        """Write a file of the endpoint to `target`, with the API key masked."""
        data = await self._retry(lambda: self._send("GET", f"/files/{quote(file_id, safe='')}/content"))
        if data.strip() and not data.rstrip(b" \r").endswith((b"\n", b"}")):
            raise EndpointDownError(f"the download of {target.name} was cut off", hint=AGAIN)
        write_atomic(target, data, hint="make the folder writable")

    async def _json(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        data = await self._send(method, path, **request)
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise LostAnswerError(f"{path} did not answer with a JSON object")
        return value

    async def _send(self, method: str, path: str, *, params: Mapping[str, str] | None = None, **body: Any) -> bytes:
        """Send a request once and return the body, with the API key masked."""
        url, query = f"{self._base_url}{path}", {**self._query, **(params or {})}
        try:
            async with self._session.request(method, url, params=query, allow_redirects=False, **body) as response:
                data = self._hidden.mask_bytes(await response.read())
        except NETWORK_ERRORS as error:
            raise LostAnswerError(self._hidden.mask(f"{type(error).__name__} {error}".strip())) from None
        if 200 <= response.status < 300:
            return data
        headers = {name.lower(): value for name, value in response.headers.items()}
        failure = classify_status(response.status, headers, WIRE.error(data))
        if failure.kind in {Kind.TRANSIENT, Kind.RATE_LIMITED}:
            raise LostAnswerError(failure.detail, failure.wait_s or 0.0)
        if response.status in {404, 405}:
            raise RefusedError(failure.detail, hint=NOT_SERVED)
        raise failure.error(failure.detail, hint=failure.hint or "fix this and run the same command again")

    async def _retry(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send until an answer comes, with growing waits; EndpointDownError after the last attempt."""
        wait_s = self._first_wait_s
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(wait_s)
                wait_s *= 2
            try:
                return await send()
            except LostAnswerError as error:
                lost, wait_s = error, max(wait_s, min(error.wait_s, MAX_WAIT_S))
        raise EndpointDownError(f"no answer from {self._base_url} ({lost})", hint=AGAIN)


def _id(value: Mapping[str, Any]) -> str:
    if not isinstance(value.get("id"), str) or not value["id"]:
        raise LostAnswerError("the answer has no id")
    return str(value["id"])


async def submit(folder: Path, state: State, client: BatchClient, *, look_every_s: float = LOOK_EVERY_S) -> State:
    """Upload each file and create its batch, unless it has one that did not fail as a whole."""
    state = await refresh(folder, state, client)
    for batch in state.batches:
        if batch.status == "failed" and not batch.done:
            batch = Batch(file=batch.file, attempt=batch.attempt + 1)  # noqa: PLW2901
        if not batch.batch_id:
            state = _save(folder, state, await _create_once(folder, state, batch, client, look_every_s))
    return state


async def _create_once(folder: Path, state: State, batch: Batch, client: BatchClient, look_every_s: float) -> Batch:
    mark = {"svr_export": state.id, "svr_file": batch.file, "svr_attempt": str(batch.attempt)}
    problem = ""
    for _ in range(LOOKS):
        if batch.requested and (existing := await client.find(mark)) is not None:
            return updated(batch, existing)
        if not batch.file_id:
            batch = replace(batch, file_id=await client.upload(folder / batch.file))
        batch = replace(batch, requested=True)
        _save(folder, state, batch)
        try:
            return updated(batch, await client.create(batch.file_id, mark))
        except RefusedError:
            _save(folder, state, replace(batch, requested=False, file_id=""))
            raise
        except LostAnswerError as error:
            problem = str(error)
        await asyncio.sleep(look_every_s)
    raise EndpointDownError(
        f"no answer when {batch.file} was submitted ({problem})",
        hint="run the same command again: it first looks whether the batch exists",
    )


async def refresh(folder: Path, state: State, client: BatchClient) -> State:
    """Update the batches that have not ended, or have no result files yet."""
    for batch in state.batches:
        complete = batch.ended and (batch.output or batch.errors or batch.status == "failed")
        if batch.batch_id and not complete:
            state = _save(folder, state, updated(batch, await client.retrieve(batch.batch_id)))
    return state


async def fetch(
    folder: Path, state: State, client: BatchClient, *, wait: bool = False, on_state: Callable[[State], None]
) -> State:
    """Download the results of the batches that have ended; with `wait`, poll until all have ended."""
    pause_s = FIRST_POLL_S
    while True:
        state = await refresh(folder, state, client)
        on_state(state)
        for batch in state.batches:
            for file_id, target in batch.downloads(folder):
                if batch.ended and not target.exists():
                    await client.download(file_id, target)
        if not wait or all(batch.ended or not batch.batch_id for batch in state.batches):
            return state
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_WAIT_S)


def _save(folder: Path, state: State, batch: Batch) -> State:
    state = replace(state, batches=tuple(batch if one.file == batch.file else one for one in state.batches))
    save(folder / STATE, state)
    return state


def updated(batch: Batch, value: Mapping[str, Any]) -> Batch:
    """Return a batch with the fields that the endpoint reports; fields of a wrong type are ignored."""
    counts = value.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    errors = value.get("errors")
    rows = errors.get("data") if isinstance(errors, dict) else None
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    return replace(
        batch,
        batch_id=batch.batch_id or _id(value),
        requested=False,
        status=str(value.get("status") or "unknown")[:40],
        done=_count(counts.get("completed")),
        failed=_count(counts.get("failed")),
        total=_count(counts.get("total")),
        created=_count(value.get("created_at")),
        output=str(value.get("output_file_id") or ""),
        errors=str(value.get("error_file_id") or ""),
        problem=str(first.get("message") or "")[:300],
    )


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
