"""What the retry layer costs a call that succeeds: `Caller.call` beside the one attempt that it makes, and tenacity.

    python benchmarks/speed/retry.py

The transport answers at once. tenacity's decorator around the same attempt shows what is saved by entering it only
after a first failure.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from fast_server import completion
from targets import Figure, hand_over
from tenacity import retry, stop_after_attempt

from svr_async.engine.caller import Caller, EngineConfig
from svr_async.engine.transport import RawReply
from svr_async.engine.money import Budget
from svr_async.engine.request import Request
from svr_async.engine.stats import Counters


class AtOnce:
    """A transport without a wait."""

    def __init__(self) -> None:
        self._reply = RawReply(status=200, headers={}, body=completion())

    async def send(self, _: Request) -> RawReply:
        return self._reply

    async def close(self) -> None:
        pass


async def cpu_us(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Return CPU microseconds a call."""
    began = time.process_time()
    for _ in range(count):
        await call()
    return 1e6 * (time.process_time() - began) / count


async def measure(count: int, repeats: int) -> dict[str, float]:
    """Return medians by name."""
    budget = Budget()
    caller = Caller(AtOnce(), EngineConfig(), Counters(), budget=budget, price=None, under_way=lambda: 1)
    request = Request(endpoint="bench", model="bench", messages=(("user", "one"),))

    async def attempt() -> object:
        return await caller._attempt(request, caller.clock())  # noqa: SLF001  (what is measured is around it)

    async def call() -> object:
        return await caller.call(request)

    ways = {
        "one attempt": attempt,
        "Caller.call": call,
        "tenacity around it": retry(stop=stop_after_attempt(3))(attempt),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(await cpu_us(way, count))
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    found = asyncio.run(measure(*((2000, 3) if args.quick else (args.calls, args.repeats))))
    alone = found["one attempt"]
    print("| a call that succeeds at once | CPU, µs | more than one attempt |\n|---|---|---|")
    for name, spent in found.items():
        print(f"| {name} | {spent:.2f} | {spent - alone:+.2f} |")
    extra = max(0.0, found["Caller.call"] - alone)
    hand_over([Figure(name="retry layer on the success path", value=extra, unit="µs", target=1.0)], args.figures)


if __name__ == "__main__":
    main()
