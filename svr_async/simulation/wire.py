"""How faults look on the wire: resets, cut bodies, bombs, drips, pages that are no API replies."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
import zlib
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING

from svr_async.simulation.faults import Fault, FaultConfig
from svr_async.simulation.refusals import ApiError, retry_after

if TYPE_CHECKING:
    from aiohttp import web

JSON_TYPE = "Content-Type: application/json; charset=utf-8"
CHUNK = b" " * 65_536
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Accept the terms to go on.</p></body></html>"


def error_of(fault: Fault, config: FaultConfig) -> ApiError:
    """Return the error reply of a fault of stage `status` or `final`."""
    in_a_second = formatdate(time.time() + 1, usegmt=True)
    special: dict[str, Callable[[], ApiError]] = {
        "429": lambda: ApiError.rate_limited("requests", retry_after(config.retry_after_s)),
        "429-date": lambda: ApiError.rate_limited("requests", {"Retry-After": in_a_second}),
        "429-bare": lambda: ApiError.rate_limited("requests", {"x-ratelimit-reset-requests": "50ms"}),
        "401": lambda: ApiError.bad_key("revoked"),
        "insufficient-quota": ApiError.no_quota,
        "context-length": lambda: ApiError.too_long(1, 2),
        "307": lambda: ApiError.moved("/sim/elsewhere"),
    }
    usual = ApiError.server(fault.status, f"The server had an error ({fault.name}).")
    return special.get(fault.name, lambda: usual)()


def reset(transport: asyncio.Transport) -> None:
    """Close a connection with RST: the other side sees "connection reset by peer"."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def strike(fault: Fault, config: FaultConfig, request: web.Request, body: bytes) -> None:
    """Carry a fault of stage `wire` out on the connection of a request; `body` is the right answer."""
    transport = request.transport
    if transport is None:
        return
    match fault.name:
        case "reset":
            reset(transport)
        case "hang":
            await asyncio.sleep(config.hang_s)
            transport.abort()
        case "huge":
            await _flood(transport, config.huge_bytes)
        case "slow-drip":
            await _drip(transport, _with_length(body), body, config.drip_s)
        case _:
            transport.write(await _damaged(fault, config, body))
            await asyncio.sleep(0.002)  # let the bytes leave before an RST may overtake them
            if fault.name == "reset-mid":
                reset(transport)
            transport.close()


async def _damaged(fault: Fault, config: FaultConfig, body: bytes) -> bytes:
    """Return the bytes of a reply with the fault in it, head included."""
    if fault.name == "gzip-bomb":
        bomb = await asyncio.to_thread(_bomb, config.bomb_bytes)
        return _head(JSON_TYPE, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}") + bomb
    whole, half = _with_length(body), body[: len(body) // 2]
    broken = body.replace(b'"choices"', b'"choi\xff\xfeces"', 1).replace(b'"answers"', b'"ans\xff\xfewers"', 1)
    broken = broken.replace(b'"stop_reason"', b'"stop_\xff\xfereason"', 1).replace(b'"data"', b'"da\xff\xfeta"', 1)
    return {
        "garbage": b"\x16\x03\x01 this is no HTTP at all\r\n\r\n",
        "big-headers": _head(JSON_TYPE, f"Content-Length: {len(body)}", "X-Debug: " + "x" * 20_000) + body,
        "reset-mid": whole + half,
        "truncated": whole + half,
        "close-cut": _head(JSON_TYPE) + half,
        "bad-gzip": _head(JSON_TYPE, "Content-Encoding: gzip", f"Content-Length: {len(body)}") + body,
        "bad-utf8": _with_length(broken) + broken,
    }[fault.name]


def _head(*headers: str) -> bytes:
    """Return the head of a 200 that ends with its connection."""
    return "\r\n".join(["HTTP/1.1 200 OK", *headers, "Connection: close", "", ""]).encode()


def _with_length(body: bytes) -> bytes:
    return _head(JSON_TYPE, f"Content-Length: {len(body)}")


async def _flood(transport: asyncio.Transport, n_bytes: int) -> None:
    """Send a JSON object with so many bytes of blanks, no faster than the client takes them."""
    transport.set_write_buffer_limits(high=4 * len(CHUNK))
    transport.write(_head(JSON_TYPE, f"Content-Length: {n_bytes}") + b"{")
    sent = 1
    while sent < n_bytes and not transport.is_closing():
        if transport.get_write_buffer_size() > 2 * len(CHUNK):
            await asyncio.sleep(0.001)
            continue
        piece = CHUNK[: n_bytes - sent]
        transport.write(piece)
        sent += len(piece)
    transport.close()


async def _drip(transport: asyncio.Transport, head: bytes, body: bytes, pause_s: float) -> None:
    transport.write(head)
    for place in range(len(body)):
        if transport.is_closing():
            return
        transport.write(body[place : place + 1])
        await asyncio.sleep(pause_s)
    transport.close()


@lru_cache(maxsize=2)
def _bomb(n_bytes: int) -> bytes:
    """Return a small gzip stream that unpacks to so many blanks."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    pieces = [packer.compress(CHUNK) for _ in range(-(-n_bytes // len(CHUNK)))]
    return b"".join([*pieces, packer.flush()])
