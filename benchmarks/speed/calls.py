"""What the clients of the speed benchmarks send and check, and how their cost is measured: stdlib and orjson only.

A client is a process that runs on one core and prints results as JSON. Its CPU is the user and system time of the whole
process, from before its first connection until its last one is closed. A few calls are made first, so that imports and
what is done once for all calls are not in it. A client that is not done after `--cap` seconds reports what was answered
until then.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import orjson

RUBRICS = 6
MODEL = "bench"
KEY = "bench-key-" + "0123456789" * 4  # as long as real keys: each reply is searched for it
SYSTEM = (
    "You compare two responses to one request on each of six rubrics and answer with JSON in the given form only. " * 3
)
SENTENCE = "A sentence of some length about nothing in particular, as judges get to read them. "
CANDIDATE = SENTENCE * 13
WARM_UP = 16  # calls
Check = Callable[[str], Any]


def bodies(count: int, run: str) -> Iterator[dict[str, Any]]:
    """Yield request bodies of 2.7 KB, all different."""
    for number in range(count):
        shown = (
            f"Question {number} of {run}.\n\nResponse A:\n{CANDIDATE}\n\nResponse B:\n{CANDIDATE}\n\nRubrics: 1 to 6."
        )
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": shown}]
        yield {"model": MODEL, "messages": messages, "max_tokens": 2048, "temperature": 0.0}


def check_short(text: str) -> str:
    """Read a short verdict; ValueError for any other reply."""
    winner = orjson.loads(text)["winner"]
    if winner not in {"A", "B"}:
        raise ValueError("the reply names no winner")
    return str(winner)


def check_json(text: str) -> list[dict[str, Any]]:
    """Read verdicts on six rubrics; ValueError for any other reply."""
    rows = orjson.loads(text)["comparisons"]
    if len(rows) != RUBRICS or any(row["better"] not in {"A", "B"} for row in rows):
        raise ValueError("the reply is not a verdict on six rubrics")
    return rows


def check_direct(text: str) -> str:
    """Read a verdict in double brackets; ValueError for any other reply."""
    if not text.endswith(("[[A]]", "[[B]]")):
        raise ValueError("the reply does not end with a verdict")
    return text[-3]


CHECKS: dict[str, Check] = {"short": check_short, "json": check_json, "direct": check_direct}


def options() -> argparse.Namespace:
    """Read the flags that all clients share, and move to the given core."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--core", type=int)
    parser.add_argument("--run", default="run", help="part of each question: other runs ask other questions")
    parser.add_argument("--reply", choices=list(CHECKS), default="short")
    args = parser.parse_args()
    if args.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {args.core})
    return args


def cpu_s() -> float:
    """Return the CPU seconds of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def counts(url: str) -> dict[str, int]:
    """Return what the server has counted since the previous look."""
    with urllib.request.urlopen(url, timeout=30) as reply:
        return json.loads(reply.read())


async def measure(name: str, args: argparse.Namespace, ask_all: Callable[[argparse.Namespace], Awaitable[int]]) -> None:
    """Ask all questions after a few others, and print the result for the parent process."""
    await ask_all(argparse.Namespace(**vars(args) | {"calls": WARM_UP, "run": f"{args.run}, first"}))
    counts(args.url)
    cpu = cpu_s()
    answered = await ask_all(args)
    spent = cpu_s() - cpu
    row = {
        "client": name,
        "whole": answered == args.calls,
        "cpu_us": 1e6 * spent / max(answered, 1),
        "connections": counts(args.url)["connections"],
    }
    print("RESULT " + json.dumps(row), flush=True)
