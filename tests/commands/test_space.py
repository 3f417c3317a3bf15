"""Room on the disk: what a run may need, and when it is too much."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from rig import name_judge, serving, write_bench

from svr_async.evaluation.running import space
from svr_async.evaluation.running.space import BASE_BYTES, Room, room_at_most, room_for, shortage

Cli = Callable[..., tuple[int, str, str]]
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--cache", "cache", "-q")


def has(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Have every disk so much room."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))


def test_the_bound_is_never_below_the_count() -> None:
    """What needs no look at the pairs is at least what their calls need, and both grow with pairs and calls."""
    for pairs in (1, 1000, 10**6):
        for judges in (1, 3):
            counted = {"calls": 3 * pairs * judges, "completion_tokens": 3 * pairs * judges * 1000}
            assert room_at_most(pairs, judges).total >= room_for(counted, pairs).total > 2 * BASE_BYTES


def test_one_disk_has_to_hold_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache and run folder on one disk need their sum, with folders that are not there yet too."""
    room = Room(cache=3 * 2**20, run=2 * 2**20)
    has(monkeypatch, 5 * 2**20)
    assert shortage(room, tmp_path / "cache", tmp_path / "runs" / "one") is None
    has(monkeypatch, 5 * 2**20 - 1)
    error = shortage(room, tmp_path / "cache", tmp_path / "runs" / "one")
    assert error is not None
    assert (error.exit_code, "may need 5 MiB" in error.one_line(), "--force" in error.one_line()) == (5, True, True)


def test_what_the_cache_holds_needs_no_more_room(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is nearly done goes on where a new one would be refused: only calls to come are counted."""
    monkeypatch.setattr(space, "BYTES_A_CALL", 10 * 2**20)
    write_bench(tmp_path / "bench.jsonl", 6)
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        assert cli(*EVAL, "--limit", "4", "--out", "some", "--audit", "0")[0] == 0
        has(monkeypatch, 60 * 2**20)
        code, _, err = cli(*EVAL, "--cache", "other", "--out", "all", "--audit", "0")
        assert (code, "may need" in err, err.count("\n")) == (5, True, 1)
        assert not Path("all").exists()
        code, out, _ = cli(*EVAL, "--out", "all", "--audit", "0", "--dry-run", "--json")
        plan = orjson.loads(out)
        assert (plan["calls"], plan["free_bytes"], plan["disk_bytes"] < 60 * 2**20) == (2, 60 * 2**20, True)
        assert cli(*EVAL, "--out", "all", "--audit", "0")[0] == 0


@pytest.mark.parametrize("flags", [("--offline", "--min-coverage", "0"), ("--judge", "rules")])
def test_runs_that_ask_nothing_need_no_room(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """A run from the cache alone, or by rules, is not held up by an estimate of calls."""
    write_bench(tmp_path / "bench.jsonl", 3)
    name_judge(tmp_path, "http://127.0.0.1:1/v1")
    has(monkeypatch, 2**20)
    assert cli(*EVAL, *flags, "--out", "run")[0] == 0
