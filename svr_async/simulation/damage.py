"""How faults damage replies: on the wire, or in their content."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from aiohttp import web

from svr_async.core.verdict import Verdict
from svr_async.simulation.brain import Composed
from svr_async.simulation.faults import Fault, FaultConfig
from svr_async.simulation.refusals import ApiError, retry_after
from svr_async.simulation.world import draw_bytes, uniform

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


ROW_KEYS = ("rubric_comparisons", "rubric_scores")

Told = tuple[str, float | None]
"""The name of a statement, and its probability or None for a refusal."""


def corrupt(composed: Composed, fault: Fault, drawn: bytes) -> tuple[str, str]:
    """Return the damaged content and the finish reason, "" for the usual one."""
    if fault.name in ("missing-rubrics", "duplicate-ids", "unknown-ids"):
        return Composed(composed.prose, _with_rows(composed, fault.name, drawn)).text, ""
    own, whole = Composed("", composed.payload).text, composed.text
    return {
        "broken-json": (composed.prose + _broken(own, drawn), ""),
        "cut-json": (composed.prose + own[: max(1, int(len(own) * (0.3 + 0.6 * uniform(drawn, 2))))], ""),
        "prose": (f"Let me think about {{this}} first.\n```json\n{whole}\n```\nI hope that helps!", ""),
        "empty-content": ("", ""),
        "length": (whole[: len(whole) // 2], "length"),
        "refusal": ("", "content_filter"),
    }[fault.name]


def damaged_chances(chances: Mapping[str, float], fault: Fault | None, drawn: bytes) -> tuple[Told, ...]:
    """Return what a content fault leaves of the answers to statements, by name.

    None is a refusal. What is left out, told twice with two values or named otherwise leaves the other answers honest.
    """
    told: list[Told] = list(chances.items())
    name = "" if fault is None else fault.name
    if name == "refusal":
        return tuple(dict.fromkeys(chances).items())
    if name in ("missing-rubrics", "duplicate-ids", "unknown-ids") and told:
        return tuple(_retold(told, name, drawn))
    kept = {"empty-content": 0, "length": len(told) // 2}.get(name, len(told))
    return tuple(told[:kept])


def _retold(told: list[Told], kind: str, drawn: bytes) -> list[Told]:
    """Drop one answer, or contradict one ahead of it, or name one otherwise and add a stranger."""
    victim = int(uniform(drawn, 3) * len(told))
    name, chance = told[victim]
    before, after = told[:victim], told[victim + 1 :]
    if kind == "missing-rubrics":
        return before + after
    if kind == "duplicate-ids":
        return [(name, 1 - (chance or 0.0)), *told]
    return [("q999", 0.5), *before, (f"{name}-x", chance), *after]


def _broken(text: str, drawn: bytes) -> str:
    """Return the JSON with one of four defects that models are prone to; nothing of its content is lost."""
    defects = (
        text[:-1],
        text[:-1] + ",}",
        text.replace('"', "'") if "'" not in text else text[:-1],
        text.replace('","', '" "', 1),
    )
    return defects[int(uniform(drawn, 2) * len(defects))]


def _with_rows(composed: Composed, kind: str, drawn: bytes) -> dict[str, Any]:
    payload = dict(composed.payload or {})
    for key in ROW_KEYS:
        if payload.get(key):
            payload[key] = _changed(payload[key], kind, drawn)
    return payload


def _changed(rows: list[dict[str, Any]], kind: str, drawn: bytes) -> list[dict[str, Any]]:
    """Drop some rows, or repeat two (one of them contradicting itself), or rename one and add a stranger."""
    victim = int(uniform(drawn, 3) * len(rows))
    if kind == "missing-rubrics":
        kept = [row for place, row in enumerate(rows) if uniform(draw_bytes(drawn, place)) >= 0.4]
        return kept if len(kept) < len(rows) else rows[:victim] + rows[victim + 1 :]
    if kind == "duplicate-ids":
        return [*rows, rows[victim - 1], _contradicted(rows[victim])]
    renamed = dict(rows[victim], rubric_id=f"{rows[victim]['rubric_id']}-x")
    return [*rows[:victim], renamed, *rows[victim + 1 :], dict(rows[victim], rubric_id="R999")]


def _contradicted(row: dict[str, Any]) -> dict[str, Any]:
    if "score" in row:
        return dict(row, score=1.0 - row["score"])
    flipped = {"A": "B", "B": "A"}[row["better"]]
    a = Verdict.FAIL if row["candidate_a_verdict"] == Verdict.PASS else Verdict.PASS
    return dict(row, candidate_a_verdict=a.value, better=flipped)


def odd(reply: dict[str, Any], fault: Fault, drawn: bytes) -> dict[str, Any]:
    """Return a right answer with a wrong model name or absurd usage."""
    if fault.name == "wrong-model":
        return reply | {"model": f"{reply['model']}-preview"}
    usages: tuple[Any, ...] = (None, {}, {"prompt_tokens": -5, "completion_tokens": -1}, {"prompt_tokens": "many"})
    return reply | {"usage": usages[int(uniform(drawn, 2) * len(usages))]}
