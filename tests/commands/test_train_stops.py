"""A training that is stopped lets the calls under way end, for they are billed, and does not pay for them again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from endpoint import SimConfig
from made_pairs import write_planted
from rig import background, name_judge, serving, svr, wait_until

N, CONCURRENCY = 40, 8
INDUCE = ("stages", "induce", "pairs.jsonl", "--judge", "sim", "--out", "out", "--concurrency", str(CONCURRENCY))
TRAIN = ("train", "pairs.jsonl", "--judge", "sim", "--out", "out", "--concurrency", str(CONCURRENCY))


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        (INDUCE, signal.SIGTERM, 143),
        (TRAIN, signal.SIGINT, 130),
        pytest.param(TRAIN, signal.SIGHUP, 129, marks=pytest.mark.soak),
    ],
)
def test_a_signal_lets_calls_under_way_end_and_none_is_paid_for_again(
    tmp_path: Path, command: tuple[str, ...], number: int, code: int
) -> None:
    """Exit code of the signal, one last line that says how to go on, and afterwards no question bought twice."""
    write_planted(tmp_path / "pairs.jsonl", N)
    with serving(SimConfig(latency_ms=250.0)) as sim:
        name_judge(tmp_path, sim.base_url)
        with background(*command, cwd=tmp_path) as process:
            wait_until(lambda: sim.stats()["completed"] >= CONCURRENCY and sim.stats()["in_flight"] == CONCURRENCY)
            process.send_signal(number)
            _, errors = process.communicate(timeout=40)
        assert process.returncode == code, errors
        assert "Traceback" not in errors
        assert "calls in flight may finish" in errors
        last = errors.strip().splitlines()[-1]
        assert f"stopped by {signal.Signals(number).name}" in last
        assert "run the same command again to continue" in last
        before = sim.stats()["paid"]
        assert before < N
        done = svr("stages", "induce", "pairs.jsonl", "--judge", "sim", "--out", "rubrics.jsonl", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert before < sim.stats()["paid"]
        assert set(sim.paid().values()) == {1}


def test_an_error_that_ends_a_training_loses_no_reply_that_comes_soon(tmp_path: Path) -> None:
    """When the credit ends, calls are under way that were still paid for: their replies, a moment later, are kept."""
    write_planted(tmp_path / "pairs.jsonl", N)
    with serving(SimConfig(latency_ms=250.0, quota=12)) as server:
        name_judge(tmp_path, server.base_url)
        stopped = svr(*INDUCE, cwd=tmp_path)
    assert stopped.returncode == 4, stopped.stderr
    assert "quota" in stopped.stderr.strip().splitlines()[-1]
    assert " 12 replies," in svr("cache", "stats", cwd=tmp_path).stdout
