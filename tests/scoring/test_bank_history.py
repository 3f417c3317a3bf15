"""The history of a bank's fits: stored beside the bank, checked on reading, and not needed to score."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_bank import made_bank
from made_history import made_curve, made_history, made_record

from svr_async.errors import ArtefactError
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn, history_bytes, history_from_json


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


def test_a_history_that_the_bank_does_not_name_is_not_read(tmp_path: Path) -> None:
    """A file that was put beside a bank is not believed to be of this bank."""
    made_bank().save(tmp_path)
    (tmp_path / "history.json").write_bytes(history_bytes(made_history()))
    assert RubricBank.load(tmp_path).history is None


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    """Cut, changed or missing: refused with exit 7, naming the file."""
    made_bank(history=made_history()).save(tmp_path)
    file = tmp_path / "history.json"
    data = file.read_bytes()
    for broken in (data[:-1], data.replace(b"0.58", b"0.59"), b"", None):
        file.unlink(missing_ok=True)
        if broken is not None:
            file.write_bytes(broken)
        with pytest.raises(ArtefactError, match=r"history\.json"):
            RubricBank.load(tmp_path)


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
        (("curves",), {}),
        (("curves", 0), []),
        (("curves", 0, "epochs", 1, "dev_accuracy"), 1.5),
        (("curves", 0, "epochs", 1, "dev_loss"), "0.5"),
        (("curves", 0, "epochs", 1, "dev_loss"), None),
        (("curves", 0, "epochs", 1, "active"), 1.5),
        (("curves", 0, "epochs", 1, "active"), -1),
        (("curves", 0, "epochs", 1, "more"), 1),
        (("curves", 0, "dev_pairs"), True),
        (("curves", 0, "phase"), "x" * 5000),
        (("rounds", 0, "bank"), None),
        (("rounds", 0, "round"), "1"),
        (("trained_on",), []),
        (("edits",), [{"what": "disabled"}]),
        (("edits",), [[]]),
        (("trained_on", "ablate"), [1]),
        (("trained_on", "ablate"), "probe"),
        (("warnings",), [None]),
        (("linear_accuracy",), -0.1),
        (("choice",), []),
        (("choice", "structure"), None),
        (("choice", "structure", "groups"), -1),
        (("choice", "structure", "solver"), "other"),
        (("choice", "structure", "solver"), [1]),
        (("choice", "left_out"), "pairs"),
        (("choice", "ridges"), [1]),
        (("choice", "trials", 0, "accuracy"), 1.5),
        (("choice", "trials", 0, "structure"), None),
        (("choice", "more"), 1),
        (("learning_curve", "points"), []),
        (("learning_curve", "points", 1, "accuracy"), -0.5),
        (("learning_curve", "gain"), "0.1"),
    ],
)
def test_a_value_that_a_history_cannot_hold_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    """A wrong kind, range or name is refused with the field's place, whoever wrote the digest."""
    with pytest.raises(ValueError, match=r"\w"):
        history_from_json(change(path, value))


def test_a_field_that_is_missing_is_named() -> None:
    """An epoch without its loss is no epoch."""
    plain = change(("chosen_seed",), 42)
    del plain["curves"][0]["epochs"][0]["dev_loss"]
    with pytest.raises(ValueError, match=r"curves\[0\]\.epochs\[0\] is incomplete.*dev_loss"):
        history_from_json(plain)


def test_the_places_of_spurious_rubrics_come_back() -> None:
    """A choice names the rubrics without effect by their places; no text passes for one."""
    choice = history_from_json(change(("choice", "spurious"), [0, 3])).choice
    assert choice is not None
    assert choice.spurious == (0, 3)
    with pytest.raises(ValueError, match=r"choice\.spurious"):
        history_from_json(change(("choice", "spurious"), ["a"]))


def test_the_chosen_curve_is_the_last_of_its_round_and_seed() -> None:
    """Calibration comes after the fit, and its selector is the bank's; without a curve there is none."""
    history = made_history(rounds=2, chosen_round=1)
    assert history.chosen == made_curve(round=1, phase="calibrate")
    seeds = (made_curve(seed=1), made_curve(seed=2))
    bare = BankHistory(trained_on=TrainedOn(train_pairs=1, dev_pairs=0), curves=seeds, chosen_seed=1)
    assert bare.chosen == seeds[0]
    assert BankHistory(trained_on=TrainedOn(train_pairs=1, dev_pairs=0)).chosen is None


def test_a_history_without_choice_and_curve_is_written_as_before_there_were_any() -> None:
    """Older banks keep their bytes and thereby their digests."""
    plain = orjson.loads(history_bytes(made_history(choice=None, learning_curve=None)))
    assert not {"choice", "learning_curve"} & set(plain)
    back = history_from_json(plain)
    assert (back.choice, back.learning_curve) == (None, None)


def test_unknown_values_stay_unknown() -> None:
    """None comes back as None where it is allowed: no adversarial loss, no yardstick, nobody looked for overlap."""
    epochs = (made_record(1, adversarial_loss=0.4), made_record(2))
    history = made_history(curves=(made_curve(epochs=epochs),), linear_accuracy=None)
    back = history_from_json(orjson.loads(history_bytes(history)))
    assert [record.adversarial_loss for record in back.curves[0].epochs] == [0.4, None]
    assert back.linear_accuracy is None
    assert back.trained_on is not None
    assert back.trained_on.contaminated is None
