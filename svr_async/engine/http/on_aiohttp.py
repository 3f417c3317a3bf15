"""The HTTP client on aiohttp: for endpoints behind a proxy, for Windows, and where SVR_HTTP=aiohttp asks for it.

Where a reply repeats the signature of its question, a reply to another one is told apart, and connections are used
again. aiohttp takes a connection back before a reply can be looked at, and does not say what else arrived on it. So
each question has a connection of its own until a first reply is signed, and again for good from the first that is not;
one that is not, and came over a connection that had served before, may be another question's and is asked for again.
So has a question of whose signature another was asked before: all questions on one pair have the same. A connection on
which bytes have come before a question is sent is given up.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from types import SimpleNamespace
from typing import TYPE_CHECKING

import aiohttp

from svr_async.engine.http.extras import NO_EXTRAS, Extras
from svr_async.engine.http.proxies import proxy_for
from svr_async.engine.http.transport import (
    CONNECT_TIMEOUT_S,
    KEEPALIVE_S,
    MAX_BODY_BYTES,
    CallFailedError,
    RawReply,
    broken,
    classify_exception,
    stale,
    timed_out,
    too_large,
)
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret
from svr_async.engine.wires.contract import Wire
from svr_async.engine.wires.openai import WIRE as OPENAI

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MOST_ASKED = 4096  # questions that are remembered


class AiohttpTransport:
    """Posts to the wire's path below a base URL. Concurrency is bounded above it; redirects are never followed."""

    def __init__(
        self,
        base_url: str,
        key: Secret,
        *,
        timeout_s: float = 600.0,
        headers: Mapping[str, str] = {},
        wire: Wire = OPENAI,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._url = extras.url(base_url, wire.path)
        self._proxy = proxy_for(base_url)
        self._hidden = extras.hidden(key)
        self._timeout_s = timeout_s
        self._extra = {**headers, **extras.head(wire, key)}
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._signs: bool | None = None  # whether all replies to signed questions are signed; None before the first
        self._asked: dict[str, bytes] = {}  # the first question of each signature

    @property
    def opened(self) -> bool:
        """Whether a connection was ever asked for."""
        return bool(self._sessions)

    async def send(self, request: Request) -> RawReply:
        """Post the request and read the reply, whatever its status."""
        again = bool(request.signature) and self._signs is True and self._alone(request)
        if again not in self._sessions:
            self._sessions[again] = self._open(again=again)
        headers = {"Cache-Control": "no-cache"} if request.no_cache else None
        try:
            async with asyncio.timeout(self._timeout_s):
                reply, reused = await self._post(self._sessions[again], request.body_bytes, headers)
        except TimeoutError:
            raise timed_out(self._timeout_s) from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            failure = classify_exception(error)  # its words may quote what the server sent
            raise CallFailedError(replace(failure, detail=self._hidden.mask(failure.detail))) from error
        if request.signature and reply.status < HTTPStatus.MULTIPLE_CHOICES:
            self._note(signed=request.signature.encode() in reply.body, reused=reused)
        return reply

    def _alone(self, request: Request) -> bool:
        """Whether connections may be used again for it: only for the first question of each signature."""
        first = self._asked.setdefault(request.signature, request.key)
        if len(self._asked) > MOST_ASKED:
            del self._asked[next(iter(self._asked))]
        return first == request.key

    def _note(self, *, signed: bool, reused: bool) -> None:
        """Note whether an answer is signed; raise CallFailedError for one that may be another question's."""
        self._signs = signed and self._signs is not False
        if reused and not signed:
            raise broken("UnsignedReply", "a reply without a signature came over a connection that had served before")

    async def close(self) -> None:
        """Close the sessions and wait for their connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _open(self, *, again: bool) -> aiohttp.ClientSession:
        """Return a session whose connections are used again, or one that closes each after its reply."""
        kept = {"keepalive_timeout": KEEPALIVE_S} if again else {"force_close": True}
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_reuseconn.append(_note_reuse)
        headers = {"Content-Type": "application/json", "User-Agent": "svr-async", **self._extra}
        return aiohttp.ClientSession(
            connector=_SilentConnector(limit=0, ttl_dns_cache=60, **kept),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            headers=headers,
            proxy=self._proxy,
            trust_env=False,  # that would read passwords from .netrc too
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[tracing],
        )

    async def _post(
        self, session: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str] | None
    ) -> tuple[RawReply, bool]:
        """Return the reply, and whether its connection had served before."""
        reused: list[bool] = []
        asked = session.post(self._url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=reused)
        try:
            response = await asked
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if reused:
                raise stale(type(error).__name__) from error
            raise
        async with response:
            packed = "Content-Encoding" in response.headers
            data = self._hidden.mask_bytes(await _read_capped(response.content, packed=packed))
            return RawReply(status=response.status, headers=response.headers, body=data), bool(reused)


class _SilentConnector(aiohttp.TCPConnector):
    """Gives no connection on which something has arrived that no question of ours can have asked for."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  (aiohttp passes it by name)
    ) -> Connection:
        """Return a connection for a request; CallFailedError for one that is not silent."""
        connection = await super().connect(req, traces, timeout)
        try:
            await _check_silent(connection)
        except BaseException:
            connection.close()
            raise
        return connection


async def _check_silent(connection: Connection) -> None:
    for _ in range(2):  # rounds of the event loop, which reads what has arrived
        await asyncio.sleep(0)
    protocol = connection.protocol
    if protocol is not None and protocol.is_connected() and protocol.should_close:
        raise broken("EarlyReply", "bytes came before anything was asked")


async def _note_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    """Note that a request goes over a connection that has served before."""
    context.trace_request_ctx.append(True)


async def _read_capped(stream: aiohttp.StreamReader, *, packed: bool) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in stream.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise too_large(packed=packed)
        parts.append(part)
    return b"".join(parts)
