"""Our whole engine: cache miss, call, parse, durable put, counts; then the same questions again, which are cache hits.

`--way aiohttp` takes the engine's other HTTP client, `--way uvloop` the other event loop.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from calls import KEY, Meter, bodies, check, emit, loop_factory, options

from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.http import HttpTransport
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.secrets import Secret


def parse(text: str) -> list[dict[str, Any]]:
    """Read a verdict the way that all clients do."""
    try:
        return check(text)
    except (ValueError, KeyError, TypeError) as error:
        raise ReplyRejectedError(str(error)) from error


def questions(count: int, run: str) -> Iterator[Question[list[dict[str, Any]]]]:
    """Yield the questions, each made when it is asked for."""
    for body in bodies(count, run):
        turns = tuple((turn["role"], turn["content"]) for turn in body["messages"])
        request = Request(
            endpoint="bench",
            model=body["model"],
            messages=turns,
            max_tokens=2048,
            params=(("temperature", 0.0),),
            signature="comparisons",  # each reply has it: as where a judge repeats the nonce
        )
        yield Question(request=request, parse=parse, placeholder=list)


async def ask_all(engine: CallEngine, count: int, run: str, until: float) -> int:
    """Ask all questions; return how many were answered before `until` (monotonic)."""
    answered = 0
    async with aclosing(engine.map(questions(count, run))) as results:
        async for _, completion in results:
            answered += completion.value is not None
            if time.monotonic() > until:
                break
    return answered


async def main(args: Any) -> None:
    config = EngineConfig(concurrency=args.in_flight)
    client = "aiohttp" if "aiohttp" in args.way else None
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache.open(Path(folder) / "cache")
        meter = Meter()
        async with CallEngine(HttpTransport(args.url, Secret(KEY), client=client), cache, config=config) as engine:
            answered = await ask_all(engine, args.calls, args.run, time.monotonic() + args.cap)
        emit(meter.row("ours", answered, args.calls))
        cache = Cache.open(Path(folder) / "cache")
        meter = Meter()
        async with CallEngine(HttpTransport(args.url, Secret(KEY), client=client), cache, config=config) as engine:
            hits = await ask_all(engine, answered, args.run, time.monotonic() + args.cap)
            assert engine.stats().sent == 0 or answered < args.calls
        emit(meter.row("ours, cache hit", hits, answered))


if __name__ == "__main__":
    chosen = options()
    with asyncio.Runner(loop_factory=loop_factory(chosen.way)) as runner:
        runner.run(main(chosen))
