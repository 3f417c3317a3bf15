"""Questions of a training without an answer: printed, counted, asked again on request; exit 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import orjson
import pytest
from endpoint import SimConfig, SimServer
from made_pairs import PATIENCE_S, write_candidates, write_planted
from rig import name_judge, read_lines, serving

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.scoring.bank import RubricBank

pytestmark = pytest.mark.timeout(PATIENCE_S)
FAULTS = SimConfig(too_long=0.4)
TRAIN = ("train", "pairs.jsonl", "--judge", "sim", "--out", "out", "--rounds", "1", "--pool-size", "4", "-q")


@pytest.fixture(scope="module")
def healthy() -> Iterator[SimServer]:
    """Serve a flawless endpoint."""
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def failing() -> Iterator[SimServer]:
    """Serve an endpoint that refuses four of ten questions for good, as too long."""
    with serving(FAULTS) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with some planted pairs."""
    monkeypatch.chdir(tmp_path)
    write_planted(tmp_path / "pairs.jsonl", 40)
    write_candidates(tmp_path / "made.jsonl", "Names the place.", "Is brief.")
    return tmp_path


def svr(*args: str) -> int:
    """Run `svr` in this process; return the exit code."""
    return run(group, "svr", [*args])


def counted(outcomes: dict[str, int]) -> tuple[int, int]:
    """Return how many questions have no answer, and how many there are."""
    return sum(outcomes.values()) - outcomes["scored"], sum(outcomes.values())


def other_prompts(folder: Path) -> Path:
    """Return a folder with another wording of the probe's template."""
    shipped = resources.files("svr_async.judges").joinpath("prompts/probe.txt").read_text("utf-8")
    (folder / "prompts").mkdir()
    (folder / "prompts" / "probe.txt").write_text(shipped + "\nTake care.\n")
    return folder / "prompts"


def test_a_training_says_what_failed_and_comes_back_to_it(
    folder: Path, failing: SimServer, healthy: SimServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the screen, in the record and in the bank; with --retry-errors the bank is that of an endpoint without faults.

    Other questions make another training, which does not go over it.
    """
    name_judge(folder, failing.base_url)
    assert svr(*TRAIN) == 3
    out, err = capsys.readouterr()
    assert "judge-1: " in out
    assert re.search(r"questions have no answer: coverage \d+(\.\d+)? % is below 100 % ", err)
    record = orjson.loads((folder / "out" / "record.json").read_bytes())
    assert counted(record["outcomes"]["induce-1"])[0] > 0
    said = [line for line in record["warnings"] if "have no answer (" in line]
    assert {line.split(":")[0] for line in said} >= {"induce-1", "judge-1"}
    bank = RubricBank.load(folder / "out" / "bank")
    assert bank.history is not None
    assert set(said) <= set(bank.history.warnings)
    assert bank.prompts_digest
    assert svr(*TRAIN, "--min-coverage", "0.1") == 0
    name_judge(folder, healthy.base_url)
    assert svr(*TRAIN, "--retry-errors") == 0
    mended = orjson.loads((folder / "out" / "record.json").read_bytes())
    assert {missing for missing, _ in map(counted, mended["outcomes"].values())} == {0}
    assert not [line for line in mended["warnings"] if "no answer" in line]
    assert svr(*TRAIN[:4], "--out", "fresh", *TRAIN[6:]) == 0
    files = ("bank.json", "selector.safetensors", "vocabulary.json", "history.json")
    assert all((folder / "fresh/bank" / n).read_bytes() == (folder / "out/bank" / n).read_bytes() for n in files)
    capsys.readouterr()
    assert svr(*TRAIN, "--rubrics-per-call", "3") == 2
    assert "name another folder with --out" in capsys.readouterr().err
    assert svr("train", *TRAIN[1:], "--prompts", str(other_prompts(folder))) == 2
    assert "name another folder with --out" in capsys.readouterr().err
    assert len(read_lines(folder / "out" / "failures.jsonl")) > 0
