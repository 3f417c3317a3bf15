"""Memory for a million questions from a generator, above what the imports take.

    python benchmarks/speed/memory.py --questions 1000000

The calls are answered within the process, and cache forgets what it is given, so that a million take a minute and no
disk; everything else is the whole engine. What is in flight
is in the figure: about 30 KB a call here.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path

from client_ours import questions
from fast_server import completion
from targets import Figure, hand_over

from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.transport import RawReply
from svr_async.engine.request import Request


class Forgetful:
    """Rows that are written nowhere."""

    def read(self, key: bytes) -> bytes | None:
        return None

    def read_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return {}

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        pass

    def keys(self) -> Iterator[bytes]:
        yield from ()

    def close(self) -> None:
        pass


class Echo:
    """A transport that answers in the next round of the event loop."""

    def __init__(self) -> None:
        self._body = completion()

    async def send(self, request: Request) -> RawReply:
        _ = request.body_bytes
        await asyncio.sleep(0)
        return RawReply(status=200, headers={}, body=self._body)

    async def close(self) -> None:
        pass


def resident_mb() -> float:
    """Return the largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def answer(count: int, in_flight: int) -> int:
    answered = 0
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder), Forgetful(), writable=True)
        async with (
            CallEngine(Echo(), cache, config=EngineConfig(concurrency=in_flight)) as engine,
            aclosing(engine.map(questions(count, "memory"))) as results,
        ):
            async for _, done in results:
                answered += done.value is not None
    return answered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1_000_000)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--quick", action="store_true", help="a tenth of that: the figure is then too low")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    count = args.questions // 10 if args.quick else args.questions
    gc.collect()
    before, began = resident_mb(), time.perf_counter()
    answered = asyncio.run(answer(count, args.in_flight))
    grown, seconds = resident_mb() - before, time.perf_counter() - began
    assert answered == count, f"{answered} of {count} answered"
    sample = list(questions(2000, "list"))
    listed = sum(sys.getsizeof(turn[1]) for one in sample for turn in one.request.messages) / len(sample)
    print(
        f"{count:,} questions, {args.in_flight:,} in flight: {grown:.0f} MB above the {before:.0f} MB of the imports;"
    )
    print(f"{seconds:.0f} s. The texts alone of as many questions in a list: {count * listed / 2**20:,.0f} MB.")
    name = f"memory for {count:,} queued requests above import"
    hand_over([Figure(name=name, value=grown, unit="MB", target=300, beyond=100)], args.figures)


if __name__ == "__main__":
    main()
