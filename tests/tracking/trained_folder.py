"""What a training leaves behind, as trackers are told of it, without one; and a key that nobody may be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rig import write_bank

from svr_async.scoring.bank import RubricBank

KEY = "sk-made-up-and-secret"


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
