"""Rebuild every table at full size against the simulated endpoint, killed at random, and once more from the cache.

    python benchmarks/paper/repro_kills.py --out FOLDER --kills 5

The world is written and its judge served; `svr repro all --dry-run` counts; then `svr repro all` is killed with SIGKILL
so many times, at moments drawn from --seed; what is left is counted again, which is exact where all banks are trained
by then; and it is let end. The second time it has a new folder and the same cache; the third time it has the first
folder again. Printed are times, calls named, calls paid, and whether both folders have the same bytes. All of it is
SIMULATED.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LAUNCHER = Path(__file__).parents[2] / "cli.py"
WRITTEN = ("report.html", "report.md", "tables/*")


def svr(*args: str) -> list[str]:
    """Return the command line of this checkout's `svr`."""
    return [sys.executable, str(LAUNCHER), *args]


@contextmanager
def served(out: Path, seed: int, port: int) -> Iterator[str]:
    """Serve the simulated judge; what it counted is in sim.txt at the end."""
    with (out / "sim.txt").open("w") as told:
        command = svr("sim", "--port", str(port), "--seed", str(seed), "--log", str(out / "calls.jsonl"))
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            first = server.stdout.readline()
            yield next(word for word in first.split() if word.startswith("http://"))
        finally:
            server.send_signal(signal.SIGINT)
            told.write(first + (server.communicate(timeout=60)[0] or ""))


def repro(flags: argparse.Namespace, url: str, folder: str, *more: str) -> list[str]:
    """Return the command that rebuilds everything in a folder, with the cache that all of them share."""
    root = url.removesuffix("/v1")
    own = {"skywork": f"rm:{root}", "rm-r1": f"{url}#sim-weak", "rubric-arm": f"{url}#sim-strong"}
    own["rubric-arm-proposer"] = own["qwen3-8b"] = own["rm-r1"]
    if flags.rrd:  # some 234,000 calls more; without it RRD's row is absent, since the endpoint lists no such model
        own["gpt-4o"] = own["gemini-2.5-pro"] = own["rubric-arm"]
    judges = [text for role, judge in own.items() for text in ("--judge", f"{role}={judge}")]
    same = ["--data", str(flags.out / "data"), "--base-url", url, "--cache", str(flags.out / "cache")]
    return svr("repro", *flags.tables, *same, *judges, "--out", str(flags.out / folder), *more)


def killed(command: Sequence[str], log: Path, moments: Sequence[float]) -> int:
    """Run a command again and again, killing it after each of these durations; return how often it was killed."""
    with log.open("a") as told:
        for count, moment in enumerate(moments):
            try:
                subprocess.run(command, stderr=told, stdout=told, timeout=moment, check=True)  # SIGKILL when it is over
            except subprocess.TimeoutExpired:
                told.write(f"--- killed after {moment:.0f} s\n")
                told.flush()
            else:
                return count
    return len(moments)


def counted(command: Sequence[str], kept: Path) -> tuple[int, bool]:
    """Return how many calls a dry run names, and whether a training's are assumed; keep what it printed."""
    said = subprocess.run([*command, "--dry-run"], stdout=subprocess.PIPE, text=True, check=True).stdout
    kept.write_text(said)
    line = next(line for line in said.splitlines() if line.startswith("in all"))
    found = re.search(r"(~?) *([\d,]+) calls", line)
    assert found is not None, line
    return int(found[2].replace(",", "")), bool(found[1])


def digest(folder: Path) -> str:
    """Return a digest of all that is written of the tables."""
    found = hashlib.sha256()
    for path in sorted(path for pattern in WRITTEN for path in folder.glob(pattern)):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def paid_calls(log: Path) -> list[str]:
    """Return the question of each call that the endpoint was paid for."""
    rows = (json.loads(line) for line in log.read_text().splitlines() if line.endswith("}"))
    return [row["key"] for row in rows if row.get("paid")]


def print_count(when: str, named: tuple[int, bool]) -> None:
    """Say what a dry run names."""
    print(f"a dry run {when} names {named[0]:,} calls{', trainings assumed' if named[1] else ', exactly'}", flush=True)


def read_flags() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where all of it is kept")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--between", type=float, nargs=2, default=(60.0, 240.0), help="seconds until a kill")
    parser.add_argument("--seed", type=int, default=0, help="of the world and of the moments")
    parser.add_argument("--port", type=int, default=0, help="of the endpoint; the same one finds the same cache again")
    parser.add_argument("--train", type=int, default=1500, help="training pairs")
    parser.add_argument("--rrd", action="store_true", help="RRD's row too, some 234,000 calls")
    parser.add_argument("--tables", nargs="+", default=["all"])
    return parser.parse_args()


def timed(command: Sequence[str], **streams: Any) -> tuple[float, str]:
    """Run a command to its end; return how long it took and what it said."""
    begun = time.monotonic()
    said = subprocess.run(command, check=True, text=True, **streams).stdout
    return time.monotonic() - begun, said or ""


def build_once(flags: argparse.Namespace, first: Sequence[str], log: Path) -> list[str]:
    """Count, kill, count what is left, let it end; return every question that was paid for."""
    rng, told = random.Random(flags.seed), flags.out / "first.txt"
    print_count("before", counted(first, flags.out / "named.txt"))
    begun = time.monotonic()
    kills = killed(first, told, [rng.uniform(*flags.between) for _ in range(flags.kills)])
    print(f"{kills} kills, {time.monotonic() - begun:.0f} s until the last")
    before = paid_calls(log)
    print_count("of what is left", counted(first, flags.out / "named-left.txt"))
    with told.open("a") as end:
        seconds, _ = timed(first, stdout=end, stderr=end)
    calls = paid_calls(log)
    print(f"{seconds:.0f} s to the end; {len(set(calls[len(before) :])):,} questions paid since then")
    print(f"in all {len(calls):,} calls paid for {len(set(calls)):,} questions", flush=True)
    return calls


def main() -> None:
    """Run the command line."""
    flags = read_flags()
    flags.out.mkdir(parents=True, exist_ok=True)
    write = ["--seed", str(flags.seed), "--train", str(flags.train), "--benchmarks", "--write", str(flags.out / "data")]
    if not (flags.out / "data" / "rmbench.jsonl").exists():
        subprocess.run(svr("sim", *write), check=True)
    log = flags.out / "calls.jsonl"
    with served(flags.out, flags.seed, flags.port) as url:
        first = repro(flags, url, "first")
        calls = build_once(flags, first, log)
        second, said = timed(repro(flags, url, "second", "-q"), capture_output=True)
        third, _ = timed([*first, "-q"], capture_output=True)
        later = len(paid_calls(log)) - len(calls)
    sent = re.search(r"([\d,]+) calls sent", said)
    print(f"from the cache {second:.0f} s, {sent[1] if sent else '?'} calls sent; {said.strip()}")
    print(f"the same command in the same folder once more: {third:.0f} s; {later} calls paid for in both")
    same = digest(flags.out / "first") == digest(flags.out / "second")
    print(f"the tables have {'the same bytes' if same else 'OTHER BYTES'}: {digest(flags.out / 'first')[:16]}")


if __name__ == "__main__":
    main()
