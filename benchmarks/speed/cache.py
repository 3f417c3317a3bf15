"""The cache: durable puts a second and CPU a put, hits and misses, beside diskcache as it comes, in one run.

    python benchmarks/speed/cache.py --rows 20000

A thousand tasks put replies of 2.4 KB and wait for their commits, as workers of the engine do. diskcache is used the
way its documentation shows it, but with the same durability (synchronous = FULL): one `set` a row.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import diskcache
from fast_server import verdict
from targets import Figure, hand_over

from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply, Usage

TASKS = 1000


def reply(number: int) -> Reply:
    usage = Usage(prompt_tokens=720, cached_tokens=0, completion_tokens=410)
    return Reply(text=verdict(), usage=usage, model="bench", fingerprint="fp", id=f"chatcmpl-{number}")


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


def plain(folder: Path, keys: list[bytes], pinned: dict) -> tuple[float, float, float]:
    """Return diskcache's puts a second, CPU a put, and CPU a hit."""
    value = reply(0).to_bytes()
    with diskcache.Cache(str(folder), **pinned) as cache:
        wall, cpu = time.perf_counter(), time.process_time()
        for key in keys:
            cache.set(key, value)
        rate, spent = len(keys) / (time.perf_counter() - wall), 1e6 * (time.process_time() - cpu) / len(keys)
        return rate, spent, cpu_us(cache.get, keys)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    rows, repeats = (4000, 1) if args.quick else (args.rows, args.repeats)
    best, hit, miss, on_disk = (0.0, 0.0), 0.0, 0.0, 0.0
    for _ in range(repeats):
        keys = [os.urandom(32) for _ in range(rows)]
        with tempfile.TemporaryDirectory() as folder:
            cache = Cache.open(Path(folder) / "cache")
            best = max(best, asyncio.run(put_all(cache, keys)))
            shuffled = random.sample(keys, min(rows, 5000))
            hit, miss = cpu_us(cache.get, shuffled), cpu_us(cache.get, [os.urandom(32) for _ in shuffled])
            cache.close()
            on_disk = sum(path.stat().st_size for path in (Path(folder) / "cache").rglob("*")) / rows
    few = [os.urandom(32) for _ in range(min(rows, 2000))]
    with tempfile.TemporaryDirectory() as folder:
        other = plain(Path(folder), few, {"sqlite_synchronous": 2, "eviction_policy": "none", "size_limit": 2**40})
    print(
        "| | puts a second | CPU a put, µs | CPU a hit, µs | CPU a miss, µs | bytes a row |\n|---|---|---|---|---|---|"
    )
    print(f"| our cache, {TASKS:,} tasks | {best[0]:,.0f} | {best[1]:.0f} | {hit:.1f} | {miss:.1f} | {on_disk:,.0f} |")
    print(f"| diskcache, FULL, one set a row | {other[0]:,.0f} | {other[1]:.0f} | {other[2]:.1f} | | |")
    size = len(reply(0).to_bytes())
    print(f"A reply is {size:,} bytes of JSON; puts: the best of {repeats} runs. Peak {peak_mb():.0f} MB.")
    hand_over([Figure(name="durable puts", value=best[0], unit="/s", target=15_000, at_least=True)], args.figures)


def peak_mb() -> float:
    """Return this process's largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
