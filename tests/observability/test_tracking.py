"""What trackers receive of a run; a tracker that fails costs the run one line. Real trackers run if installed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endpoint import SimConfig
from rig import name_judge, serving, svr_here, write_bank, write_bench

from svr_async.observability.trackers import TrackedRun
from svr_async.observability.tracking import evaluation_facts, hand_over, training_facts
from svr_async.scoring.bank import RubricBank

KEY = "sk-made-up-and-secret"


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluate 20 pairs over an endpoint with a key and a price; return the run's folder."""
    folder = tmp_path_factory.mktemp("tracked")
    write_bench(folder / "bench.jsonl", 20)
    with pytest.MonkeyPatch.context() as patch, serving(SimConfig(api_key=KEY)) as guarded:
        patch.chdir(folder)
        patch.setenv("MY_KEY", KEY)
        name_judge(folder, guarded.base_url, key_env="MY_KEY", price=[1.0, 1.0, 2.0])
        assert svr_here("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "-q", "--out", "run") == 0
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


def test_the_facts_of_an_evaluation_are_those_of_its_summary(evaluation: Path) -> None:
    """Accuracy with its interval, dollars, SIMULATED, settings and the report; no key."""
    facts = evaluation_facts(evaluation)
    assert (facts.kind, facts.name, facts.labels[0]) == ("eval", "run", "SIMULATED")
    assert facts.metrics["accuracy/low"] < facts.metrics["accuracy"] < facts.metrics["accuracy/high"]
    assert facts.metrics["cost_usd"] > 0
    assert (facts.settings["judge"], "cache" in facts.settings) == ("sim", False)
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
    few = training_facts("train", write_training(tmp_path, 40), {}, record(40))
    assert not [name for name in [*few.metrics, *few.series[0][1]] if "accuracy" in name]


def test_a_tracker_that_fails_costs_one_line(tmp_path: Path) -> None:
    """An error, no answer in time, and a folder without a run: a warning each, and no exception."""
    lines: list[str] = []
    facts = partial(training_facts, "train", write_training(tmp_path), {}, record(400))
    hand_over(["notes"], facts, lines.append)
    hand_over(["wandb"], facts, lines.append, limit_s=0.0)
    hand_over(["wandb", "mlflow"], partial(evaluation_facts, tmp_path / "none"), lines.append)
    starts = ("notes: KeyError", "wandb: no answer in 0 s", "wandb, mlflow: UsageError")
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(f"warning: this run is not in {start}")


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
@pytest.mark.timeout(600)
def test_each_tracker_stores_runs_offline(
    name: str, evaluation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation and a training are stored on this machine, with labels and without the key."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    lines: list[str] = []
    hand_over([name], partial(evaluation_facts, evaluation), lines.append)
    out = write_training(tmp_path / "out")
    hand_over([name], partial(training_facts, "train", out, {}, record(400)), lines.append)
    assert [line.startswith(f"{name}: ") for line in lines] == [True, True], lines
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"SIMULATED" in stored
    assert b"OFFLINE RULES" in stored
    assert KEY.encode() not in stored
