"""The flags of how a judge may be asked: every command that asks one has them, and they take effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_pairs import write_candidates, write_planted
from rig import name_judge, write_bank, write_bench

from svr_async.engine.engine import CallEngine
from svr_async.simulation.server import SimServer

Cli = Callable[..., tuple[int, str, str]]
COMMANDS = (
    ("eval", "rubricbench", "--data", "bench.jsonl", "-q", "--out", "run"),
    ("train", "pairs.jsonl", "-q", "--rounds", "1", "--out", "out"),
    ("stages", "induce", "pairs.jsonl", "-q", "--out", "c.jsonl"),
    ("stages", "judge", "pairs.jsonl", "-q", "--candidates", "some.jsonl", "--out", "store"),
    ("explain", "--bank", "bank", "--prompt", "Why?", "--a", "So.", "--b", "Because."),
)
WHOLE = pytest.mark.parametrize("command", COMMANDS[:2], ids=lambda command: command[0])  # with all limits


@pytest.fixture
def ask(cli: Cli, tmp_path: Path) -> Cli:
    """Return a function that runs a command that asks `sim`, in a folder with all that it needs."""
    write_bench(tmp_path / "bench.jsonl", 8)
    write_planted(tmp_path / "pairs.jsonl")
    write_candidates(tmp_path / "some.jsonl", "Is it kind?", "Is it short?")
    write_bank(tmp_path / "bank")

    def call(server: SimServer, *args: str) -> tuple[int, str, str]:
        name_judge(tmp_path, server.base_url)
        return cli(*args, "--judge", "sim")

    return call


@WHOLE
def test_limits_reach_the_engine(
    command: tuple[str, ...], ask: Cli, sim: SimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates, patience and the number of calls are those of the flags, before the profile's."""
    seen: list[Any] = []
    opening = CallEngine.__init__

    def noting(self: CallEngine, *args: Any, **settings: Any) -> None:
        seen.append(settings["config"])
        opening(self, *args, **settings)

    monkeypatch.setattr(CallEngine, "__init__", noting)
    limits = ("--rpm", "600", "--tpm", "9000000", "--concurrency", "3", "--max-calls", "0")
    code, out, err = ask(sim, *command, *limits)
    assert (code, "--max-calls 0 is reached" in out + err) == (4, True)
    assert (seen[0].rpm, seen[0].tpm) == (600, 9_000_000)
    assert (seen[0].concurrency, seen[0].start) == (3, None)
