"""`svr fit` and `svr train` leave a history and a page behind, `svr report BANK` writes it; small dev is named."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from made_history import made_history
from made_pairs import write_made
from rig import RULES, svr_here

from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import UNIFORM, BankRubric, InferenceSettings, RubricBank


def save_bank(folder: Path) -> Path:
    """Write a small bank with a history."""
    entry = BankRubric(rubric=Rubric(text="Is kind."), weight=0.5)
    RubricBank(
        rubrics=(entry,), selector_kind=UNIFORM, inference=InferenceSettings(), judge="gpt", history=made_history()
    ).save(folder)
    return folder


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
    assert few.removeprefix("accuracy ") in said.out
    assert few in said.err
    assert few[1:] in page
    assert "held-out pairs, 100 needed" in (folder / "out" / "bank" / "card.md").read_text()
    assert not re.search(r"dev accuracy [\d.]+ %", said.out + said.err + page)
    assert history.choice is not None
    assert orjson.loads(orjson.dumps(history.choice.as_json())) == record["rounds"][-1]["structure"]
    assert "The structure that was chosen" in page
    write_made(folder / "new.jsonl", 60)
    for name, seen in (("made", True), ("new", False)):
        printed = ("--bank", "out/bank", *RULES, "--limit", "5", "--out", f"run-{name}", "-q")
        assert svr_here("eval", "pairs", "--data", f"{name}.jsonl", *printed) == 0
        assert ("the bank was trained on these very pairs" in capsys.readouterr().out) is seen


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
