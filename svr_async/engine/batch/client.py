"""The endpoint's files and batches over HTTP, as OpenAI's Batch API has them: upload, ask, look, cancel, download."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from svr_async.engine.classify import Kind, classify_status
from svr_async.engine.http import NO_EXTRAS, Extras, proxy_for
from svr_async.engine.secrets import Secret, Secrets
from svr_async.engine.wires.openai import WIRE
from svr_async.errors import EndpointDownError, RefusedError, StorageError, SvrError
from svr_async.vocabulary.atomic import reason, sync_folder

MAX_ANSWER_BYTES = 8 * 2**20
PIECE_BYTES = 2**16
FIRST_WAIT_S = 0.5
PAGE = 100
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 300.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
ROOTS = ("files", "batches")
NOT_SERVED = "does this endpoint serve /v1/files and /v1/batches? vllm run-batch takes the files without them"
GONE = "the endpoint does not have that file or batch any more"
NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, ConnectionError)
AGAIN = "run the same command again: what is recorded is not sent twice"


class LostAnswerError(Exception):
    """A request may have reached the endpoint, but its answer did not come back."""


class BatchClient:
    """Files and batches of one endpoint. Use it as an async context manager.

    What only reads, and uploads, which cost nothing, are tried `attempts` times; a batch is asked for once, and
    LostAnswerError says where the endpoint may have begun it all the same. `extras` go with every call.
    """

    def __init__(
        self,
        base_url: str,
        key: Secret,
        *,
        extras: Extras = NO_EXTRAS,
        attempts: int = 5,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = extras.head(WIRE, key)
        self._query = extras.query
        self._key = extras.hidden(key)
        self._attempts = attempts
        self._first_wait_s = first_wait_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=READ_TIMEOUT_S)
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=timeout,
            proxy=proxy_for(self._base_url),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def upload(self, path: Path) -> str:
        """Upload a file of requests, read as it is sent; return its id."""

        async def send() -> Any:
            with path.open("rb") as file:
                form = aiohttp.FormData()
                form.add_field("purpose", "batch")
                form.add_field("file", file, filename=path.name, content_type="application/jsonl")
                return id_in(await self._once("POST", "/files", data=form), "an uploaded file")

        return str(await self._patiently(send))

    async def create(self, file_id: str, window: str, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Ask for a batch, once; LostAnswerError where it may exist although no answer came."""
        asked = {
            "input_file_id": file_id,
            "endpoint": WIRE.batch_url,
            "completion_window": window,
            "metadata": metadata,
        }
        try:
            batch = await self._once("POST", "/batches", json=asked)
        except (_TryAgainError, *NETWORK_ERRORS) as error:
            raise LostAnswerError(self._key.mask(f"{type(error).__name__}: {error}".lstrip("_"))) from None
        id_in(batch, "a batch")
        return dict(batch)

    async def find(self, metadata: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the batch that carries this metadata, or None; the endpoint's whole list is looked through."""
        after = ""
        while True:
            query = f"?limit={PAGE}" + (f"&after={after}" if after else "")
            page = await self._get(f"/batches{query}")
            rows = [row for row in page.get("data") or [] if isinstance(row, dict)]
            for row in rows:
                if _marked(row, metadata) and _ID.fullmatch(str(row.get("id"))):
                    return row
            last = str(rows[-1].get("id")) if rows else ""
            if not page.get("has_more") or last == after or not _ID.fullmatch(last):
                return None
            after = last

    async def retrieve(self, batch_id: str) -> dict[str, Any]:
        """Return a batch as it is now."""
        return dict(await self._get(f"/batches/{batch_id}"))

    async def cancel(self, batch_id: str) -> dict[str, Any]:
        """Ask for a batch to end and return it; what is done of it is kept. One that has just ended is returned too."""

        async def send() -> Any:
            try:
                batch = await self._once("POST", f"/batches/{batch_id}/cancel")
            except _TryAgainError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                batch = await self._once("GET", f"/batches/{batch_id}")
            id_in(batch, "a batch")
            return batch

        return dict(await self._patiently(send))

    async def download(self, file_id: str, target: Path) -> None:
        """Write the content of a file to `target`, whole or not at all, with the API key masked."""

        async def fetch() -> None:
            await self._fetch(file_id, target)

        await self._patiently(fetch)

    async def _fetch(self, file_id: str, target: Path) -> None:
        temporary = target.with_name(f".{target.name}.tmp")
        try:
            async with self._open("GET", f"/files/{file_id}/content") as response:
                if response.status != HTTPStatus.OK:
                    raise self._refused(response, self._masked(await _capped(response)))
                await _write_stream(masked(response.content.iter_chunked(PIECE_BYTES), self._key), temporary)
            temporary.replace(target)
            sync_folder(target.parent)
        finally:
            temporary.unlink(missing_ok=True)

    async def _get(self, path: str) -> Any:
        async def send() -> Any:
            return await self._once("GET", path)

        value = await self._patiently(send)
        if not isinstance(value, dict):
            raise RefusedError(f"the endpoint's answer to {path.partition('?')[0]} is no object", hint=AGAIN)
        return value

    async def _once(self, method: str, path: str, **body: Any) -> Any:
        async with self._open(method, path, **body) as response:
            data = self._masked(await _capped(response))
            if not 200 <= response.status < 300:
                raise self._refused(response, data)
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise LostAnswerError(f"{path.partition('?')[0]} answered with something that is not JSON") from None

    def _open(self, method: str, path: str, **body: Any) -> Any:
        assert self._session is not None
        url = f"{self._base_url}{path}"
        return self._session.request(method, url, params=self._query, allow_redirects=False, **body)

    async def _patiently(self, send: Any) -> Any:
        """Try something that may be repeated, with growing waits; SvrError when it does not help."""
        wait_s = self._first_wait_s
        for attempt in range(1, self._attempts + 1):
            try:
                return await send()
            except _TryAgainError as error:
                detail, wait_s = error.detail, max(wait_s, min(error.wait_s, 60.0))
            except LostAnswerError as error:
                detail = str(error)
            except NETWORK_ERRORS as error:
                detail = f"{type(error).__name__} {self._key.mask(str(error))}".strip()
            except OSError as error:
                raise StorageError(f"cannot read or write a batch file: {reason(error)}", hint=AGAIN) from error
            if attempt < self._attempts:
                await asyncio.sleep(wait_s)
                wait_s *= 2
        raise EndpointDownError(f"no answer from {self._base_url} ({detail})", hint=AGAIN)

    def _masked(self, data: bytes) -> bytes:
        """Mask the key where an endpoint echoes it, before anything is shown or kept."""
        return self._key.mask_bytes(data)

    def _refused(self, response: aiohttp.ClientResponse, data: bytes) -> Exception:
        """Turn an error reply into the exception that its kind calls for."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        failure = classify_status(response.status, headers, WIRE.error(data))
        if failure.kind in {Kind.TRANSIENT, Kind.RATE_LIMITED}:
            return _TryAgainError(failure.detail, failure.wait_s or 0.0, response.status)
        if response.status in {404, 405}:
            return RefusedError(failure.detail, hint=NOT_SERVED if response.url.name in ROOTS else GONE)
        error: SvrError = failure.error(failure.detail, hint=failure.hint or "mend that and run the same command again")
        return error


class _TryAgainError(Exception):
    def __init__(self, detail: str, wait_s: float, status: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.wait_s = wait_s
        self.status = status


async def masked(pieces: AsyncIterator[bytes], key: Secret | Secrets) -> AsyncIterator[bytes]:
    """Yield the bytes of a stream with the key masked, also where it is cut between two pieces."""
    kept = b""
    async for piece in pieces:
        data = key.mask_bytes(kept + piece)
        ready = max(0, len(data) - key.longest_bytes)  # what follows may be the beginning of a key
        kept = data[ready:]
        yield data[:ready]
    yield kept


async def _write_stream(pieces: AsyncIterator[bytes], path: Path) -> None:
    with path.open("wb") as file:
        async for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


async def _capped(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise LostAnswerError("an answer larger than 8 MiB")
        parts.append(part)
    return b"".join(parts)


def _marked(row: Mapping[str, Any], metadata: Mapping[str, str]) -> bool:
    held = row.get("metadata")
    return isinstance(held, dict) and metadata.items() <= held.items()


def id_in(value: Any, what: str, field: str = "id") -> str:
    """Return the id in a field of an answer; LostAnswerError where it is none that may stand in a URL."""
    found = value.get(field) if isinstance(value, dict) else None
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise LostAnswerError(f"the endpoint named no id for {what}")
    return found
