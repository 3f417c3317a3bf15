"""CPU a call of the whole `svr eval`, as a ratio to raw aiohttp's in the same session, and the connections it opens.

    python benchmarks/speed/whole_eval.py             about a minute
    python benchmarks/speed/whole_eval.py --quick     one repeat

`svr eval pairs --method direct` judges a made file of pairs as a process, 64 calls in flight; a second run with few
pairs measures the start, which is subtracted. The judge is the fast server; its reply repeats nothing of the prompt.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
from calls import CANDIDATE, counts
from engine import CORES, Cell, run_client, server
from targets import Figure, hand_over

FEW, IN_FLIGHT = 50, 64
TARGET = 2.8


def write_pairs(path: Path, count: int) -> Path:
    """Write pairs with texts as long as those that raw aiohttp sends."""
    with path.open("wb") as out:
        for number in range(count):
            pair = {"prompt": f"Question {number}.", "chosen": f"{CANDIDATE}Yes.", "rejected": f"{CANDIDATE}No."}
            out.write(orjson.dumps(pair) + b"\n")
    return path


def eval_cpu_s(url: str, data: Path, out: Path) -> float:
    """Judge all pairs with `svr eval`; return the CPU seconds of the process."""
    command = [sys.executable, "-m", "svr_async", "eval", "pairs", "--data", str(data), "--judge", f"{url}#bench"]
    limits = ["--method", "direct", "--audit", "0", "--concurrency", str(IN_FLIGHT), "-q"]
    places = ["--cache", str(out / "cache"), "--out", str(out / "run")]
    whole = [*command, *limits, *places]
    before = children_s()
    done = subprocess.run(whole, cwd=out, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"svr eval ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return children_s() - before


def children_s() -> float:
    """Return the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(url: str, folder: Path, few: int, pairs: int, repeat: int) -> tuple[float, float, float, int]:
    """Return CPU µs a call of `svr eval` and of raw aiohttp, the seconds of the start, and connections."""
    spent = {}
    for count in (few, pairs):
        out = folder / f"{repeat}-{count}"
        out.mkdir()
        counts(url)
        spent[count] = eval_cpu_s(url, write_pairs(out / "pairs.jsonl", count), out)
        seen = counts(url)
        scored = json.loads((out / "run" / "metrics.json").read_bytes())["n_scored"]
        if (seen["calls"], scored) != (count, count):
            raise SystemExit(f"{count} pairs: {seen['calls']} calls, {scored} scored")
    cell = Cell(kind="direct", in_flight=IN_FLIGHT, calls=pairs, repeats=1)
    (raw,) = run_client("raw", url, cell, f"r{repeat}", None, sys.executable)
    whole_us = 1e6 * (spent[pairs] - spent[few]) / (pairs - few)
    return whole_us, raw["cpu_us"], spent[few], seen["connections"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat")
    parser.add_argument("--figures", type=Path, help="add the figures that have targets to this file")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {CORES[0]})  # `svr eval` inherits it; the server picks its own core
    with tempfile.TemporaryDirectory() as folder, server("--reply=direct") as url:
        found = [measure(url, Path(folder), FEW, args.pairs, n) for n in range(1 if args.quick else args.repeats)]
    whole, raw, start, connections = (statistics.median(column) for column in zip(*found, strict=True))
    ratio = statistics.median(one[0] / one[1] for one in found)
    print(f"svr eval {whole:.0f} µs of CPU a call, raw aiohttp {raw:.0f}; the start of svr eval {start:.2f} s of CPU")
    named = [
        Figure(name="svr eval / raw aiohttp, CPU", value=ratio, unit="×", target=TARGET),
        Figure(name="connections for 1,000 calls, svr eval", value=connections, unit="", target=80, aim=64),
    ]
    hand_over(named, args.figures)


if __name__ == "__main__":
    main()
