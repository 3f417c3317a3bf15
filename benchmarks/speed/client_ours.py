"""Our whole engine: cache miss, call, verdict read, durable put, counts; then the same questions as cache hits."""

from __future__ import annotations

import asyncio
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

from calls import CHECKS, KEY, Check, bodies, measure, options

from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.http import HttpTransport
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.secrets import Secret


def parse(check: Check, text: str) -> Any:
    """Read a verdict as all clients do."""
    try:
        return check(text)
    except (ValueError, KeyError, TypeError) as error:
        raise ReplyRejectedError(str(error)) from error


def questions(count: int, run: str, reply: str = "short") -> Iterator[Question[Any]]:
    """Yield the questions; each is made when the engine asks for it."""
    read: Callable[[str], Any] = partial(parse, CHECKS[reply])
    for body in bodies(count, run):
        request = Request(
            endpoint="bench",
            model=body["model"],
            messages=tuple((turn["role"], turn["content"]) for turn in body["messages"]),
            max_tokens=2048,
            params=(("temperature", 0.0),),
        )
        yield Question(request=request, parse=read, placeholder=list)


async def ask_all(cache: Path, args: Namespace) -> int:
    """Ask all questions with a new engine."""
    config = EngineConfig(concurrency=args.in_flight)
    until = time.monotonic() + args.cap
    answered = 0
    async with (
        CallEngine(HttpTransport(args.url, Secret(KEY)), Cache.open(cache), config=config) as engine,
        aclosing(engine.map(questions(args.calls, args.run, args.reply))) as results,
    ):
        async for _, completion in results:
            answered += completion.value is not None
            if time.monotonic() > until:
                break
    return answered


async def main() -> None:
    args = options()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ours", "hit"):
            await measure(name, args, partial(ask_all, Path(folder) / "cache"))


if __name__ == "__main__":
    asyncio.run(main())
