"""Machines with shards, without and with a Redis server in common, and workers on Ray: calls a second of more of them.

    python benchmarks/speed/shards.py --pairs 400 --latency-ms 2000 --at-once 8

Work that waits for the endpoint: `svr sim` answers after so many milliseconds in the median, and each machine, a
process of `svr eval --shard I/N` with a cache of its own, has so many calls under way. The rate of a machine is its
calls over the seconds that it judged, as its run says; that of several is the sum. Workers on Ray (where that is
installed: `svr eval --ray local --processes N`) take half a minute to begin, so their rate is that of the endpoint's
log: the calls after the first ones, over the seconds from the first to the last. SIMULATED endpoint; all on one
computer.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from svr_async.simulation.files import test_row
from svr_async.simulation.world import World

MACHINES = (1, 2, 4)
SVR = (sys.executable, "-m", "svr_async")

ASKED = ["eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "vanilla", "--audit", "0", "-q"]


@contextlib.contextmanager
def program(*words: object, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([str(word) for word in words], cwd=cwd, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def redis_url(folder: Path) -> Iterator[str | None]:
    """Run a Redis server; None where there is none."""
    path = shutil.which("redis-server") or shutil.which("valkey-server")
    if path is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with program(path, "--port", port, "--bind", "127.0.0.1", "--save", "", cwd=folder):
        time.sleep(1)
        yield f"redis://127.0.0.1:{port}"


def judge(folder: Path, name: str, machines: int, args: argparse.Namespace, extra: tuple[str, ...]) -> float:
    """Judge all pairs with so many machines; return calls a second."""
    limits = ("--concurrency", str(args.at_once * machines), *extra)
    outs = [folder / f"{name}-{machines}-{number}" for number in range(machines)]
    running = [
        subprocess.Popen(
            [*SVR, *ASKED, *limits, "--shard", f"{n + 1}/{machines}", "--cache", f"{out}.cache", "--out", str(out)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        for n, out in enumerate(outs)
    ]
    if any(process.wait() for process in running):
        raise SystemExit("a machine failed")
    found = [orjson.loads((out / "metrics.json").read_bytes()) for out in outs]
    assert sum(one["calls"]["sent"] for one in found) == args.pairs
    return sum(one["calls"]["sent"] / one["wall_s"] for one in found)


def judge_on_ray(folder: Path, workers: int, args: argparse.Namespace) -> float:
    """Judge all pairs with so many workers of a Ray cluster of this machine; return calls a second."""
    log, out = folder / "log.jsonl", folder / f"ray-{workers}"
    seen = len(log.read_bytes().splitlines())
    limits = ("--ray", "local", "--processes", str(workers), "--concurrency", str(args.at_once * workers))
    places = ("--cache", f"{out}.cache", "--out", str(out))
    subprocess.run([*SVR, *ASKED, *limits, *places], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    times = sorted(orjson.loads(line)["t"] for line in log.read_bytes().splitlines()[seen:])
    assert len(times) == args.pairs
    return (args.pairs - args.at_once * workers) / (times[-1] - times[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--latency-ms", type=float, default=2000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--only-ray", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, world = Path(place), World()
        rows = [test_row(world, item, "Chat") for item in world.pairs(args.pairs, "test")]
        (folder / "bench.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        with program(
            *SVR, "sim", "--port", 0, "--latency-ms", args.latency_ms, "--log", "log.jsonl", cwd=folder
        ) as sim:
            assert sim.stdout is not None
            url = sim.stdout.readline().split(" at ")[1].split()[0]
            judge_file = f'[sim]\nmodel = "gpt-oss-120b"\nbase_url = "{url}"\nkey_env = ""\n'
            (folder / "judges.toml").write_text(judge_file)
            if not args.only_ray:
                with redis_url(folder) as shared:
                    report(folder, args, shared)
            if importlib.util.find_spec("ray") is not None:
                tell("workers on Ray", {n: judge_on_ray(folder, n, args) for n in MACHINES})


def report(folder: Path, args: argparse.Namespace, shared: str | None) -> None:
    """Print what each number of machines answers, and how many times that of one."""
    print(f"{args.pairs} calls of {args.latency_ms:g} ms, {args.at_once} at a time a machine (SIMULATED endpoint)")
    for name, url in {"shards": None, **({"with a server": shared} if shared else {})}.items():
        rates = {}
        for n in MACHINES:  # a database for each, so that none finds another's replies
            extra = () if url is None else ("--shared", f"{url}/{n}")
            rates[n] = judge(folder, name.replace(" ", "-"), n, args, extra)
        tell(name, rates)


def tell(name: str, rates: dict[int, float]) -> None:
    """Print rates, and how many times that of one each is."""
    told = ", ".join(f"{n} machines {rate:.1f}/s ({rate / rates[1]:.2f} ×)" for n, rate in rates.items())
    print(f"{name:18} {told}", flush=True)


if __name__ == "__main__":
    main()
