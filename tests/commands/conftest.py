"""Fixtures of tests that train: one simulated endpoint, and one training without a stop."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from endpoint import SimServer
from made_pairs import PATIENCE_S, TRAIN, write_planted
from rig import name_judge, svr

from svr_async.commands.main import run
from svr_async.commands.main import svr as group

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this test run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs `svr …` in an empty folder; it returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(group, "svr", [*map(str, args)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(sim: SimServer, shared: Path) -> Path:
    """Train once, over two rounds, without a stop; return the folder in which the command was given."""
    where = shared / "trained"
    where.mkdir(exist_ok=True)
    with (shared / "trained.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker trains, the others wait for it
        if not (where / "out" / "record.json").exists():
            write_planted(where / "pairs.jsonl")
            name_judge(where, sim.base_url)
            done = svr(*TRAIN, "--json", "--price", "0.15/0.6", cwd=where, timeout=PATIENCE_S)
            assert done.returncode == 0, done.stderr
            (where / "printed.json").write_text(done.stdout)
    return where
