"""Which connections are let stand: so many at a time, and none that sends no request at first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

GRACE_S = 0.1
CUT_AFTER_S = 0.05  # a connection is made a moment after its handler is


class Gate:
    """Makes the handler of each connection. One without a whole request in its first `silent_s` seconds is cut."""

    def __init__(self, silent_s: float, most: int) -> None:
        self._silent_s = silent_s
        self._most = most
        self._unheard: dict[RequestHandler, asyncio.TimerHandle] = {}

    def over(self, server: web.Server) -> Callable[[], RequestHandler]:
        """Return what makes a handler for each new connection."""

        def made() -> RequestHandler:
            handler = server()
            room = len(server.connections) < self._most
            self._cut_later(handler, self._silent_s if room else CUT_AFTER_S, self._look_again if room else self._cut)
            return handler

        return made

    def heard(self, request: web.Request) -> None:
        """Let the connection of a request stand."""
        timer = self._unheard.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()

    def _cut_later(self, handler: RequestHandler, wait_s: float, cut: Callable[[RequestHandler], None]) -> None:
        self._unheard[handler] = asyncio.get_running_loop().call_later(wait_s, cut, handler)

    def _look_again(self, handler: RequestHandler) -> None:
        """Give a request that came while this process stood still the time to be read."""
        self._cut_later(handler, GRACE_S, self._cut)

    def _cut(self, handler: RequestHandler) -> None:
        del self._unheard[handler]
        if handler.transport is not None:
            handler.transport.abort()
