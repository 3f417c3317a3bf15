"""Fixtures of the trackers' tests: an evaluation over HTTP, made once, and the folder of a training."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig import name_judge, serving, write_bench
from trained_folder import KEY

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.simulation.config import SimConfig


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that a simulated endpoint judged, which wants a key and has a price."""
    folder = tmp_path_factory.mktemp("tracked")
    write_bench(folder / "bench.jsonl", 20)
    with pytest.MonkeyPatch.context() as patch, serving(SimConfig(api_key=KEY)) as guarded:
        patch.chdir(folder)
        patch.setenv("MY_KEY", KEY)
        name_judge(folder, guarded.base_url, key_env="MY_KEY", price=[1.0, 1.0, 2.0])
        args = ["eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "-q", "--out", "run"]
        assert run(group, "svr", args) == 0
    return folder / "run"
