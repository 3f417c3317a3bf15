"""An evaluation and a training as trackers get them; KEY must be in none of their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rig import name_judge, serving, write_bank, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.scoring.bank import RubricBank
from svr_async.simulation.config import SimConfig

KEY = "sk-made-up-and-secret"


def evaluate(folder: Path) -> Path:
    """Evaluate 20 pairs over an endpoint with a key and a price; return the run's folder."""
    write_bench(folder / "bench.jsonl", 20)
    with pytest.MonkeyPatch.context() as patch, serving(SimConfig(api_key=KEY)) as guarded:
        patch.chdir(folder)
        patch.setenv("MY_KEY", KEY)
        name_judge(folder, guarded.base_url, key_env="MY_KEY", price=[1.0, 1.0, 2.0])
        args = ["eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "-q", "--out", "run"]
        assert run(group, "svr", args) == 0
    return folder / "run"


def record(dev_pairs: int) -> dict[str, Any]:
    """Return the record of a training with two rounds."""
    rounds = [{"round": one, "kept": 10 * one, "dev_accuracy": 0.7 + one / 100} for one in (1, 2)]
    return {"dev_pairs": dev_pairs, "train_pairs": 900, "rounds": rounds, "cost_usd": 1.25, "judge": "a judge"}


def write_training(folder: Path, dev_pairs: int = 400) -> Path:
    """Write a bank and a report as a training does; return the folder."""
    bank = RubricBank.load(write_bank(folder / "bank"))
    metrics = {"accuracy": 0.8, "pairs": dev_pairs}
    replace(bank, dev_metrics=metrics, marks=frozenset({"offline_rules"})).save(folder / "bank")
    (folder / "report.html").write_text("<p>A report.</p>")
    return folder
