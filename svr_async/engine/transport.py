"""The HTTP transport: one POST, capped in size and time; failures come back classified."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from svr_async.engine.classify import Billed, Failure, Kind
from svr_async.engine.request import Request
from svr_async.engine.secrets import MASK, Secret
from svr_async.errors import RefusedError

MAX_BODY_BYTES = 8 * 1024 * 1024
KEEPALIVE_S = 4.0  # below the 5 s of common servers, so that they never close a connection that we are about to use
CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """Status, lower-cased headers and decompressed body of one HTTP reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CallFailedError(Exception):
    """A call that gave no HTTP reply, or one too large to read; carries the classified failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class Transport(Protocol):
    """What the engine sends requests through."""

    async def send(self, request: Request) -> RawReply:
        """Send one request; CallFailedError when there is no reply."""

    async def close(self) -> None:
        """Close all connections."""


class HttpTransport:
    """aiohttp against `{base_url}/chat/completions`. Concurrency is bounded above it; redirects are never followed."""

    def __init__(
        self, base_url: str, key: Secret, *, timeout_s: float = 600.0, headers: Mapping[str, str] = {}
    ) -> None:
        self._url = f"{base_url}/chat/completions"
        self._key = key
        self._timeout_s = timeout_s
        self._extra = dict(headers)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> RawReply:
        """Post the request and read the reply, whatever its status."""
        if self._session is None:
            self._session = self._open()
        headers = {"Cache-Control": "no-cache"} if request.no_cache else None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(self._session, request.body_bytes, headers)
        except TimeoutError:
            detail = f"no complete reply within {self._timeout_s:g} s"
            raise CallFailedError(_transient(detail, "timeout", Billed.UNKNOWN)) from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise CallFailedError(classify_exception(error)) from error

    async def close(self) -> None:
        """Close the session and wait for its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        headers = {"Content-Type": "application/json", **self._extra}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            headers=headers,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _post(self, session: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str] | None) -> RawReply:
        async with session.post(self._url, data=body, headers=headers, allow_redirects=False) as response:
            data = self._without_key(await _read_capped(response.content))
            lowered = {name.lower(): value for name, value in response.headers.items()}
            return RawReply(status=response.status, headers=lowered, body=data)

    def _without_key(self, data: bytes) -> bytes:
        """Mask the key where a server echoes it, before anything is logged or kept."""
        return data.replace(self._key.reveal().encode(), MASK.encode()) if self._key else data


async def _read_capped(stream: aiohttp.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in stream.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            detail = f"the reply is larger than {MAX_BODY_BYTES // 2**20} MiB"
            raise CallFailedError(_transient(detail, "too large", Billed.UNKNOWN))
        parts.append(part)
    return b"".join(parts)


def classify_exception(error: Exception) -> Failure:
    """Classify an exception of the transport: certificates end the run, everything else is tried again."""
    name = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return Failure(
            kind=Kind.RUN,
            error=RefusedError,
            detail=f"the endpoint's certificate is not accepted: {error}",
            hint="mend the certificate, or use the host name that it is for",
        )
    if isinstance(error, aiohttp.InvalidURL):
        return Failure(kind=Kind.RUN, error=RefusedError, detail=f"not a URL: {error}", hint="check --base-url")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _transient(f"cannot connect: {error.strerror or error}", f"{name}", Billed.NO)
    return _transient(f"the connection failed: {name} {error}".strip(), name, Billed.UNKNOWN)


def _transient(detail: str, signature: str, billed: Billed) -> Failure:
    return Failure(kind=Kind.TRANSIENT, detail=detail, billed=billed, signature=signature)
