"""Runs of `svr eval` against a `svr sim` in a separate process, whose log lists paid calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig import name_judge, sim_process, svr, write_bench

FLAGS = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "self-rubric", "--out", "run")
PRICE = [0.1, 0.05, 0.5]


@contextmanager
def logged_endpoint(folder: Path, latency_ms: int) -> Iterator[tuple[str, Path]]:
    """Serve the simulated endpoint, slowly enough to be interrupted; yields its URL and its log of calls."""
    with sim_process(folder, "--latency-ms", str(latency_ms), "--log", folder / "log.jsonl") as url:
        yield url, folder / "log.jsonl"


def prepared(folder: Path, url: str, *, pairs: int, price: list[float] | None = None) -> None:
    """Put data and judge into a folder."""
    write_bench(folder / "bench.jsonl", pairs)
    name_judge(folder, url, **({"price": price} if price else {}))


def run_without_a_stop(folder: Path) -> Path:
    """Run once in one process; return the run folder."""
    done = svr(*FLAGS, "--concurrency", "64", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"
