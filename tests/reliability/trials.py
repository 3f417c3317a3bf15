"""Runs of `svr eval` against a simulated endpoint in this process, whose call log is the witness."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from endpoint import SimConfig, SimServer
from rig import background, name_judge, svr, wait_until, write_bench

from svr_async.engine.cache import Cache

STORAGE = 5
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "--out", "run",
        "--cache", "cache", "-q")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """What a run without a fault wrote, and how many calls it made."""

    items: bytes
    calls: int


def prepare(folder: Path, base_url: str, pairs: int) -> Path:
    """Write the pairs and a judges.toml into a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_bench(folder / "bench.jsonl", pairs)
    name_judge(folder, base_url)
    return folder


def evaluate(folder: Path, *extra: str, method: str = "direct", timeout: float = 50) -> CompletedProcess[str]:
    """Run the evaluation in a separate process."""
    return svr(*EVAL, "--method", method, *extra, cwd=folder, timeout=timeout)


def items(folder: Path) -> bytes:
    """Return items.jsonl of the run."""
    return (folder / "run" / "items.jsonl").read_bytes()


def run_without_faults(folder: Path, pairs: int, method: str = "direct") -> Reference:
    """Evaluate against an endpoint without faults."""
    from rig import serving

    with serving(SimConfig()) as server:
        done = evaluate(prepare(folder, server.base_url, pairs), "--concurrency", "64", method=method)
        assert done.returncode == 0, done.stderr
        return Reference(items(folder), server.stats()["paid"])


def kill_after(server: SimServer, calls: int, *args: str, cwd: Path) -> None:
    """Run `svr` and kill it with SIGKILL once the endpoint has answered this many calls."""
    with background(*args, cwd=cwd) as process:
        until(lambda: server.stats()["completed"] >= calls or process.poll() is not None)
        process.kill()
        process.wait(20)
    wait_until(lambda: server.stats()["in_flight"] == 0)


def until(ready: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Wait for a condition, checked every millisecond."""
    deadline = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.001)


def paid_again(server: SimServer) -> int:
    """Count complete answers that were paid for although the same request had been answered before."""
    counts = Counter(record.key for record in server.log() if record.completed)
    return counts.total() - len(counts)


def rows(cache: Path) -> int:
    """Count the replies in a cache; all of them must be readable."""
    opened = Cache.open(cache)
    try:
        replies = [opened.get(key) for key, _ in list(opened.rows())]
    finally:
        opened.close()
    assert None not in replies
    return len(replies)
