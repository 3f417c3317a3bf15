"""An endpoint that admits R calls a minute: the time for a queue of calls as a ratio to the ideal, and calls refused.

    python benchmarks/speed/drain.py --rpm 12000 --calls 4000

The server's token bucket fills evenly and holds one second's calls. The engine knows the limit (`--rpm` of `svr eval`),
or finds it from the 429 replies and their Retry-After. The ideal is (calls - burst) / rate.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from calls import counts
from client_ours import Cache, CallEngine, EngineConfig, HttpTransport, Secret, questions
from engine import server
from targets import Figure, hand_over


async def drain(url: str, calls: int, config: EngineConfig) -> float:
    """Return the seconds until all calls are answered."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache.open(Path(folder) / "cache")
        async with CallEngine(HttpTransport(url, Secret("none")), cache, config=config) as engine:
            began, answered = time.monotonic(), 0
            async with aclosing(engine.map(questions(calls, "drain"), workers=config.workers)) as results:
                async for _, done in results:
                    answered += done.value is not None
            seconds = time.monotonic() - began
    assert answered == calls, f"{answered} of {calls} answered"
    return seconds


def run(args: argparse.Namespace, config: EngineConfig) -> tuple[float, float]:
    """Return the time over the ideal, and the percentage of calls that were refused."""
    burst = args.rpm / 60
    with server(f"--rpm={args.rpm}", f"--burst={burst}", f"--latency-ms={args.latency_ms}") as url:
        seconds = asyncio.run(drain(url, args.calls, config))
        seen = counts(url)
    ideal = (args.calls - burst) / (args.rpm / 60) + args.latency_ms / 1000
    return seconds / ideal, 100 * seen["refused"] / seen["calls"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rpm", type=float, default=12_000)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="a quarter of the calls")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    args.calls //= 4 if args.quick else 1
    ways = {
        "limit given": EngineConfig(concurrency=args.in_flight, rpm=args.rpm),
        "limit found": EngineConfig(concurrency=args.in_flight, start=64),
    }
    figures = []
    for name, config in ways.items():
        ratio, refused = run(args, config)
        named = f"time at R calls a minute / ideal, {name}"
        figures.append(Figure(name=named, value=ratio, unit="×", target=1.05, aim=1.02))
        figures.append(Figure(name=f"calls refused, {name}", value=refused, unit="%", target=5, aim=1))
    hand_over(figures, args.figures)


if __name__ == "__main__":
    main()
