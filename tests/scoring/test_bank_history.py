"""The history of a bank's fits: stored beside the bank, checked on reading, and not needed to score."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_bank import made_bank
from made_history import made_curve, made_history

from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn, history_bytes, read_history


def test_the_same_history_comes_back(tmp_path: Path) -> None:
    """Curves, rounds, yardsticks, structure, candidates, what it was trained on: saved, loaded, in the same bytes."""
    bank = made_bank(history=made_history())
    bank.save(tmp_path / "one")
    back = RubricBank.load(tmp_path / "one")
    back.save(tmp_path / "two")
    assert back.history == bank.history
    assert (tmp_path / "one" / "history.json").read_bytes() == (tmp_path / "two" / "history.json").read_bytes()
    assert back.digest == bank.digest != made_bank().digest


def test_a_bank_without_history_takes_away_the_one_of_the_bank_before(tmp_path: Path) -> None:
    """Where a bank replaces another in its folder, no curve of the other one stays; older banks load as they are."""
    made_bank(history=made_history()).save(tmp_path)
    made_bank().save(tmp_path)
    assert not (tmp_path / "history.json").exists()
    assert RubricBank.load(tmp_path).history is None


def change(path: tuple[str | int, ...], value: Any) -> Any:
    """Return the JSON of a history with one value replaced; a path of keys and places."""
    plain = copy.deepcopy(orjson.loads(history_bytes(made_history(rounds=1))))
    at = plain
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("format",), "svr-bank"),
        (("curves", 0, "epochs", 1, "dev_loss"), "0.5"),
        (("rounds", 0, "bank"), None),
        (("edits",), [{"what": "disabled"}]),
        (("choice", "structure", "solver"), "other"),
        (("learning_curve", "points"), []),
    ],
)
def test_a_value_that_a_history_cannot_hold_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    """A wrong kind, range or name is refused with the field's place, whoever wrote the digest."""
    with pytest.raises(ValueError, match=r"\w"):
        read_history(orjson.dumps(change(path, value)))


def test_the_chosen_curve_is_the_last_of_its_round_and_seed() -> None:
    """Calibration comes after the fit, and its selector is the bank's; without a curve there is none."""
    history = made_history(rounds=2, chosen_round=1)
    assert history.chosen == made_curve(round=1, phase="calibrate")
    seeds = (made_curve(seed=1), made_curve(seed=2))
    bare = BankHistory(trained_on=TrainedOn(train_pairs=1, dev_pairs=0), curves=seeds, chosen_seed=1)
    assert bare.chosen == seeds[0]
    assert BankHistory(trained_on=TrainedOn(train_pairs=1, dev_pairs=0)).chosen is None
