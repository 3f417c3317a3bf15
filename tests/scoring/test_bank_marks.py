"""The marks of a bank's judge are stored with the bank."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from svr_async.core.integrity import Marks
from svr_async.core.rubric import Rubric
from svr_async.errors import ArtefactError
from svr_async.reports.bank_summary import summarise_bank
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.training.bank.edit import merge_banks


def made(judge: str, marks: Marks, text: str = "Is kind.") -> RubricBank:
    """Return a bank of one rubric by a judge."""
    return RubricBank(rubrics=(BankRubric(rubric=Rubric(text=text)),), judge=judge, marks=marks)


@pytest.mark.parametrize("marks", [frozenset(), frozenset({"simulated"})])
def test_marks_come_back_with_a_bank(marks: Marks, tmp_path: Path) -> None:
    """As they were, whatever the label's words are: a model that is called so is not taken for a simulated one."""
    made("simulated-annealer-7b", marks).save(tmp_path)
    held = RubricBank.load(tmp_path)
    assert held.marks == marks
    assert len(summarise_bank(held).marks) == len(marks)


def test_merged_banks_have_the_marks_of_all() -> None:
    """Also where their labels differ, so that none is left; rules are named only where nothing else judged."""
    rules, simulated = made("rules", frozenset({"offline_rules"})), made("b", frozenset({"simulated"}), "Is brief.")
    assert merge_banks([rules, simulated]).marks == {"simulated"}
    assert merge_banks([rules, made("rules", frozenset({"offline_rules"}), "Is brief.")]).marks == {"offline_rules"}


def test_marks_that_are_none_are_refused(tmp_path: Path) -> None:
    """A bank whose marks are no list of words is not read, and the error names the file."""
    made("a judge", frozenset()).save(tmp_path)
    path = tmp_path / "bank.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"marks": "simulated"}))
    with pytest.raises(ArtefactError, match=r"bank\.json.*marks"):
        RubricBank.load(tmp_path)
