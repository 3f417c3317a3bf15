"""`train(settings)`, `induce`, `judge` and `fit_store` for programs: what the commands do, without a command line."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_pairs import PATIENCE_S, files_of, write_made

from svr_async import Bank
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.fit.history import FitCurve
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.running.run import TrainingListener
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.train import train

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


class Notes(TrainingListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.judge, self.fits_seen = "", 0
        self.said: list[str] = []
        self.stages: dict[str, int] = {}

    def opened(self, judge: OpenJudge) -> None:
        """Note the judge."""
        self.judge = judge.label

    def say(self, text: str) -> None:
        """Note a sentence."""
        self.said.append(text)

    def stage(self, what: str, total: int) -> None:
        """Note a stage."""
        self.stages[what] = total

    def end(self, curve: FitCurve) -> None:
        """Count a fit."""
        self.fits_seen += curve.phase == "fit"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with pairs in it."""
    monkeypatch.chdir(tmp_path)
    write_made(tmp_path / "made.jsonl")
    return tmp_path


def settings(**changes: Any) -> TrainSettings:
    """Return settings of a training of one round on the made pairs."""
    return TrainSettings(**{"pairs": Path("made.jsonl"), "out": Path("mine"), "judge": "rules", "rounds": 1, **changes})


def test_a_program_and_the_command_train_the_same_bank(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte, stores and record too; the result is what is on disk, the listener is told, nothing is printed."""
    notes, heard = Notes(), signal.getsignal(signal.SIGTERM)
    result = train(settings(), notes)
    assert capsys.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGTERM) is heard
    assert run(group, "svr", ["train", "made.jsonl", "--judge", "rules", "--rounds", "1", "--out", "cli", "-q"]) == 0
    for part in ("bank", "stores", "stages"):
        assert files_of(folder / "mine" / part) == files_of(folder / "cli" / part)
    assert (folder / "mine" / "record.json").read_bytes() == (folder / "cli" / "record.json").read_bytes()
    assert orjson.loads(orjson.dumps(result.record)) == orjson.loads((folder / "mine" / "record.json").read_bytes())
    assert result.bank.rubrics == Bank.load(result.folder / "bank").rubrics
    assert result.warnings == tuple(result.record["warnings"])
    assert [one.number for one in result.rounds] == [1]
    assert (notes.judge, notes.fits_seen, result.stats) == (result.record["judge"], 1, None)
    assert set(notes.stages) == {"inducing", "judging"}
    assert notes.said[1] == "judge rules (offline checks, no model)"


async def test_a_program_with_an_event_loop_trains_in_a_thread(folder: Path) -> None:
    """A training has a loop of its own, which needs no main thread and no signals."""
    result = await asyncio.to_thread(train, settings())
    assert result.bank.rubrics == Bank.load(folder / "mine" / "bank").rubrics
