"""Raw aiohttp, the least that a script does: one session whose connections are reused, and a task for each call."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
from calls import CHECKS, KEY, bodies, measure, options

Ask = Callable[[dict[str, Any]], Awaitable[str]]


async def by_task(ask: Ask, args: Namespace) -> int:
    """Make a task for each call, at most `--in-flight` at a time; return how many verdicts were read."""
    gate, check = asyncio.Semaphore(args.in_flight), CHECKS[args.reply]
    until = time.monotonic() + args.cap
    answered = 0

    async def call(body: dict[str, Any]) -> None:
        nonlocal answered
        try:
            check(await ask(body))
            answered += 1
        finally:
            gate.release()

    async with asyncio.TaskGroup() as tasks:
        for body in bodies(args.calls, args.run):
            await gate.acquire()
            if time.monotonic() > until:
                break
            tasks.create_task(call(body))
    return answered


async def ask_all(args: Namespace) -> int:
    """Ask all questions over a new session."""
    url = f"{args.url}/chat/completions"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    connector = aiohttp.TCPConnector(limit=args.in_flight)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def ask(body: dict[str, Any]) -> str:
            async with session.post(url, data=orjson.dumps(body)) as response:
                return orjson.loads(await response.read())["choices"][0]["message"]["content"]

        return await by_task(ask, args)


if __name__ == "__main__":
    asyncio.run(measure("raw", options(), ask_all))
