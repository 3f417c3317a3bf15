"""An endpoint that admits R calls a minute: the time to drain a queue against the ideal, and calls wasted on 429.

    python benchmarks/speed/drain.py --rpm 12000 --calls 4000

The server's bucket fills evenly and holds one second's worth. Told: the engine knows the limit (`--rpm` of `svr eval`).
Untold: it has only the 429 replies and their Retry-After to go by. The ideal is (calls - burst) / rate.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
import urllib.request
from contextlib import aclosing
from pathlib import Path

import orjson
from client_ours import questions
from engine import server
from targets import Figure, hand_over

from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.http import HttpTransport
from svr_async.engine.secrets import Secret


async def drain(url: str, calls: int, config: EngineConfig) -> float:
    """Return the seconds that it took to have all answers."""
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


def run(rpm: float, calls: int, latency_ms: float, config: EngineConfig) -> tuple[float, float]:
    """Return time over the ideal, and the share of calls that were turned away, in per cent."""
    burst = rpm / 60
    with server(f"--rpm={rpm}", f"--burst={burst}", f"--latency-ms={latency_ms}") as url:
        seconds = asyncio.run(drain(url, calls, config))
        with urllib.request.urlopen(url) as reply:
            counts = orjson.loads(reply.read())
    ideal = (calls - burst) / (rpm / 60) + latency_ms / 1000
    return seconds / ideal, 100 * counts["refused"] / counts["calls"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rpm", type=float, default=12_000)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="a quarter of the calls")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    calls = args.calls // 4 if args.quick else args.calls
    told = run(args.rpm, calls, args.latency_ms, EngineConfig(concurrency=args.in_flight, rpm=args.rpm))
    untold = run(args.rpm, calls, args.latency_ms, EngineConfig(concurrency=args.in_flight, adaptive=True))
    print("| limit | time / ideal | calls turned away |\n|---|---|---|")
    for name, (ratio, wasted) in (("told to the engine", told), ("found out by the engine", untold)):
        print(f"| {name} | {ratio:.3f} | {wasted:.2f} % |")
    figures = [
        Figure(name="drain at R calls a minute / ideal", value=told[0], unit="×", target=1.05, beyond=1.02),
        Figure(name="calls turned away there", value=told[1], unit="%", target=5, beyond=1),
        Figure(name="the same, limit not told / ideal", value=untold[0], unit="×", target=1.05, beyond=1.02),
        Figure(name="calls turned away there, limit not told", value=untold[1], unit="%", target=5, beyond=1),
    ]
    hand_over(figures, args.figures)


if __name__ == "__main__":
    main()
