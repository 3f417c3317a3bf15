"""Several processes on one cache: what a claim costs, and what more processes answer, in one run.

    python benchmarks/speed/processes.py --calls 8000

A claim is measured in one process: alone on the cache, and beside another one, with N claims held. Then 1, 2 and 4
processes ask a fast local endpoint through whole engines that share a cache, each its part of the calls and of what may
be in flight. The endpoint is a process too and takes a good part of a core, so that on two cores two processes cannot
be twice as fast. What sharing costs is told by the CPU of a call beside that of as many processes with a cache each.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from calls import Meter
from client_ours import ask_all
from svr_async.engine.claims import FileClaims

from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.http import HttpTransport
from svr_async.engine.secrets import Secret

HERE = Path(__file__).resolve().parent
HELD = (64, 512, 4096)
CLAIMS = 5000
PROCESSES = (1, 2, 4)


async def claim_us(held: int, *, among: bool) -> float:
    """Return CPU microseconds to claim a question and to let it go, while `held` others are claimed."""
    keys = [random.Random(number).randbytes(32) for number in range(held + CLAIMS)]
    with tempfile.TemporaryDirectory() as folder:
        ours, other = FileClaims(Path(folder)), FileClaims(Path(folder))
        if among:
            await other.obtain(b"\1" * 32, lambda: False)
            knocking = asyncio.create_task(ours.obtain(b"\0" * 32, lambda: False))
            await knocking
        for key in keys[:held]:
            _ = ours.hold(key) or await ours.obtain(key, lambda: False)
        began = time.process_time()
        for key in keys[held:]:
            _ = ours.hold(key) or await ours.obtain(key, lambda: False)
            ours.release(key)
        spent = time.process_time() - began
        await ours.close()
        await other.close()
    return 1e6 * spent / CLAIMS


async def ask(url: str, cache: Path, in_flight: int, calls: int, run: str) -> None:
    """Ask as one of several processes: say ready, wait for a line, ask, print the result."""
    engine = CallEngine(
        HttpTransport(url, Secret("none")), Cache.open(cache), config=EngineConfig(concurrency=in_flight)
    )
    async with engine:
        print("ready", flush=True)
        sys.stdin.readline()
        meter = Meter()
        answered = await ask_all(engine, calls, run, time.monotonic() + 120)
        row = meter.row(run, answered, calls)
    print(orjson.dumps(row).decode(), flush=True)


def together(url: str, count: int, args: argparse.Namespace, run: str, *, shared: bool = True) -> tuple[float, float]:
    """Return calls a second of `count` processes together, and their CPU microseconds a call."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [str(args.in_flight // count), str(args.calls // count)]
        command = [sys.executable, __file__, "--worker", url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        workers = [
            subprocess.Popen([*command, f"{folder}/{0 if shared else number}", *parts, f"{run}-{number}"], **pipes)
            for number in range(count)
        ]
        for worker in workers:
            assert worker.stdout.readline() == "ready\n"
        began = time.perf_counter()
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        rows = [orjson.loads(worker.stdout.readline()) for worker in workers]
        seconds = time.perf_counter() - began
        for worker in workers:
            worker.communicate()
    answered = sum(row["answered"] for row in rows)
    return answered / seconds, sum(row["cpu_us"] * row["answered"] for row in rows) / answered


def claims_table() -> None:
    print("| claims held | alone, µs | beside another process, µs |\n|---|---|---|")
    for held in HELD:
        alone, among = (
            statistics.median(asyncio.run(claim_us(held, among=kind)) for _ in range(3)) for kind in (False, True)
        )
        print(f"| {held:,} | {alone:.2f} | {among:.1f} |", flush=True)


def asking_table(args: argparse.Namespace) -> None:
    print("\n| latency, ms | processes | calls a second | × one process | µs CPU a call | with a cache each |")
    print("|---|---|---|---|---|---|")
    for latency in args.latency_ms:
        command = [sys.executable, str(HERE / "fast_server.py"), "--latency-ms", str(latency)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            found: dict[int, list[tuple[float, float]]] = {count: [] for count in PROCESSES}
            apart: dict[int, list[float]] = {count: [] for count in PROCESSES}
            for turn in range(args.repeats):
                for count in PROCESSES:
                    run = f"{latency}-{count}-{turn}"
                    found[count].append(together(url, count, args, run))
                    apart[count].append(together(url, count, args, f"{run}-apart", shared=False)[1])
        finally:
            server.terminate()
            server.wait()
        one = statistics.median(speed for speed, _ in found[1])
        for count, rows in found.items():
            speed, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
            alone = statistics.median(apart[count])
            row = (f"{latency:g}", str(count), f"{speed:,.0f}", f"{speed / one:.2f}", f"{cpu:.0f}", f"{alone:.0f}")
            print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=8000)
    parser.add_argument("--in-flight", type=int, default=512, help="of all processes together")
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0.0, 50.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        url, cache, in_flight, calls, run = args.worker
        asyncio.run(ask(url, Path(cache), int(in_flight), int(calls), run))
        return
    claims_table()
    asking_table(args)


if __name__ == "__main__":
    main()
