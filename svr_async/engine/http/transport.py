"""What a transport is: one POST, capped in size and time, whose failures come back classified."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from svr_async.engine.classify import STALE, Billed, Failure, Kind
from svr_async.engine.request import Request
from svr_async.errors import RefusedError

MAX_BODY_BYTES = 8 * 1024 * 1024
KEEPALIVE_S = 4.0  # below the 5 s of common servers, so that they never close a connection that we are about to use
CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """Status, headers (ask for them in lower case) and decompressed body of one HTTP reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class FailureError(Exception):
    """Carries a classified failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class CallFailedError(FailureError):
    """A call that gave no HTTP reply, or one too large to read."""


class Transport(Protocol):
    """What the engine sends requests through."""

    async def send(self, request: Request) -> RawReply:
        """Send one request; CallFailedError when there is no reply."""

    async def close(self) -> None:
        """Close all connections."""


# --- failures ---------------------------------------------------------------------------------------------------------


def cannot_connect(name: str, text: str) -> CallFailedError:
    """No connection, so nothing was sent."""
    return _failed(f"cannot connect: {text}", name, Billed.NO)


def no_such_host(host: str) -> CallFailedError:
    """A name that does not exist: this ends the run."""
    detail = f"there is no host {host!r}"
    return CallFailedError(Failure(kind=Kind.RUN, error=RefusedError, detail=detail, hint="check the judge's address"))


def broken(name: str, text: str) -> CallFailedError:
    """A connection that failed, or a reply that is no HTTP: the call may have been billed."""
    return _failed(f"the connection failed: {name} {text}".strip(), name, Billed.UNKNOWN)


def stale(name: str) -> CallFailedError:
    """A kept-alive connection that was closed before a byte of the reply: a fresh one will do."""
    return _failed(f"the connection failed: {name}, it had been kept open too long", STALE, Billed.UNKNOWN)


def timed_out(seconds: float) -> CallFailedError:
    """No complete reply in time."""
    return _failed(f"no complete reply within {seconds:g} s", "timeout", Billed.UNKNOWN)


def too_large(*, packed: bool = False) -> CallFailedError:
    """A body over the cap, as it is or only when it is unpacked."""
    signature = "unpacks to too much" if packed else "too large"
    return _failed(f"the reply is larger than {MAX_BODY_BYTES // 2**20} MiB", signature, Billed.UNKNOWN)


def bad_certificate(error: Exception) -> CallFailedError:
    """A certificate that is not accepted: this ends the run."""
    failure = Failure(
        kind=Kind.RUN,
        error=RefusedError,
        detail=f"the endpoint's certificate is not accepted: {error}",
        hint="mend the certificate, or use the host name that it is for",
    )
    return CallFailedError(failure)


def refused_by_proxy(status: int) -> CallFailedError:
    """A proxy that opens no way to the endpoint: this ends the run where another try would get the same answer."""
    detail = f"the proxy opens no connection: HTTP {status}"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _failed(detail, "proxy", Billed.NO)
    hint = "check HTTPS_PROXY, or name the endpoint in NO_PROXY"
    return CallFailedError(Failure(kind=Kind.RUN, error=RefusedError, detail=detail, hint=hint))


def bad_url(error: Exception) -> CallFailedError:
    """An address that is none: this ends the run."""
    return CallFailedError(
        Failure(kind=Kind.RUN, error=RefusedError, detail=f"not a URL: {error}", hint="check the judge's address")
    )


def _failed(detail: str, signature: str, billed: Billed) -> CallFailedError:
    return CallFailedError(Failure(kind=Kind.TRANSIENT, detail=detail, billed=billed, signature=signature))


def classify_exception(error: Exception) -> Failure:
    """Classify an exception of aiohttp: certificates end the run, everything else is tried again."""
    import aiohttp

    name = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return bad_certificate(error).failure
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return refused_by_proxy(error.status).failure
    if isinstance(error, aiohttp.InvalidURL):
        return bad_url(error).failure
    if isinstance(error, aiohttp.ClientConnectorDNSError) and error.os_error.errno == socket.EAI_NONAME:
        return no_such_host(error.host).failure
    if isinstance(error, aiohttp.ClientConnectorError):
        return cannot_connect(name, str(error.strerror or error)).failure
    return broken(name, str(error)).failure
