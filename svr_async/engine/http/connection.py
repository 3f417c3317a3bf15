"""One HTTP/1.1 connection that carries one POST at a time; httptools (llhttp, Node's parser) reads the replies.

Bytes are received into a buffer that all connections share: the event loop fills it and has it read before it turns to
anything else, so that a thousand connections hold no memory of their own and no read allocates any.
"""

from __future__ import annotations

import asyncio
import select
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import httptools

from svr_async.engine.http.transport import MAX_BODY_BYTES, CallFailedError, RawReply, broken, stale, too_large
from svr_async.engine.request import Request

READ_BYTES = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024
MAX_WIRE_BYTES = 2 * MAX_BODY_BYTES  # of a reply, chunk heads and trailers included
MOST_PARTS = 1024  # of a body that are held one by one: a chunk of two bytes takes thirty times its length
MAX_HEADER_BYTES = 8190  # one header, as aiohttp has it
GZIP = b"\x1f\x8b"  # how a member begins
MOST_ASKED = 16  # questions that a connection remembers


class ReplyHeaders(Mapping[str, str]):
    """Headers as they came, made a dictionary of lower-case names only when somebody asks."""

    __slots__ = ("_found", "_raw")

    def __init__(self, raw: dict[bytes, bytes]) -> None:
        self._raw = raw
        self._found: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._read()[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, str]:
        if self._found is None:
            named = ((name.decode("latin-1").lower(), value) for name, value in self._raw.items())
            self._found = {name: value.decode("utf-8", "replace") for name, value in named}
        return self._found


class Connection(asyncio.BufferedProtocol):
    """Sends one request at a time; `reusable` says whether another may follow.

    `asked` are signature and key of what was asked on it last, `strange` that bytes came which nothing had asked for.
    """

    __slots__ = (
        "_blocks", "_buffer", "_complete", "_early", "_found", "_head_bytes", "_head_read", "_headers", "_keep",
        "_loop", "_parser", "_parts", "_poll", "_reply_bytes", "_served", "_status", "_surplus", "_transport",
        "_waiter", "_wire_bytes", "asked", "idle_since", "lost", "on_header", "reusable", "strange",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, buffer: memoryview) -> None:
        self._loop = loop
        self._buffer = buffer
        self._found: dict[bytes, bytes] = {}
        self.on_header = self._found.__setitem__  # the parser calls it for each header: no Python of ours in between
        self._parser = httptools.HttpResponseParser(self)
        self._transport: Any = None
        self._waiter: asyncio.Future[RawReply] | None = None
        self.lost: asyncio.Future[None] = loop.create_future()
        self.reusable = self.strange = False
        self.asked: deque[tuple[str, bytes]] = deque(maxlen=MOST_ASKED)
        self.idle_since = 0.0
        self._served = 0
        self._forget()

    # --- for the client -----------------------------------------------------------------------------------------------

    def post(self, data: bytes) -> asyncio.Future[RawReply]:
        """Send a whole request; the future gives the reply or a CallFailedError."""
        self._found.clear()
        self._status = self._head_bytes = self._reply_bytes = self._wire_bytes = 0
        self._head_read = self._complete = self._surplus = self._keep = self._early = False
        self._waiter = waiter = self._loop.create_future()
        self._transport.write(data)
        return waiter

    def asked_beside(self, request: Request) -> bool:
        """Whether it was asked another question of the same signature, whose reply would pass for this one's."""
        return any(signature == request.signature and key != request.key for signature, key in self.asked)

    def silent(self) -> bool:
        """Whether nothing has arrived that was not read: bytes of no request of ours, or the end of the stream."""
        return not self._poll.poll(0)

    def fail(self, error: CallFailedError) -> None:
        """End the exchange under way with an error, and the connection with it."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.abort()

    def abort(self) -> None:
        """Close at once: whatever may still come is not wanted."""
        self.reusable = False
        self._waiter = None
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    # --- for the event loop -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self.reusable = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (asyncio names it)
        """Give the buffer that all connections share."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Read what has arrived."""
        if self._waiter is None:
            self.strange = True  # bytes without a request
            self.abort()
            return
        if not self._wire_bytes:
            self._early = self._transport.get_write_buffer_size() > 0
        self._wire_bytes += nbytes
        if self._wire_bytes > MAX_WIRE_BYTES:
            self.fail(too_large())
            return
        if not self._head_read:
            self._head_bytes += nbytes
            if self._head_bytes > MAX_HEAD_BYTES + READ_BYTES:
                self.fail(broken("HeadersTooLarge", "the reply's headers have no end"))
                return
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._surplus = True
            if not self._complete:
                self.fail(broken(type(error).__name__, f"not HTTP: {error}"))
                return
        if self._complete and self._waiter is not None:
            self._finish(self._waiter)

    def eof_received(self) -> None:
        """Take the end of the stream for the end of a reply that names no length."""
        self.reusable = False
        if self._waiter is not None and self._head_read and not self._framed():
            self._finish(self._waiter)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the exchange under way, if there is one."""
        self.reusable = False
        if not self.lost.done():
            self.lost.set_result(None)
        if self._waiter is not None:
            name = type(exc).__name__ if exc else "ServerDisconnected"
            where = "in the middle of the reply" if self._head_bytes else "before a reply"
            unused = self.idle_since and not self._head_bytes  # it has served before: it was closed while it was idle
            self.fail(stale(name) if unused else broken(name, f"closed {where} {exc or ''}"))

    # --- for the parser -----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Note that something follows a complete reply."""
        self._surplus = self._surplus or self._complete

    def on_headers_complete(self) -> None:
        """Note the status; interim replies (1xx) are passed over."""
        if self._complete:
            return
        self._status = self._parser.get_status_code()
        self._head_read = self._status >= 200
        self._headers = self._found.copy()  # what follows the body is no header
        if self._head_bytes > MAX_HEADER_BYTES:
            longest = max((len(name) + len(value) for name, value in self._found.items()), default=0)
            if longest > MAX_HEADER_BYTES:
                self.fail(broken("HeaderTooLarge", f"a header of {longest} bytes"))

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body, up to the cap."""
        if self._complete or self._waiter is None:
            return
        self._reply_bytes += len(body)
        if self._reply_bytes > MAX_BODY_BYTES:
            self.fail(too_large())
            return
        if len(self._parts) == MOST_PARTS:
            self._blocks.append(b"".join(self._parts))
            self._parts.clear()
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """Note that the reply is whole."""
        if self._complete:
            return
        if self._head_read:
            self._complete = True
            self._keep = self._parser.should_keep_alive()  # the parser forgets it after this call
        self._head_bytes = 0  # of an interim reply: each has a head of its own
        self._found.clear()

    # --- the reply ----------------------------------------------------------------------------------------------------

    def _framed(self) -> bool:
        return any(name.lower() in {b"content-length", b"transfer-encoding"} for name in self._headers)

    def _forget(self) -> None:
        """Hold no part of a body: a closed connection may live on for a while in the frames of an error."""
        self._parts: list[bytes] = []
        self._blocks: list[bytes] = []

    def _finish(self, waiter: asyncio.Future[RawReply]) -> None:
        self.strange = self.strange or self._early or self._surplus
        doubt = self._doubt()
        if doubt is not None:
            self.fail(doubt)
            return
        parts = [*self._blocks, *self._parts] if self._blocks else self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        coding = self._headers.get(b"Content-Encoding") or self._headers.get(b"content-encoding")
        if coding or body[:1] != b"{":
            try:
                body = unpacked(body, ReplyHeaders(self._headers).get("content-encoding", ""))
            except CallFailedError as error:
                self.fail(error)
                return
        self._waiter = None
        self._served += 1
        self._forget()
        if self._early or self._surplus or not self._keep:
            self.reusable = False
        if not waiter.done():
            waiter.set_result(RawReply(status=self._status, headers=ReplyHeaders(self._headers), body=body))

    def _doubt(self) -> CallFailedError | None:
        """Say why an answer may be to another question: it began before this one was out, or more than it came.

        What more comes on a connection's first reply can be to nothing else that was asked on it.
        """
        if self._status >= HTTPStatus.MULTIPLE_CHOICES:
            return None
        if self._early or self._transport.get_write_buffer_size() > 0:
            return broken("EarlyReply", "the reply came before the request was sent")
        if self._surplus and self._served:
            return broken("SurplusReply", "more came than one reply, so that it is not known which is the right one")
        return None


def unpacked(body: bytes, coding: str) -> bytes:
    """Return a body without its content coding; CallFailedError where it is broken, unknown, or unpacks to too much."""
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return body
    if coding not in {"gzip", "x-gzip", "deflate"}:
        raise broken("ContentEncoding", "a content coding that was not asked for")
    bare = coding == "deflate" and body[:1] and body[0] & 0x0F != zlib.DEFLATED
    data, rest = _inflated(body, -zlib.MAX_WBITS if bare else 32 + zlib.MAX_WBITS, MAX_BODY_BYTES)
    while rest.startswith(GZIP):  # a gzip stream may have several members
        more, rest = _inflated(rest, 32 + zlib.MAX_WBITS, MAX_BODY_BYTES - len(data))
        data += more
    return data


def _inflated(body: bytes, window: int, most: int) -> tuple[bytes, bytes]:
    """Return one stream unpacked and what follows it; CallFailedError where it is broken or larger than `most`."""
    inflater = zlib.decompressobj(window)
    try:
        data = inflater.decompress(body, most + 1)
    except zlib.error as error:
        raise broken("ContentEncoding", f"cannot be unpacked: {error}") from None
    if len(data) > most:
        raise too_large(packed=True)
    if not inflater.eof:
        raise broken("ContentEncoding", "the compressed body was cut off")
    return data, inflater.unused_data
