"""The default HTTP client: plain POSTs to one origin over kept-alive connections, at a quarter of aiohttp's cost.

A reply is never given to another question: nothing may have arrived before a request is written, and a connection is
used again at once only after a reply that repeats the signature of its question, and for no other question of that
signature: all questions on one pair have the same. After any other answer it rests for REST_S first, in which a second
answer to the same question would show and close it. From an endpoint that ever sent a byte too many, it closes instead.

No task, timer or header dictionary a call: one sweep watches the deadlines of all calls, and the request's head is
encoded once. It follows no redirect, speaks HTTP/1.1 only and knows no proxy: where the environment names one for the
endpoint, `client.py` takes `AiohttpTransport`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from svr_async.engine.http.connection import READ_BYTES, Connection
from svr_async.engine.http.extras import NO_EXTRAS, Extras
from svr_async.engine.http.transport import (
    CONNECT_TIMEOUT_S,
    KEEPALIVE_S,
    RawReply,
    bad_certificate,
    bad_url,
    broken,
    cannot_connect,
    no_such_host,
    timed_out,
)
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret
from svr_async.engine.wires.contract import Wire
from svr_async.engine.wires.openai import WIRE as OPENAI

DNS_TTL_S = 60.0
SWEEP_S = 0.02
CLOSE_S = 1.0
REST_S = 0.1  # after a reply that might be to another question, before the next request
MOST_RESTING = 256  # beyond, the one that has rested longest goes on: at 10,000 calls a second after 25 ms
SAFE = "/%:@!$&'()*+,;=~?"  # in a path or a query
AddressInfo = tuple[int, int, int, str, Any]


class LeanTransport:
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
        self._timeout_s = timeout_s
        self._hidden = extras.hidden(key)
        self._extra = {**extras.head(wire, key), **headers}
        self._origin: _Origin | None = None
        self._idle: list[Connection] = []
        self._resting: deque[Connection] = deque()
        self._alive: set[Connection] = set()
        self._due: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wary = False  # of replies that nothing had asked for: one has come
        self._buffer = memoryview(bytearray(READ_BYTES))

    @property
    def opened(self) -> bool:
        """Whether a connection was ever asked for."""
        return self._origin is not None

    async def send(self, request: Request) -> RawReply:
        """Post the request and read the reply, whatever its status."""
        loop = asyncio.get_running_loop()
        origin = self._origin or self._open()
        now = loop.time()
        due = now + self._timeout_s
        connection = self._take_idle(now, request) or await self._connect(origin, loop, due)
        if request.signature:
            connection.asked.append((request.signature, request.key))
        waiter = connection.post(origin.request(request))
        self._due[connection] = due
        if self._timer is None:
            self._timer = loop.call_at(due, self._sweep, loop)
        try:
            reply = await waiter
        except BaseException:
            connection.abort()
            raise
        finally:
            del self._due[connection]
        self._keep(connection, request, reply, loop.time())
        return self._without_key(reply)

    async def close(self) -> None:
        """Close all connections and wait until they are gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._idle.clear()
        self._resting.clear()
        alive = list(self._alive)
        for connection in alive:
            connection.fail(broken("Closed", "by us, the connection was closed"))
        if alive:
            await asyncio.wait([connection.lost for connection in alive], timeout=CLOSE_S)
        self._origin = None

    def _open(self) -> _Origin:
        try:
            self._origin = origin = _Origin(self._url, self._extra)
        except ValueError as error:
            raise bad_url(error) from None
        return origin

    def _keep(self, connection: Connection, request: Request, reply: RawReply, now: float) -> None:
        """Keep a connection for further requests; close one whose reply does not repeat what it was asked to."""
        connection.idle_since = now
        signed = request.signature.encode()
        if not connection.reusable:
            connection.abort()
        elif signed and signed in reply.body:
            self._idle.append(connection)
        elif self._wary or (signed and reply.status < HTTPStatus.MULTIPLE_CHOICES):
            connection.abort()
        else:
            self._resting.append(connection)

    def _take_idle(self, now: float, request: Request) -> Connection | None:
        """Return the connection that was used last, but for those on which a late reply would pass for this one's.

        A question without a signature takes only what has rested. Those that have been idle for too long are closed.
        """
        resting, idle, passed = self._resting, self._idle, list[Connection]()
        while resting and (now - resting[0].idle_since >= REST_S or len(resting) > MOST_RESTING):
            connection = resting.popleft()
            if not connection.asked_beside(request) and _usable(connection, now):
                return connection
            connection.abort()
        try:
            while idle and request.signature:
                connection = idle.pop()
                if now - connection.idle_since > KEEPALIVE_S:  # those below have been idle for longer still
                    for old in (connection, *idle):
                        old.abort()
                    idle.clear()
                elif connection.asked_beside(request):
                    passed.append(connection)
                elif _usable(connection, now):
                    return connection
        finally:
            idle.extend(reversed(passed))
        return None

    def _gone(self, connection: Connection) -> None:
        """Forget a connection that is lost; from the first strange one on, none waits for another question."""
        self._alive.discard(connection)
        if connection.strange and not self._wary:
            self._wary = True
            while self._resting:
                self._resting.pop().abort()

    async def _connect(self, origin: _Origin, loop: asyncio.AbstractEventLoop, due: float) -> Connection:
        try:
            async with asyncio.timeout(min(CONNECT_TIMEOUT_S, self._timeout_s)):
                connection = await origin.connect(loop, self._buffer)
        except TimeoutError:
            if loop.time() >= due:
                raise timed_out(self._timeout_s) from None
            raise cannot_connect("TimeoutError", f"no connection within {CONNECT_TIMEOUT_S:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise bad_certificate(error) from error
        except socket.gaierror as error:  # only at the start: later on, the last known addresses serve
            if error.errno == socket.EAI_NONAME:
                raise no_such_host(origin.host) from error
            raise cannot_connect(type(error).__name__, error.strerror or str(error)) from error
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or str(error)
            if isinstance(error, ConnectionError) and error.errno:  # asyncio's own words name the call and a tuple
                told = os.strerror(error.errno)
            raise cannot_connect(type(error).__name__, told) from error
        if origin is not self._origin:
            connection.abort()
            raise broken("Closed", "by us, the connection was closed")
        if not (origin.encrypted or connection.silent()):
            connection.abort()
            raise broken("EarlyReply", "bytes came before anything was asked")
        self._alive.add(connection)
        connection.lost.add_done_callback(lambda _: self._gone(connection))
        return connection

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the calls whose time is up, and come back when the next one's may be."""
        now = loop.time()
        late = [connection for connection, due in self._due.items() if due <= now]
        for connection in late:
            connection.fail(timed_out(self._timeout_s))
        left = [due for due in self._due.values() if due > now]
        self._timer = loop.call_at(max(min(left), now + SWEEP_S), self._sweep, loop) if left else None

    def _without_key(self, reply: RawReply) -> RawReply:
        """Mask the key where a server echoes it, before anything is logged or kept."""
        body = self._hidden.mask_bytes(reply.body)
        return reply if body is reply.body else RawReply(status=reply.status, headers=reply.headers, body=body)


def _usable(connection: Connection, now: float) -> bool:
    """Whether a connection may take a request; it is closed where it may not."""
    if connection.reusable and connection.silent() and now - connection.idle_since <= KEEPALIVE_S:
        return True
    connection.abort()
    return False


class _Origin:
    """Where the requests go: addresses, certificate check, and the head that all requests share."""

    def __init__(self, url: str, extra: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{parts.scheme}://{parts.hostname or ''} is no http or https address")
        self.host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = _tls_context() if parts.scheme == "https" else None
        self._head = _head(parts, self.host, extra)
        self._addresses: list[AddressInfo] = []
        self._fresh_until = 0.0
        self._lookup: asyncio.Task[list[AddressInfo]] | None = None

    @property
    def encrypted(self) -> bool:
        """Whether bytes may arrive that are no reply: those of TLS."""
        return self._tls is not None

    def request(self, request: Request) -> bytes:
        """Return the bytes of a request."""
        body = request.body_bytes
        extra = b"Cache-Control: no-cache\r\n" if request.no_cache else b""
        return b"".join((self._head, extra, b"Content-Length: %d\r\n\r\n" % len(body), body))

    async def connect(self, loop: asyncio.AbstractEventLoop, buffer: memoryview) -> Connection:
        """Open a connection, TLS included."""
        addresses = await self._resolve(loop)
        tried = list(addresses)
        addresses.append(addresses.pop(0))  # the next connection begins with the next address
        sock = await _open_socket(loop, tried)
        try:
            _, connection = await loop.create_connection(
                partial(Connection, loop, buffer),
                sock=sock,
                ssl=self._tls,
                server_hostname=self.host if self._tls else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection

    async def _resolve(self, loop: asyncio.AbstractEventLoop) -> list[AddressInfo]:
        """Look the host up, once for all who wait; the last known addresses serve where that fails."""
        if loop.time() < self._fresh_until:
            return self._addresses
        if self._lookup is None:
            self._lookup = loop.create_task(self._look_up(loop))
            self._lookup.add_done_callback(self._looked_up)
        return await asyncio.shield(self._lookup)

    async def _look_up(self, loop: asyncio.AbstractEventLoop) -> list[AddressInfo]:
        found = _literal(self.host, self.port)
        if not found:
            try:
                found = list(await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM))
            except OSError:
                if not self._addresses:
                    raise
                found = self._addresses
        self._addresses = found
        self._fresh_until = loop.time() + DNS_TTL_S
        return found

    def _looked_up(self, task: asyncio.Task[list[AddressInfo]]) -> None:
        self._lookup = None
        if not task.cancelled():
            task.exception()  # read here too: those who waited may have been cancelled


async def _open_socket(loop: asyncio.AbstractEventLoop, addresses: list[AddressInfo]) -> socket.socket:
    """Connect to the address, or to whichever of several answers first."""
    if len(addresses) > 1:
        import aiohappyeyeballs

        return await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=0.25)
    family, kind, protocol, _, address = addresses[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _literal(host: str, port: int) -> list[AddressInfo]:
    """Return the address of a host that is an IP address; empty for a name."""
    kinds: tuple[tuple[int, tuple[int, ...]], ...] = ((socket.AF_INET, ()), (socket.AF_INET6, (0, 0)))
    for family, rest in kinds:
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, *rest))]
    return []


def _tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _head(parts: SplitResult, host: str, extra: Mapping[str, str]) -> bytes:
    """Return the request line and the headers of every request, but for the length."""
    shown = f"[{host}]" if ":" in host else host
    headers = {
        "Host": shown if parts.port is None else f"{shown}:{parts.port}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": "svr-async",
        "Content-Type": "application/json",
    }
    named = {name.lower(): (name, value) for name, value in (headers | dict(extra)).items()}
    path = quote(parts.path, safe=SAFE) + (f"?{quote(parts.query, safe=SAFE)}" if parts.query else "")
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.values())]
    for line in lines:
        if any(ord(c) < ord(" ") and c != "\t" for c in line):
            raise ValueError("a header or the path holds a control character")
    return "".join(f"{line}\r\n" for line in lines).encode()
