"""Stopping and resuming `svr eval` by signals: real processes against a simulated endpoint, which counts the calls."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from endpoint import SimConfig, SimServer
from rig import background, name_judge, serving, steady_metrics, svr, wait_until, write_bench

FLAGS = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "self-rubric", "--out", "run")
N = 100
CONCURRENCY = 4


def prepare(folder: Path, url: str) -> None:
    """Put data and judge into a folder."""
    write_bench(folder / "bench.jsonl", N)
    name_judge(folder, url)


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve a simulated endpoint that takes its time."""
    with serving(SimConfig(latency_ms=60.0)) as server:
        yield server


@pytest.fixture(scope="module")
def whole(sim: SimServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run once in one process without a stop; return the run folder."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder, sim.base_url)
    done = svr(*FLAGS, "--concurrency", "64", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def after_calls(sim: SimServer, count: int) -> Callable[[], bool]:
    """Return a condition: this many more calls have ended."""
    start = sim.stats()["completed"]
    return lambda: sim.stats()["completed"] - start >= count


def check_resumed(folder: Path, whole: Path, sim: SimServer, start: int, in_flight: int) -> None:
    """Resume; the result is that of a run without a stop, and no call was paid twice but those that were under way."""
    done = svr(*FLAGS, "--concurrency", "32", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "run" / "items.jsonl").read_bytes() == (whole / "items.jsonl").read_bytes()
    assert steady_metrics(folder / "run") == steady_metrics(whole)
    counts = sim.paid(start)
    assert max(counts.values()) <= 2
    assert sum(counts.values()) - len(counts) <= in_flight
    assert orjson.loads(done.stdout)["calls"]["cache_hits"] > 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)]
)
def test_a_signal_drains_writes_a_partial_run_and_says_how_to_continue(
    tmp_path: Path, sim: SimServer, whole: Path, number: int, code: int
) -> None:
    """SIGTERM and Ctrl-C: calls in flight are kept, the folder says PARTIAL, the last line how to continue."""
    prepare(tmp_path, sim.base_url)
    start, ended = len(sim.log()), after_calls(sim, 60)
    with background(*FLAGS, "--concurrency", str(CONCURRENCY), cwd=tmp_path) as process:
        wait_until(ended)
        process.send_signal(number)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
    last = errors.strip().splitlines()[-1]
    assert f"stopped by {signal.Signals(number).name}" in last
    assert "run the same command to continue" in last
    assert "PARTIAL" in out
    metrics = orjson.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert metrics["complete"] is False
    assert 0 < metrics["n_total"] < N
    assert f"{metrics['n_total']} of {N} pairs are judged and kept in run" in last
    check_resumed(tmp_path, whole, sim, start, 0)


def test_under_nohup_a_hang_up_stops_nothing(tmp_path: Path, sim: SimServer, whole: Path) -> None:
    """If SIGHUP is ignored, as with nohup, the terminal may close: the run continues to its end."""
    prepare(tmp_path, sim.base_url)
    ended, before = after_calls(sim, 20), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with background(*FLAGS, "--concurrency", "16", cwd=tmp_path) as process:
            wait_until(ended)
            process.send_signal(signal.SIGHUP)
            _, errors = process.communicate(timeout=50)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0, errors
    assert (tmp_path / "run" / "items.jsonl").read_bytes() == (whole / "items.jsonl").read_bytes()


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    """While the first signal is being obeyed, a second one does not wait for the drain; the cache stays whole."""
    with serving(SimConfig(latency_ms=3e6)) as silent:
        prepare(tmp_path, silent.base_url)
        with background(*FLAGS, "--concurrency", "32", cwd=tmp_path) as process:
            wait_until(lambda: silent.stats()["in_flight"] >= 10)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert any("again to stop at once" in line for line in iter(process.stderr.readline, ""))
            process.send_signal(signal.SIGINT)
            assert process.wait(5) == 130
    done = svr("cache", "stats", cwd=tmp_path)
    assert (done.returncode, "0 damaged rows" in done.stdout) == (0, True), done.stderr


def test_progress_is_plain_lines_where_there_is_no_terminal(tmp_path: Path, sim: SimServer) -> None:
    """With stderr in a file nothing is drawn: no escape sequences, and silence with -q."""
    prepare(tmp_path, sim.base_url)
    done: subprocess.CompletedProcess[str] = svr(*FLAGS, "--limit", "10", cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    quiet = svr(*FLAGS, "--limit", "10", "-q", cwd=tmp_path)
    assert quiet.stderr == ""
