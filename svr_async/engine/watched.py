"""Calls and HTTP requests told to a watch: wrapped around the real ones only where somebody watches."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from svr_async.engine.events import Watch
from svr_async.engine.http.transport import CallFailedError, RawReply, Transport

if TYPE_CHECKING:
    from svr_async.engine.money import Price
    from svr_async.engine.reply import Reply
    from svr_async.engine.request import Request


class WatchedTransport:
    """A transport that tells the watch how each HTTP request on it ended, cancelled ones too."""

    def __init__(self, transport: Transport, watch: Watch, lane: str = "") -> None:
        self._transport = transport
        self._watch = watch
        self._lane = lane

    async def send(self, request: Request) -> RawReply:
        """Send one request; CallFailedError when there is no reply."""
        began = time.monotonic()
        try:
            raw = await self._transport.send(request)
        except CallFailedError as error:
            kind, detail = error.failure.signature or error.failure.kind.value, error.failure.detail
            self._watch.attempt(request, self._lane, time.monotonic() - began, error=kind, detail=detail)
            raise
        except BaseException as error:
            self._watch.attempt(request, self._lane, time.monotonic() - began, error=type(error).__name__)
            raise
        self._watch.attempt(request, self._lane, time.monotonic() - began, status=raw.status)
        return raw

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


class WatchedCalls:
    """Calls, each told to the watch when it ends, however it ends."""

    def __init__(self, call: Callable[[Request], Awaitable[Reply]], price: Price | None, watch: Watch) -> None:
        self._call = call
        self._price = price
        self._watch = watch

    async def call(self, request: Request) -> Reply:
        """Send until there is a complete reply, as `call` does."""
        began = time.monotonic()
        try:
            reply = await self._call(request)
        except BaseException as error:
            self._watch.call(request, time.monotonic() - began, error=error)
            raise
        usd = None if self._price is None else self._price.cost(reply.usage)
        self._watch.call(request, time.monotonic() - began, reply=reply, usd=usd)
        return reply
