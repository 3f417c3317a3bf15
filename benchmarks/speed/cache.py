"""The cache and diskcache alone, in one run: durable puts a second, and CPU a put, a hit and a miss.

    python benchmarks/speed/cache.py --rows 20000

A thousand tasks put replies of 2.4 KB and wait for their commits, as workers of the engine do. diskcache is used as its
documentation shows it, but with the same durability (synchronous = FULL): one `set` a row.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import diskcache
import msgspec
from fast_server import rubric_verdicts
from targets import Figure, hand_over

from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply, Usage

TASKS = 1000
DURABLE = {"sqlite_synchronous": 2, "eviction_policy": "none", "size_limit": 2**40}


def reply(number: int) -> Reply:
    usage = Usage(prompt_tokens=720, cached_tokens=0, completion_tokens=410)
    return Reply(text=rubric_verdicts(62), usage=usage, model="bench", fingerprint="fp", id=f"chatcmpl-{number}")


async def put_all(cache: Cache, keys: list[bytes]) -> tuple[float, float]:
    """Return puts a second, and CPU microseconds a put."""
    work = iter([(key, reply(number)) for number, key in enumerate(keys)])

    async def worker() -> None:
        for key, one in work:
            await cache.put(key, one)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(TASKS)))
    return len(keys) / (time.perf_counter() - wall), 1e6 * (time.process_time() - cpu) / len(keys)


def cpu_us(call: Callable[[bytes], object], keys: list[bytes]) -> float:
    """Return CPU microseconds a call."""
    began = time.process_time()
    for key in keys:
        call(key)
    return 1e6 * (time.process_time() - began) / len(keys)


def ours(keys: list[bytes]) -> tuple[float, float, float, float]:
    """Return our puts a second, and CPU a put, a hit and a miss."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache.open(Path(folder) / "cache")
        puts = asyncio.run(put_all(cache, keys))
        looked = random.sample(keys, min(len(keys), 5000))
        hit, miss = cpu_us(cache.get, looked), cpu_us(cache.get, [os.urandom(32) for _ in looked])
        cache.close()
    return *puts, hit, miss


def plain(keys: list[bytes]) -> tuple[float, float, float]:
    """Return diskcache's puts a second, and CPU a put and a hit."""
    value = msgspec.json.encode(reply(0))
    with tempfile.TemporaryDirectory() as folder, diskcache.Cache(folder, **DURABLE) as cache:
        began = time.perf_counter()
        put = cpu_us(lambda key: cache.set(key, value), keys)
        return len(keys) / (time.perf_counter() - began), put, cpu_us(cache.get, keys)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="4,000 rows, once")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    rows, repeats = (4000, 1) if args.quick else (args.rows, 3)
    found = max(ours([os.urandom(32) for _ in range(rows)]) for _ in range(repeats))
    other = plain([os.urandom(32) for _ in range(min(rows, 2000))])
    print("| | puts a second | CPU a put, µs | a hit, µs | a miss, µs |\n|---|---|---|---|---|")
    print(f"| our cache, {TASKS:,} tasks | {found[0]:,.0f} | {found[1]:.0f} | {found[2]:.1f} | {found[3]:.1f} |")
    print(f"| diskcache, FULL, one set a row | {other[0]:,.0f} | {other[1]:.0f} | {other[2]:.1f} | |")
    hand_over([Figure(name="durable puts", value=found[0], unit="/s", target=15_000, at_least=True)], args.figures)


if __name__ == "__main__":
    main()
