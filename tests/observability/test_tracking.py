"""What trackers get of a run, and that a failing tracker costs the run one line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest
from tracked import KEY, evaluate, record, write_training

from svr_async.observability.trackers import TrackedRun
from svr_async.observability.tracking import evaluation_facts, hand_over, training_facts


def test_the_facts_of_an_evaluation_are_those_of_its_summary(tmp_path: Path) -> None:
    """Accuracy with its interval, dollars, SIMULATED, settings and the report; no key."""
    facts = evaluation_facts(evaluate(tmp_path))
    assert (facts.kind, facts.name, facts.labels[0]) == ("eval", "run", "SIMULATED")
    assert "say nothing about any real judge" in facts.note
    assert facts.metrics["accuracy/low"] < facts.metrics["accuracy"] < facts.metrics["accuracy/high"]
    assert facts.metrics["cost_usd"] > 0
    assert facts.metrics["outcome/scored"] == 20
    assert facts.settings["judge"] == "sim"
    assert "cache" not in facts.settings
    assert [Path(file).name for file in facts.files] == ["report.html"]
    data = msgspec.json.encode(facts)
    assert KEY.encode() not in data
    assert msgspec.json.encode(msgspec.json.decode(data, type=TrackedRun)) == data


def test_the_facts_of_a_training_are_those_of_its_bank(tmp_path: Path) -> None:
    """The dev accuracy with its interval, each round as a step, dollars; no accuracy of too few dev pairs."""
    facts = training_facts("train", write_training(tmp_path), {"preset": "default", "author": None}, record(400))
    assert (facts.kind, list(facts.labels)) == ("train", ["OFFLINE RULES"])
    assert facts.metrics["dev_accuracy/low"] == pytest.approx(0.758, abs=0.001)
    assert facts.metrics["cost_usd"] == 1.25
    assert [(step, numbers["round/kept"]) for step, numbers in facts.series] == [(1, 10.0), (2, 20.0)]
    assert facts.settings["preset"] == "default"
    few = training_facts("train", write_training(tmp_path, 40), {}, record(40))
    assert not [name for name in [*few.metrics, *few.series[0][1]] if "accuracy" in name]


def test_a_tracker_that_fails_costs_one_line(tmp_path: Path) -> None:
    """One that raises, one that does not answer, and a folder without a run: a warning each, and no exception."""
    lines: list[str] = []
    facts = partial(training_facts, "train", write_training(tmp_path), {}, record(400))
    hand_over(["notes"], facts, lines.append)
    hand_over(["wandb"], facts, lines.append, limit_s=0.0)
    hand_over(["wandb", "mlflow"], partial(evaluation_facts, tmp_path / "none"), lines.append)
    hand_over([], partial(evaluation_facts, tmp_path / "none"), lines.append)
    assert lines[0].startswith("warning: this run is not in notes: KeyError")
    assert lines[1] == "warning: this run is not in wandb: no answer in 0 s"
    assert lines[2].startswith("warning: this run is not in wandb, mlflow: UsageError")
    assert len(lines) == 3
    assert all("\n" not in line for line in lines)
