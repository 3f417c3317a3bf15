"""What every client of the speed benchmark sends and checks, and how its cost is measured: stdlib and orjson only.

A client is a process of its own on one core. It is given a URL, a number of calls and how many may be in flight, and
prints one JSON line. CPU is user and system time of the whole process, from before its first connection to after its
last is closed; imports are not in it. Clients that are not done at `--cap` seconds report what they answered till then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson

RUBRICS = 6
MODEL = "bench"
KEY = "bench-key-" + "0123456789" * 4  # as long as keys are: it is looked for in each reply
SYSTEM = (
    "You compare two responses to one request on each of six rubrics and answer with JSON in the given form only. " * 3
)
SENTENCE = "A sentence of some length about nothing in particular, as judges get to read them. "
CANDIDATE = SENTENCE * 13
Ask = Callable[[dict[str, Any]], Awaitable[str]]


def bodies(count: int, run: str) -> Iterator[dict[str, Any]]:
    """Yield request bodies of 2.9 KB, no two of them equal."""
    for number in range(count):
        yield {"model": MODEL, "messages": messages(number, run), "max_tokens": 2048, "temperature": 0.0}


def messages(number: int, run: str) -> list[dict[str, str]]:
    """Return the messages of one call."""
    shown = f"Question {number} of {run}.\n\nResponse A:\n{CANDIDATE}\n\nResponse B:\n{CANDIDATE}\n\nRubrics: 1 to 6."
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": shown}]


def check(text: str) -> list[dict[str, Any]]:
    """Read a verdict on six rubrics; ValueError where it is none."""
    rows = orjson.loads(text)["comparisons"]
    if len(rows) != RUBRICS or any(row["better"] not in {"A", "B"} for row in rows):
        raise ValueError("not a verdict on six rubrics")
    return rows


async def pool(ask: Ask, work: Iterator[dict[str, Any]], in_flight: int, until: float) -> int:
    """Ask with one worker a call in flight; return how many verdicts were read before `until` (monotonic)."""
    answered = 0

    async def worker() -> None:
        nonlocal answered
        for body in work:
            check(await ask(body))
            answered += 1

    tasks = [asyncio.create_task(worker()) for _ in range(in_flight)]
    done, late = await asyncio.wait(tasks, timeout=max(0.0, until - time.monotonic()))
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in done:
        task.result()
    return answered


def options() -> argparse.Namespace:
    """Read the flags that every client has, and move to its core."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--core", type=int)
    parser.add_argument("--run", default="run")
    parser.add_argument("--way", default="")
    args = parser.parse_args()
    if args.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {args.core})
    return args


def loop_factory(way: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes uvloop's event loop where `way` names it."""
    if "uvloop" not in way:
        return None
    import uvloop

    return uvloop.new_event_loop


def cpu_s() -> float:
    """Return the CPU seconds of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Meter:
    """Measures from its making to `row`."""

    def __init__(self) -> None:
        self.cpu, self.wall = cpu_s(), time.monotonic()

    def row(self, name: str, answered: int, asked: int) -> dict[str, Any]:
        """Return one result."""
        seconds, cpu = time.monotonic() - self.wall, cpu_s() - self.cpu
        return {
            "client": name,
            "answered": answered,
            "whole": answered == asked,
            "cpu_us": 1e6 * cpu / answered if answered else None,
            "per_s": answered / seconds,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def emit(row: dict[str, Any]) -> None:
    """Print a result for the parent process."""
    print("RESULT " + json.dumps(row), flush=True)


def run_pool(name: str, open_client: Callable[[argparse.Namespace], AbstractAsyncContextManager[Ask]]) -> None:
    """Run a peer: `open_client` gives the function that asks; a worker pool drives it."""
    args = options()

    async def go() -> None:
        meter = Meter()
        async with open_client(args) as ask:
            answered = await pool(ask, bodies(args.calls, args.run), args.in_flight, time.monotonic() + args.cap)
        emit(meter.row(name, answered, args.calls))

    asyncio.run(go())
    sys.stdout.flush()
    os._exit(0)  # some peers leave threads behind that do not end


__all__ = ["AsyncIterator", "Meter", "bodies", "check", "emit", "loop_factory", "options", "pool", "run_pool"]
