"""The transport over HTTP: one of two clients that keep the same promises."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol

from svr_async.engine.http.extras import NO_EXTRAS, Extras
from svr_async.engine.http.proxies import proxy_for
from svr_async.engine.http.transport import RawReply, Transport
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret
from svr_async.engine.wires.contract import Wire
from svr_async.engine.wires.openai import WIRE as OPENAI
from svr_async.errors import UsageError

CLIENTS = ("lean", "aiohttp")


class _Client(Transport, Protocol):
    @property
    def opened(self) -> bool:
        """Whether a connection was ever asked for."""


class HttpTransport:
    """The wire's path below a base URL by one of two clients, which keep the same promises and pass the same tests.

    `lean` is our own, at a fraction of the cost; it knows no proxies and does not run on Windows. `aiohttp` is taken
    there, and where the environment names a proxy for the endpoint. SVR_HTTP, or the caller, says otherwise: `lean`
    then asks the endpoint directly.
    """

    def __init__(
        self,
        base_url: str,
        key: Secret,
        *,
        timeout_s: float = 600.0,
        headers: Mapping[str, str] = {},
        client: str | None = None,
        wire: Wire = OPENAI,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.client = client or os.environ.get("SVR_HTTP") or _suitable(base_url)
        self._limits = wire.limits
        make = _client_class(self.client)
        self._client: _Client = make(base_url, key, timeout_s=timeout_s, headers=headers, wire=wire, extras=extras)

    @property
    def opened(self) -> bool:
        """Whether a connection was ever asked for."""
        return self._client.opened

    def send(self, request: Request) -> Coroutine[Any, Any, RawReply]:
        """Post the request and read the reply, whatever its status."""
        sent = self._client.send(request)
        return sent if self._limits is None else _with_headers(sent, self._limits)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


async def _with_headers(
    sent: Coroutine[Any, Any, RawReply], named: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> RawReply:
    raw = await sent
    return replace(raw, headers=named(raw.headers))


def _suitable(base_url: str) -> str:
    return "aiohttp" if sys.platform == "win32" or proxy_for(base_url) else "lean"


def _client_class(name: str) -> type:
    if name == "lean":
        from svr_async.engine.http.lean import LeanTransport

        return LeanTransport
    if name == "aiohttp":
        from svr_async.engine.http.on_aiohttp import AiohttpTransport

        return AiohttpTransport
    raise UsageError(f"SVR_HTTP={name!r} is no HTTP client", hint=f"one of {', '.join(CLIENTS)}")
