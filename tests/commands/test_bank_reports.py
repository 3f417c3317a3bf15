"""`svr fit` and `svr train` leave a history and a page behind, `svr report BANK` writes it; small dev is named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from made_history import made_history
from made_pairs import write_candidates, write_made
from rig import RULES, svr_here

from svr_async.core.rubric import Rubric
from svr_async.fit import learning_curve as curves
from svr_async.fit.choices import Structure
from svr_async.scoring.bank import UNIFORM, BankRubric, InferenceSettings, RubricBank
from svr_async.scoring.bank_history import BankHistory
from svr_async.training.running import refit


def history_of(bank: Path) -> BankHistory:
    """Return what a bank tells of its making."""
    history = RubricBank.load(bank).history
    assert history is not None
    return history


def save_bank(folder: Path) -> Path:
    """Write a small bank with a history."""
    entry = BankRubric(rubric=Rubric(text="Is kind."), weight=0.5)
    RubricBank(
        rubrics=(entry,), selector_kind=UNIFORM, inference=InferenceSettings(), judge="gpt", history=made_history()
    ).save(folder)
    return folder


def test_a_fit_tells_its_epochs_and_leaves_history_and_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line an epoch on standard error; curves of every seed, yardsticks and the judge's label in the bank."""
    write_made(folder / "made.jsonl")
    write_candidates(folder / "c.jsonl")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    flags = ("--preset", "paper", "--epochs", "2", "--seeds", "2", "--seed", "7")
    assert svr_here("fit", "store", "--out", "out", *flags) == 0
    said = capsys.readouterr()
    heads = [line.split(":")[0] for line in said.err.splitlines()]
    for seed in (7, 8):
        for part in (f"seed {seed}, epoch 1", f"seed {seed}, epoch 2", f"seed {seed}"):
            assert part in heads
    assert "report     out/report.html" in said.out
    told = history_of(folder / "out" / "bank").trained_on
    assert told is not None
    n_dev = told.dev_pairs
    assert f"accuracy not reported: {n_dev} held-out pairs, 100 needed" in said.out
    history = RubricBank.load(folder / "out" / "bank").history
    assert history is not None
    *fits, calibration = history.curves  # the seed that was taken goes on after pruning
    assert [(curve.seed, len(curve.epochs)) for curve in fits] == [(7, 2), (8, 2)]
    assert (calibration.seed, calibration.phase) == (history.chosen_seed, "calibrate")
    assert history.chosen_seed in {7, 8}
    assert told.train_pairs + n_dev == 120
    assert history.linear_accuracy is not None
    page = (folder / "out" / "report.html").read_text()
    assert "OFFLINE RULES" in page
    assert f"{n_dev} held-out pairs, 100 needed" in page
    assert svr_here("fit", "store", "--out", "out", *flags, "--json") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert orjson.loads(said.out)["seeds"] == 2
    assert (folder / "out" / "report.html").read_text() == page


def test_a_training_leaves_history_and_page_and_warns_of_a_small_dev_split(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rounds have their curves and facts; the warning is said, and kept in the record and on the page.

    A run on the pairs of the training says that they are.
    """
    write_made(folder / "made.jsonl")
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "--rounds", "2", "--ablate", "probe") == 0
    said = capsys.readouterr()
    warning = next(line for line in said.err.splitlines() if "warning" in line)
    assert said.err.splitlines()[1].endswith("  judge rules (offline checks, no model)")
    assert "filler" not in said.out
    assert "for a prompt" in said.out
    record = orjson.loads((folder / "out" / "record.json").read_bytes())
    assert f"{record['dev_pairs']} held-out pairs" in warning
    history = RubricBank.load(folder / "out" / "bank").history
    assert history is not None
    assert record["warnings"] == list(history.warnings)
    assert [facts.round for facts in history.rounds] == [one["round"] for one in record["rounds"]]
    phases = [(curve.round, curve.phase) for curve in history.curves]
    assert phases == [(n, phase) for n in range(1, len(history.rounds) + 1) for phase in ("fit", "calibrate")]
    assert history.trained_on is not None
    assert history.trained_on.ablate == ("probe",)
    assert history.trained_on.source == "made.jsonl"
    assert history.rounds[0].active is not None
    assert history.linear_accuracy is not None
    page = (folder / "out" / "report.html").read_text()
    assert "OFFLINE RULES" in page
    assert "Ablation" in page
    assert "(standard error " in page
    few = f"accuracy not reported: {record['dev_pairs']} held-out pairs, 100 needed"
    assert record["headline"] == few
    assert few in said.out
    assert few in said.err
    assert few[1:] in page
    assert "held-out pairs, 100 needed" in (folder / "out" / "bank" / "card.md").read_text()
    assert not re.search(r"dev accuracy [\d.]+ %", said.out + said.err + page)
    assert history.choice is not None
    assert orjson.loads(orjson.dumps(history.choice.as_json())) == record["rounds"][-1]["structure"]
    assert "The structure that was chosen" in page
    write_made(folder / "new.jsonl", 60)
    for name, seen in (("made", True), ("new", False)):
        told = ("--bank", "out/bank", *RULES, "--limit", "5", "--out", f"run-{name}", "-q")
        assert svr_here("eval", "pairs", "--data", f"{name}.jsonl", *told) == 0
        assert ("the bank was trained on these very pairs" in capsys.readouterr().out) is seen


@pytest.fixture
def simple(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let learning curves have one structure, so that each of their forty fits takes no time."""
    structure = Structure(sparsity=0.0, solver="shrunken")
    fitted = curves.learning_curve
    monkeypatch.setattr(
        refit, "learning_curve", lambda train, config: fitted(train, replace(config, structure=structure))
    )


@pytest.mark.usefixtures("simple")
def test_a_learning_curve_is_printed_kept_and_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By `svr train` and, on the same judgements, by `svr-fit`: the same curve, and the bank is otherwise the same."""
    write_made(folder / "made.jsonl")
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "--rounds", "1", "--learning-curve") == 0
    said = capsys.readouterr().out
    assert "learning curve on" in said
    assert "The last doubling, from" in said
    curve = history_of(folder / "out" / "bank").learning_curve
    record = orjson.loads((folder / "out" / "record.json").read_bytes())
    assert curve is not None
    assert record["learning_curve"] == orjson.loads(orjson.dumps(curve.as_json()))
    assert [point["share"] for point in record["learning_curve"]["points"]] == [0.125, 0.25, 0.5, 1.0]
    assert "More pairs" in (folder / "out" / "report.html").read_text()
    assert svr_here("fit", "out/stores/round-1", "--out", "again", "--learning-curve", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["learning_curve"] == record["learning_curve"]
    assert history_of(folder / "again" / "bank").learning_curve == curve
    selector = (folder / "out" / "bank" / "selector.safetensors").read_bytes()
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "--rounds", "1") == 0
    assert "learning_curve" not in orjson.loads((folder / "out" / "record.json").read_bytes())
    assert (folder / "out" / "bank" / "selector.safetensors").read_bytes() == selector


def test_too_few_prompts_leave_the_learning_curve_out_and_not_the_bank(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was judged is not lost: a line says why there is no curve."""
    write_made(folder / "made.jsonl", 30)
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "--rounds", "1", "--learning-curve") == 0
    said = capsys.readouterr()
    assert "no learning curve" in said.err
    assert "learning curve on" not in said.out
    assert history_of(folder / "out" / "bank").learning_curve is None


def test_a_learning_curve_of_the_papers_preset_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is of the default fit: exit 2 and one line before anything is judged."""
    write_made(folder / "made.jsonl", 30)
    flags = ("--learning-curve", "--preset", "paper")
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", *flags) == 2
    assert "--learning-curve is of the default fit only" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_report_knows_a_bank_and_a_trainings_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page goes into the folder that was named, or where --out says; the same bank gives the same page."""
    save_bank(folder / "mine" / "bank")
    assert svr_here("report", "mine/bank") == 0
    assert "wrote mine/bank/report.html" in capsys.readouterr().out
    assert svr_here("report", "mine", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["out"] == "mine/report.html"
    assert svr_here("report", "mine/bank", "--out", "page.html") == 0
    pages = {(folder / name).read_bytes() for name in ("mine/bank/report.html", "mine/report.html", "page.html")}
    assert len(pages) == 1
    assert b"Is kind." in pages.pop()
    assert RubricBank.load(folder / "mine" / "bank").judge == "gpt"


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("mine", "mine"), 2, "one bank"),
        (("mine", "--out", "x.md"), 2, ".html"),
        (("nowhere",), 2, "nowhere"),
    ],
)
def test_what_cannot_be_reported_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, word: str
) -> None:
    """Two banks at once, a table of a bank, or a folder that is neither run nor bank."""
    save_bank(folder / "mine" / "bank")
    assert svr_here("report", *args) == code
    said = capsys.readouterr().err.strip()
    assert word in said
    assert len(said.splitlines()) == 1


def test_a_damaged_bank_is_not_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A history that was changed by hand is refused with exit 7, and no page is written."""
    held = save_bank(folder / "bank")
    file = held / "history.json"
    file.write_bytes(file.read_bytes().replace(b"0.58", b"0.98"))
    assert svr_here("report", "bank") == 7
    assert "history.json" in capsys.readouterr().err
    assert not (held / "report.html").exists()
