"""Ask questions through an engine in a process, for tests of several processes on one cache.

    python asker.py BASE_URL CACHE CONCURRENCY FIRST COUNT SEED

The questions are about the planted pairs FIRST to FIRST + COUNT, shuffled by SEED. It prints `ready`, waits for a
line of input, asks, and prints the number of each question when it is answered.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from rig import engine_at, pairs, writer

from svr_async.vocabulary.pair import Order, present


async def answer(base_url: str, cache: Path, concurrency: int, numbers: list[int]) -> None:
    """Ask, and print each number when it is answered."""
    known = pairs(max(numbers) + 1)
    asked = [writer(base_url).direct(present(known[number], Order.AB)) for number in numbers]
    async with engine_at(base_url, cache, concurrency=concurrency) as engine:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        async for place, done in engine.map(asked):
            assert done.value is not None, done.detail
            sys.stdout.write(f"{numbers[place]}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    first, count, seed = (int(text) for text in sys.argv[4:7])
    chosen = list(range(first, first + count))
    random.Random(seed).shuffle(chosen)
    asyncio.run(answer(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), chosen))
