"""`train(settings)`, `induce`, `judge` and `fit_store` for programs: what the commands do, without a command line."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_pairs import PATIENCE_S, files_of, write_made

from svr_async import Bank, TrainSettings, train
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.errors import CoverageError, UsageError
from svr_async.fit.history import FitCurve
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.rounds.stages import require_answers
from svr_async.training.running.refit import FitSettings, fit_store
from svr_async.training.running.run import TrainingListener
from svr_async.training.running.single_stages import induce, judge, load_rubrics

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


def test_a_training_goes_on_and_is_not_gone_over(folder: Path) -> None:
    """The same settings compute nothing again; others are refused beside a finished bank."""
    train(settings())
    before, notes = files_of(folder / "mine"), Notes()
    train(settings(), notes)
    assert files_of(folder / "mine") == before
    assert not notes.stages
    with pytest.raises(UsageError, match="finished bank of another training"):
        train(settings(seed=7))


async def test_a_program_with_an_event_loop_trains_in_a_thread(folder: Path) -> None:
    """A training has a loop of its own, which needs no main thread and no signals."""
    result = await asyncio.to_thread(train, settings())
    assert result.bank.rubrics == Bank.load(folder / "mine" / "bank").rubrics


def test_the_stages_in_a_row_end_with_a_bank(folder: Path) -> None:
    """`induce`, `judge` and `fit_store` each take settings and return what they wrote."""
    induced = induce(settings(out=Path("stages")), Path("c.jsonl"))
    rubrics = load_rubrics(None, Path("c.jsonl"))
    assert list(induced.candidates) == list(rubrics)
    judged = judge(settings(out=Path("stages")), rubrics, Path("store"))
    assert judged.entries > 0
    fitted = fit_store(FitSettings(store=Path("store"), out=Path("fitted")))
    assert fitted.bank.rubrics == Bank.load(folder / "fitted" / "bank").rubrics
    assert fitted.record["rubrics"] == len(fitted.bank.rubrics)


@pytest.mark.parametrize("change", [{"preset": "papre"}, {"pool": "none"}, {"ablate": ("inducton",)}, {"pool_size": 0}])
def test_settings_that_no_training_has_are_refused_at_once(change: dict[str, object]) -> None:
    """A UsageError of one line with the value, before a file is read."""
    with pytest.raises(UsageError) as refused:
        settings(**change)
    value = next(iter(change.values()))
    assert str(value[0] if isinstance(value, tuple) else value) in refused.value.message
    assert "\n" not in refused.value.message


def test_too_few_answers_are_for_the_program_to_refuse() -> None:
    """What `--min-coverage` refuses, `require_answers` does: with the counts, and where the reasons are."""
    outcomes = {"judge-1": {"scored": 3, "truncated": 1}}
    require_answers(outcomes, 0.75, Path("failures.jsonl"))
    with pytest.raises(CoverageError, match="1 of 4 questions have no answer"):
        require_answers(outcomes, 0.8, Path("failures.jsonl"))
