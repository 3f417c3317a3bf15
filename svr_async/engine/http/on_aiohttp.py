"""The HTTP client on aiohttp: the general one, chosen with SVR_HTTP=aiohttp."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import aiohttp

from svr_async.engine.http.transport import (
    CONNECT_TIMEOUT_S,
    KEEPALIVE_S,
    MAX_BODY_BYTES,
    CallFailedError,
    RawReply,
    classify_exception,
    timed_out,
    too_large,
)
from svr_async.engine.request import Request
from svr_async.engine.secrets import MASK, Secret


class AiohttpTransport:
    """Posts to `{base_url}/chat/completions`. Concurrency is bounded above it; redirects are never followed."""

    def __init__(
        self, base_url: str, key: Secret, *, timeout_s: float = 600.0, headers: Mapping[str, str] = {}
    ) -> None:
        self._url = f"{base_url}/chat/completions"
        self._secret = key.reveal().encode() if key else b""
        self._timeout_s = timeout_s
        self._extra = dict(headers)
        self._session: aiohttp.ClientSession | None = None

    @property
    def opened(self) -> bool:
        """Whether a connection was ever asked for."""
        return self._session is not None

    async def send(self, request: Request) -> RawReply:
        """Post the request and read the reply, whatever its status."""
        if self._session is None:
            self._session = self._open()
        headers = {"Cache-Control": "no-cache"} if request.no_cache else None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(self._session, request.body_bytes, headers)
        except TimeoutError:
            raise timed_out(self._timeout_s) from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise CallFailedError(classify_exception(error)) from error

    async def close(self) -> None:
        """Close the session and wait for its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        headers = {"Content-Type": "application/json", "User-Agent": "svr-async", **self._extra}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret.decode()}"
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
            return RawReply(status=response.status, headers=response.headers, body=data)

    def _without_key(self, data: bytes) -> bytes:
        """Mask the key where a server echoes it, before anything is logged or kept."""
        return data.replace(self._secret, MASK.encode()) if self._secret else data


async def _read_capped(stream: aiohttp.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in stream.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise too_large()
        parts.append(part)
    return b"".join(parts)
