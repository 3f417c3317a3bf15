"""A chat-completions endpoint that costs very little: one fixed reply, an optional latency, rate limit and TLS.

    python benchmarks/speed/fast_server.py --core 1 --latency-ms 50 --reply json

It prints its base URL and serves until it is ended. It reads only the HTTP that our own clients send: requests with a
Content-Length, one at a time on a connection. No reply repeats anything of its request. With `--rpm` it admits that
many calls a minute and answers the others with 429. GET tells its counts since the previous GET.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import ssl
import time

import orjson

RUBRICS = 6
FIRST_CALLS = 1000  # connections are counted up to this call
WORDS = ("one", "response", "states", "each", "step", "and", "a", "reason", "the", "other", "leaves", "some", "out")
VERDICT = "Candidate A does what the prompt asks, step by step. Candidate B leaves a step out.\n\n[[A]]"


def rubric_verdicts(words: int = 8) -> str:
    """Return verdicts on six rubrics as JSON, each with a reason of `words` words."""
    rows = [
        {
            "id": n + 1,
            "a": n % 2 == 0,
            "b": n % 3 == 0,
            "better": "AB"[n % 2],
            "why": " ".join(WORDS[(n * 5 + place * 3) % len(WORDS)] for place in range(words)),
        }
        for n in range(RUBRICS)
    ]
    return orjson.dumps({"comparisons": rows}).decode()


def reply_text(kind: str) -> str:
    """Return what the judge writes: "short" and "json" for the engine alone, "direct" for `svr eval`."""
    return {"short": '{"winner":"A","reason":"A names each step."}', "direct": VERDICT}.get(kind) or rubric_verdicts()


def completion(kind: str) -> bytes:
    """Return the body of the reply."""
    text = reply_text(kind)
    used = len(text) // 4
    reply = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "system_fingerprint": "fp",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 720, "completion_tokens": used, "total_tokens": 720 + used},
    }
    return orjson.dumps(reply)


def message(status: str, body: bytes, extra: str = "") -> bytes:
    """Return an HTTP reply with the headers that hosted endpoints send."""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"Date: Fri, 20 Nov 2026 12:00:00 GMT\r\nServer: bench\r\nX-Request-Id: req_0123456789\r\n"
        f"Processing-Ms: 12\r\nCache-Control: no-store\r\n{extra}\r\n"
    )
    return head.encode() + body


class Gate:
    """A token bucket that fills evenly with `rpm` calls a minute up to `burst`; with an rpm of 0 it admits all."""

    def __init__(self, rpm: float, burst: float) -> None:
        self.rate = rpm / 60
        self.burst = burst
        self.tokens = burst
        self.at = time.monotonic()

    def wait_s(self) -> float:
        """Admit a call and return 0, or return the seconds until it can be admitted."""
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
    """What all connections share. `early` is the number of connections accepted for the first 1,000 calls."""

    def __init__(self, latency_s: float, gate: Gate, reply: str = "short") -> None:
        self.latency_s = latency_s
        self.gate = gate
        self.good = message("200 OK", completion(reply))
        self.calls = self.refused = self.connections = self.early = 0
        self.loop = asyncio.get_running_loop()

    def answer(self, transport: asyncio.Transport, head: bytes) -> None:
        if head.startswith(b"GET"):
            self.report(transport)
            return
        self.calls += 1
        if self.calls <= FIRST_CALLS:
            self.early = self.connections
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
        if not transport.is_closing():  # the client may have stopped at its time limit
            transport.write(self.good)

    def report(self, transport: asyncio.Transport) -> None:
        """Send the counts and begin new ones; the connection that asks for them is not counted."""
        counts = {"calls": self.calls, "refused": self.refused, "connections": self.early}
        transport.write(message("200 OK", orjson.dumps(counts)))
        self.calls = self.refused = self.connections = self.early = 0


class Http(asyncio.Protocol):
    """One connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.held = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # those of uvloop are not asyncio.Transport
        self.endpoint.connections += 1

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
    """Return the Content-Length of a request; 0 if it is missing."""
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def serve(args: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    endpoint = Endpoint(args.latency_ms / 1000, Gate(args.rpm, args.burst), args.reply)
    tls = None
    if args.tls:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(args.tls)
    server = await loop.create_server(lambda: Http(endpoint), "127.0.0.1", args.port, backlog=8192, ssl=tls)
    print(f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--core", type=int, help="the core to run on")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--reply", choices=("short", "json", "direct"), default="short")
    parser.add_argument("--tls", help="a PEM file with a key and its certificate")
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
