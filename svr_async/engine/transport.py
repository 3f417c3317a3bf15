"""Transports: what the engine sends requests through. `http.py` and `ray.py` are the two kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from svr_async.engine.classify import Failure

if TYPE_CHECKING:
    from svr_async.engine.request import Request


class RawReply(msgspec.Struct, frozen=True, kw_only=True):
    """Status, headers (look them up in lower case) and decompressed body of one HTTP reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class FailureError(Exception):
    """Carries a classified failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class CallFailedError(FailureError):
    """A request without an HTTP reply, or with one that is too large."""


class Transport(Protocol):
    """What the engine sends requests through."""

    async def send(self, request: Request) -> RawReply:
        """Send one request; CallFailedError without a reply."""

    async def close(self) -> None:
        """Close all connections."""
