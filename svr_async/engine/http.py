"""The HTTP client: one aiohttp session per endpoint, with failures classified.

Connections are reused, redirects are not followed, and the size of a reply is capped. Proxies come from HTTP_PROXY,
HTTPS_PROXY and NO_PROXY.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass
from weakref import WeakSet

import aiohttp
import orjson
from yarl import URL

from svr_async.core.files import LOOPBACK, is_server
from svr_async.engine.classify import Failure, Kind
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret, Secrets
from svr_async.engine.transport import CallFailedError, RawReply
from svr_async.engine.wires import Wire
from svr_async.engine.wires.openai import WIRE as OPENAI
from svr_async.errors import AuthError, RefusedError, UsageError, system_words

if TYPE_CHECKING:
    from aiohttp.connector import Connection

MAX_BODY_BYTES = 8 * 2**20
KEEPALIVE_S = 4.0  # common servers close idle connections after 5 s; ours close first
CONNECT_TIMEOUT_S = 10.0
NO_CACHE = {"Cache-Control": "no-cache"}
CLOSED_ERRORS = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_reused: ContextVar[bool] = ContextVar("reused", default=False)  # whether this task's request is on a used connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What a profile adds to requests: another path, another header for the key, headers, query parameters.

    `secrets` are the values of `headers` and `query` that are masked like keys.
    """

    path: str = ""
    key_header: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[Secret, ...] = ()

    def with_query(self, url: str) -> str:
        """Return a URL with the query parameters."""
        pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query.items())
        return f"{url}?{pairs}" if pairs else url

    def head(self, wire: Wire, key: Secret) -> dict[str, str]:
        """Return the headers of a request: the key as the wire or the profile spells it, then the profile's own."""
        if self.key_header and key:
            return {**wire.headers(""), self.key_header: key.reveal(), **self.headers}
        return {**wire.headers(key.reveal()), **self.headers}

    def hidden(self, key: Secret) -> Secrets:
        """Return what masks the key and the other secrets."""
        return Secrets((key, *self.secrets))


NO_EXTRAS = Extras()


class HttpTransport:
    """Posts to the wire's path below a base URL, over one session. The engine bounds the concurrency."""

    def __init__(
        self,
        base_url: str,
        key: Secret,
        *,
        timeout_s: float = 600.0,
        wire: Wire = OPENAI,
        extras: Extras = NO_EXTRAS,
        keyless: bool = False,
    ) -> None:
        self._keyless = keyless  # the endpoint needs a key, which is not set: nothing is sent
        self._url = URL(extras.with_query(f"{base_url}{extras.path or wire.path}"), encoded=True)
        self._models_url = URL(extras.with_query(f"{base_url}/models"), encoded=True)
        self._proxy = proxy_for(base_url)
        self._hidden = extras.hidden(key)
        self._timeout_s = timeout_s
        self._limits = wire.limits
        self._headers = {"Content-Type": "application/json", "User-Agent": "svr-async"} | extras.head(wire, key)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> RawReply:
        """Post the request and read the reply, whatever its status.

        A request on a connection that the server had closed while it was idle is sent again once.
        """
        if self._keyless:
            raise CallFailedError(
                _final(f"no API key for {self._url.host}", "set the variable with the key", AuthError)
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._post(request)
                except CLOSED_ERRORS:
                    if not _reused.get() or self._session is None:  # a fresh connection, or this transport was closed
                        raise
                return await self._post(request)
        except aiohttp.ConnectionTimeoutError:
            detail = f"cannot connect to {self._url.host}:{self._url.port} within {CONNECT_TIMEOUT_S:g} s"
            raise _failed(detail, "no connection", False) from None
        except TimeoutError:
            raise _failed(f"no complete reply within {self._timeout_s:g} s", "timeout") from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            failure = classify_exception(error, self._url)
            raise CallFailedError(replace(failure, detail=self._hidden.mask(failure.detail))) from error

    async def model_names(self) -> list[str]:
        """Return the models that the endpoint lists, possibly empty."""
        self._session = self._session or self._open()
        with suppress(aiohttp.ClientError, OSError, ValueError, KeyError, TypeError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                async with self._session.get(self._models_url, allow_redirects=False) as response:
                    listed = orjson.loads(await _read_capped(response))["data"]
                    return [str(model["id"]) for model in listed]
        return []

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, request: Request) -> RawReply:
        if self._session is None:
            self._session = self._open()
        _reused.set(False)
        headers = NO_CACHE if request.no_cache else None
        async with self._session.post(
            self._url, data=request.body_bytes, headers=headers, allow_redirects=False
        ) as response:
            body = self._hidden.mask_bytes(await _read_capped(response))
            named: Mapping[str, str] = response.headers
            if self._limits is not None:
                named = self._limits(named)
            return RawReply(status=response.status, headers=named, body=body)

    def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=0, ttl_dns_cache=60, keepalive_timeout=KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            headers=self._headers,
            proxy=self._proxy,
            trust_env=False,  # True would also send passwords from .netrc
            cookie_jar=aiohttp.DummyCookieJar(),
        )


class _Connector(aiohttp.TCPConnector):
    """Notes whether a connection was used before, and closes an idle one that has unread bytes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._used: WeakSet[Any] = WeakSet()

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        """Return a connection without unread bytes."""
        while True:
            connection = await super().connect(*args, **kwargs)
            protocol = connection.protocol
            reused = protocol in self._used
            if not (reused and protocol is not None and protocol.should_close):
                break
            connection.close()
        _reused.set(reused)
        if not reused:
            self._used.add(protocol)
        return connection


async def _read_capped(response: aiohttp.ClientResponse) -> bytes:
    if (response.content_length or MAX_BODY_BYTES) < MAX_BODY_BYTES and "Content-Encoding" not in response.headers:
        return await response.read()  # cheaper than reading part by part
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _failed(f"the reply is larger than {MAX_BODY_BYTES // 2**20} MiB", "too large")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def proxy_for(url: str) -> str | None:
    """Return the proxy for an endpoint; None for loopback, for hosts in NO_PROXY, and if no proxy is set.

    UsageError if the variable is not the address of an HTTP proxy. Its value is not shown: it may hold a password.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    named = getproxies_environment().get(parts.scheme, "")
    if not named or host in LOOPBACK or proxy_bypass(host):
        return None
    proxy = named if "://" in named else f"http://{named}"
    if not is_server(proxy):
        hint = "write http://HOST:PORT, or add the endpoint to NO_PROXY"
        raise UsageError(f"{parts.scheme.upper()}_PROXY is not the address of an HTTP proxy", hint=hint)
    return proxy


def classify_exception(error: Exception, url: URL) -> Failure:
    """Classify an exception of aiohttp: a wrong address or certificate ends the run, the rest is retried."""
    name = type(error).__name__
    where = f"{url.host}:{url.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        hint = "use the host name that the certificate is for, or add its authority to SSL_CERT_FILE"
        return _final(f"the certificate of {where} is not accepted: {error}", hint)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        detail = f"the proxy opens no connection to {where}: HTTP {error.status}"
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return _final(detail, "check HTTPS_PROXY, or add the endpoint to NO_PROXY")
        return _failed(detail, "proxy", False).failure
    unknown = isinstance(error, aiohttp.ClientConnectorDNSError) and error.os_error.errno == socket.EAI_NONAME
    if unknown or isinstance(error, aiohttp.InvalidURL):
        hint = "check the network and the judge's address, or judge offline with --judge rules"
        return _final(f"unknown host {url.host!r}", hint)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _failed(f"cannot connect to {where}: {system_words(error.os_error)}", name, False).failure
    return _failed(f"the connection to {where} failed: {name} {error}".strip(), name).failure


def _final(detail: str, hint: str, error: type[RefusedError] = RefusedError) -> Failure:
    return Failure(kind=Kind.RUN, error=error, detail=detail, hint=hint)


def _failed(detail: str, signature: str, billed: bool = True) -> CallFailedError:
    return CallFailedError(Failure(kind=Kind.TRANSIENT, detail=detail, billed=billed, signature=signature))
