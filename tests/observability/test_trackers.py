"""The real trackers, offline, where their packages are installed (docs/observability.md)."""

from __future__ import annotations

import sqlite3
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from tracked import KEY, evaluate, record, write_training

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.observability.tracking import evaluation_facts, hand_over, training_facts

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]


def needs(package: str) -> pytest.MarkDecorator:
    """Skip a test whose package is not installed."""
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an evaluation."""
    return evaluate(tmp_path_factory.mktemp("tracked"))


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder, where all trackers store their files, and send nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")


def track(name: str, folder: Path) -> list[str]:
    """Hand an evaluation and a training to a tracker; return the lines."""
    lines: list[str] = []
    hand_over([name], partial(evaluation_facts, folder), lines.append)
    out = write_training(Path("out").absolute())
    hand_over([name], partial(training_facts, "train", out, {"preset": "paper"}, record(400)), lines.append)
    return lines


@needs("wandb")
def test_wandb_keeps_runs_offline(evaluated: Path, tmp_path: Path) -> None:
    """Two offline runs lie in WANDB_DIR with settings, numbers, labels and the report, and no key."""
    lines = track("wandb", evaluated)
    kept = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert [line.startswith("wandb: ") for line in lines] == [True, True]
    assert len(kept) == 2
    first = kept[0].read_bytes()
    for words in (b"accuracy/low", b"cost_usd", b"SIMULATED", b"judge_label", b"report.html"):
        assert words in first
    assert b"OFFLINE RULES" in kept[1].read_bytes()
    assert KEY.encode() not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


@needs("mlflow")
def test_mlflow_keeps_runs_in_its_store(evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters, metrics, tags and the report are in the store; a server that is not there costs a line."""
    import mlflow

    assert [line.partition(" run ")[0] for line in track("mlflow", evaluated)] == [
        f"mlflow: sqlite:///{tmp_path}/mlflow.db"
    ] * 2
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    training, evaluation = mlflow.search_runs(experiment_names=["svr-async"], output_format="list")
    assert evaluation.data.tags["labels"].startswith("SIMULATED")
    assert evaluation.data.metrics["accuracy/low"] < evaluation.data.metrics["accuracy"]
    assert evaluation.data.params["judge"] == "sim"
    assert training.data.metrics["round/kept"] == 20
    assert [file.path for file in mlflow.artifacts.list_artifacts(run_id=training.info.run_id)] == ["report.html"]
    assert KEY.encode() not in (tmp_path / "mlflow.db").read_bytes()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    lines: list[str] = []
    hand_over(["mlflow"], partial(evaluation_facts, evaluated), lines.append, limit_s=120)
    assert lines[0].startswith("warning: this run is not in mlflow: ")


@needs("trackio")
def test_trackio_keeps_runs_on_this_machine(evaluated: Path, tmp_path: Path) -> None:
    """Its database has both runs with settings and numbers."""
    assert track("trackio", evaluated) == ["trackio: project svr-async, run run", "trackio: project svr-async, run out"]
    with sqlite3.connect(tmp_path / "trackio" / "svr-async.db") as database:
        (numbers,) = database.execute("select metrics from metrics where run_name = 'run'").fetchone()
        configs = str(database.execute("select * from configs").fetchall())
    assert "accuracy/low" in str(numbers)
    assert "SIMULATED" in configs
    assert KEY not in configs


@needs("wandb")
def test_a_training_and_a_fit_are_tracked_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--track` of `svr train` and `svr fit` leaves a run each; standard output is theirs alone."""
    assert run(group, "svr", ["sim", "--seed", "1", "--train", "80", "--write", "world"]) == 0
    train = [
        "train",
        "world/train.jsonl",
        "--judge",
        "rules",
        "--rounds",
        "1",
        "--out",
        "out",
        "-q",
        "--track",
        "wandb",
    ]
    assert run(group, "svr", train) == 0
    assert run(group, "svr", ["fit", "out/stores/round-1", "--out", "again", "-q", "--track", "wandb"]) == 0
    out, err = capsys.readouterr()
    assert "wandb" not in out
    assert err.count("wandb: ") == 2
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 2
