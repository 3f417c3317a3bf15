"""What trackers are handed, and that none of them can cost a run anything."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from trained_folder import KEY, record, write_training

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.tracking.contract import Tracked, flat_numbers
from svr_async.tracking.facts import of_evaluation, of_training
from svr_async.tracking.hand_over import hand_over
from svr_async.tracking.registry import NAMES, tracker_of

COMMANDS = (
    ("eval", "rubricbench", "--sample"),
    ("train", "pairs.jsonl", "--out", "out"),
    ("fit", "store", "--out", "out"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_package_that_is_missing_is_said_before_anything(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One line with the extra that brings it, exit 2, and nothing is written; a tracker that is none is refused."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        monkeypatch.setitem(sys.modules, name, None)
        assert run(group, "svr", [*command, "--track", name]) == 2
        assert capsys.readouterr().err == f"svr: --track {name} needs {name} — pip install 'svr-async[{name}]'\n"
    assert run(group, "svr", [*command, "--track", "notes"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_every_name_has_a_tracker() -> None:
    """Each name has a file, which loads without its package (tests/test_layers.py holds that for all)."""
    assert all(callable(tracker_of(name)) for name in NAMES)


def test_what_is_told_of_an_evaluation(evaluated: Path) -> None:
    """Accuracy with its interval, dollars, calls, SIMULATED, settings and the report; and no key."""
    told = of_evaluation(evaluated)
    assert (told.kind, told.name, told.labels[0]) == ("eval", "run", "SIMULATED")
    assert "say nothing about any real judge" in told.note
    low, high = told.metrics["accuracy_ci95/low"], told.metrics["accuracy_ci95/high"]
    assert low < told.metrics["accuracy"] < high
    assert told.metrics["cost_usd"] > 0
    assert told.metrics["calls/sent"] > 0
    assert told.settings["judge"] == "sim"
    assert "cache" not in told.settings
    assert [Path(file).name for file in told.files] == ["report.html"]
    assert KEY.encode() not in told.to_bytes()
    assert Tracked.from_bytes(told.to_bytes()).to_bytes() == told.to_bytes()


def test_what_is_told_of_a_training(tmp_path: Path) -> None:
    """The dev accuracy with its interval, each round as a step, dollars; no accuracy of too few dev pairs."""
    told = of_training("train", write_training(tmp_path), {"preset": "default", "author": None}, record(400))
    assert (told.kind, list(told.labels)) == ("train", ["OFFLINE RULES"])
    assert told.metrics["dev_accuracy_ci95/low"] == pytest.approx(0.758, abs=0.001)
    assert told.metrics["cost_usd"] == 1.25
    assert [(step, numbers["round/kept"]) for step, numbers in told.series] == [(1, 10.0), (2, 20.0)]
    assert told.settings["preset"] == "default"
    few = of_training("train", write_training(tmp_path, 40), {}, record(40))
    assert not [name for name in [*few.metrics, *few.series[0][1]] if "accuracy" in name]


def test_a_tracker_can_cost_a_run_a_line(tmp_path: Path) -> None:
    """One that raises, one that does not answer, and a folder that cannot be read: each is said, none is raised."""
    said: list[str] = []
    facts = partial(of_training, "train", write_training(tmp_path), {}, record(400))
    hand_over(["nobody"], facts, said.append)
    hand_over(["wandb"], facts, said.append, limit_s=0.0)
    hand_over(["wandb", "mlflow"], partial(of_evaluation, tmp_path / "none"), said.append)
    hand_over([], partial(of_evaluation, tmp_path / "none"), said.append)
    assert said[0].startswith("warning: nobody was not told of this run: ModuleNotFoundError")
    assert said[1] == "warning: wandb was not told of this run: no answer in 0 s"
    assert said[2].startswith("warning: wandb, mlflow not told of this run: UsageError")
    assert len(said) == 3
    assert all("\n" not in line for line in said)


def test_numbers_are_flat() -> None:
    """Names have slashes, intervals two ends; texts, truths and lists are no numbers."""
    values = {"a": 1, "b": {"ci95": [0.1, 0.2], "word": "x"}, "c": True, "d": [1, 2, 3], "e": [{"f": 1}, {"f": 2}]}
    assert flat_numbers(values) == {"a": 1.0, "b/ci95/low": 0.1, "b/ci95/high": 0.2}
