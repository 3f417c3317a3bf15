"""Raw aiohttp: the least that a script does, with a task for each call (`--way task`) or a pool of workers (`pool`)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import orjson
from calls import KEY, Meter, bodies, check, emit, loop_factory, options, pool


async def by_task(session: aiohttp.ClientSession, url: str, count: int, in_flight: int, until: float, run: str) -> int:
    """Make a task for each call, never more of them than may be in flight."""
    gate = asyncio.Semaphore(in_flight)
    answered = 0

    async def call(body: dict[str, Any]) -> None:
        nonlocal answered
        try:
            check(await post(session, url, body))
            answered += 1
        finally:
            gate.release()

    tasks: set[asyncio.Task[None]] = set()
    for body in bodies(count, run):
        await gate.acquire()
        if time.monotonic() > until:
            break
        task = asyncio.create_task(call(body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return answered


async def post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> str:
    """Send one call and return the text of its answer."""
    async with session.post(url, data=orjson.dumps(body)) as response:
        return orjson.loads(await response.read())["choices"][0]["message"]["content"]


async def main(args: Any) -> None:
    url = f"{args.url}/chat/completions"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    meter = Meter()
    until = time.monotonic() + args.cap
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
        if args.way.startswith("task"):
            answered = await by_task(session, url, args.calls, args.in_flight, until, args.run)
        else:
            work = bodies(args.calls, args.run)
            answered = await pool(lambda body: post(session, url, body), work, args.in_flight, until)
    emit(meter.row(f"aiohttp {args.way}", answered, args.calls))


if __name__ == "__main__":
    chosen = options()
    with asyncio.Runner(loop_factory=loop_factory(chosen.way)) as runner:
        runner.run(main(chosen))
