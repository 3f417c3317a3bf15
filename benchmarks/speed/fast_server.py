"""A chat-completions endpoint that costs next to nothing: one canned verdict of 2.8 KB, a latency, a rate limit.

    python benchmarks/speed/fast_server.py --core 1 --latency-ms 50

It prints its base URL and serves until it is ended. It reads just enough HTTP to answer clients that we run ourselves:
requests with a Content-Length, one after the other on a connection. With `--rpm` it admits that many calls a minute,
evenly (a burst of `--burst` calls), and turns the others away with 429. GET /counts tells what it has seen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import time

import orjson

RUBRICS = 6
WORDS = (
    "one",
    "response",
    "states",
    "each",
    "step",
    "and",
    "its",
    "reason",
    "while",
    "the",
    "other",
    "leaves",
    "some",
    "out",
)


def verdict() -> str:
    """Return the text of an answer about six rubrics, as a judge writes it: about 2.4 KB."""
    why = [" ".join(WORDS[(number * 5 + place * 3) % len(WORDS)] for place in range(62)) for number in range(RUBRICS)]
    rows = [
        {"id": n + 1, "a": n % 2 == 0, "b": n % 3 == 0, "better": "AB"[n % 2], "why": why[n]} for n in range(RUBRICS)
    ]
    return orjson.dumps({"comparisons": rows}).decode()


def completion() -> bytes:
    """Return the body of the reply."""
    choice = {"index": 0, "message": {"role": "assistant", "content": verdict()}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 720, "completion_tokens": 410, "total_tokens": 1130}
    names = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "system_fingerprint": "fp",
    }
    return orjson.dumps({**names, "choices": [choice], "usage": usage})


def message(status: str, body: bytes, extra: str = "") -> bytes:
    """Return an HTTP reply with the headers that hosted endpoints send."""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"Date: Fri, 20 Nov 2026 12:00:00 GMT\r\nServer: bench\r\nX-Request-Id: req_0123456789\r\n"
        f"Processing-Ms: 12\r\nCache-Control: no-store\r\n{extra}\r\n"
    )
    return head.encode() + body


class Gate:
    """A bucket that fills evenly with `rpm` calls a minute up to `burst`; without a limit it admits all."""

    def __init__(self, rpm: float, burst: float) -> None:
        self.rate = rpm / 60
        self.burst = burst
        self.tokens = burst
        self.at = time.monotonic()

    def wait_s(self) -> float:
        """Take a call's place and return 0, or the seconds until there is one."""
        if not self.rate:
            return 0.0
        now = time.monotonic()
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate


class Endpoint:
    """What all connections share."""

    def __init__(self, latency_s: float, gate: Gate) -> None:
        self.latency_s = latency_s
        self.gate = gate
        self.good = message("200 OK", completion())
        self.calls = self.refused = 0
        self.loop = asyncio.get_running_loop()

    def answer(self, transport: asyncio.Transport, head: bytes) -> None:
        if head.startswith(b"GET"):
            counts = orjson.dumps({"calls": self.calls, "refused": self.refused})
            transport.write(message("200 OK", counts))
            return
        self.calls += 1
        wait_s = self.gate.wait_s()
        if wait_s:
            self.refused += 1
            problem = orjson.dumps({"error": {"message": "too many requests", "code": "rate_limit_exceeded"}})
            extra = f"Retry-After: {math.ceil(wait_s)}\r\nRetry-After-Ms: {math.ceil(1000 * wait_s)}\r\n"
            transport.write(message("429 Too Many Requests", problem, extra))
        elif self.latency_s:
            self.loop.call_later(self.latency_s, self.send, transport)
        else:
            transport.write(self.good)

    def send(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():  # a client that was stopped at its cap has gone
            transport.write(self.good)


class Http(asyncio.Protocol):
    """One connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.held = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's are no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        held = self.held + data if self.held else data
        while (end := held.find(b"\r\n\r\n")) >= 0:
            head = held[:end]
            whole = end + 4 + length(head)
            if len(held) < whole:
                break
            self.endpoint.answer(self.transport, head)
            held = held[whole:]
        self.held = held


def length(head: bytes) -> int:
    """Return the Content-Length of a request; 0 where it has none."""
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def serve(args: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    endpoint = Endpoint(args.latency_ms / 1000, Gate(args.rpm, args.burst))
    server = await loop.create_server(lambda: Http(endpoint), "127.0.0.1", args.port, backlog=8192)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--core", type=int, help="the core to run on")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--rpm", type=float, default=0.0, help="calls a minute; 0: no limit")
    parser.add_argument("--burst", type=float, default=1.0)
    args = parser.parse_args()
    if args.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {args.core})
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(args))


if __name__ == "__main__":
    main()
