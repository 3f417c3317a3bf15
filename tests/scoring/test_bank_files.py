"""Banks on disk: the same bank comes back, and nothing that was damaged or made with ill will does."""

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from made_bank import made_bank
from made_history import made_curve, made_history

from svr_async.core.rubric import Rubric
from svr_async.errors import ArtefactError, UsageError
from svr_async.fit.forward import pack_tensors, unpack_tensors
from svr_async.scoring.bank import BankHistory, BankRubric, InferenceSettings, RubricBank
from svr_async.training.bank.edit import merge_banks

FILES = ("bank.json", "selector.safetensors", "vocabulary.json", "card.md")


class Canary:
    """Unpickling this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (self.mark,)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a saved bank."""
    made_bank().save(tmp_path / "bank")
    return tmp_path / "bank"


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change bank.json in place."""
    path = folder / "bank.json"
    value = orjson.loads(path.read_bytes())
    change(value)
    path.write_bytes(orjson.dumps(value))


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes into a file and their digest into bank.json, as someone with ill will would."""
    (folder / name).write_bytes(data)
    edit(folder, lambda value: value["files"][name].update(sha256=sha256(data).hexdigest(), bytes=len(data)))


def refused(folder: Path) -> str:
    """Return the one-line error that loading gives."""
    with pytest.raises(ArtefactError) as caught:
        RubricBank.load(folder)
    assert caught.value.exit_code == 7
    assert "\n" not in caught.value.one_line()
    return caught.value.one_line()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"inference": InferenceSettings(direct=True)},
        {"history": made_history()},
        {"judge": "simulated-annealer-7b", "notes": ("“quoted” \u202e 日本", "\x00")},  # a word that is no mark
        {"marks": frozenset({"simulated"})},
    ],
)
def test_the_same_bank_comes_back_in_the_same_bytes(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Rubrics, arrays, vocabulary, settings, history and marks survive; each file is the same when saved again."""
    bank = made_bank(**changes)
    bank.save(tmp_path / "one")
    back = RubricBank.load(tmp_path / "one")
    assert back.save(tmp_path / "two") == back.digest == bank.digest
    files = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert files.keys() == {*FILES, *(("history.json",) if "history" in changes else ())}
    assert ("direct" in orjson.loads(files["bank.json"])["inference"]) == back.inference.direct
    for field in fields(bank):
        if field.name not in {"selector", "idf"}:
            assert getattr(back, field.name) == getattr(bank, field.name)
    for name, values in {**bank.selector, "idf": bank.idf}.items():
        assert np.array_equal({**back.selector, "idf": back.idf}[name], values)


def test_no_bank_there(tmp_path: Path) -> None:
    """A folder without a bank, or a file in its place: one line; what is there instead is named."""
    (tmp_path / "bank.pkl").write_bytes(pickle.dumps({}))
    (tmp_path / "manifest.json").write_text("{}")
    for place, hint in ((tmp_path, "it is the folder of a run"), (tmp_path / "bank.pkl", "svr train makes one")):
        with pytest.raises(UsageError, match="no bank in") as caught:
            RubricBank.load(place)
        assert hint in caught.value.one_line()


def test_parts_of_another_fit_are_refused_with_both_digests(folder: Path, tmp_path: Path) -> None:
    """A selector or vocabulary of another fit is recognised by its digest; both digests are named."""
    other = made_bank(idf=np.array([9, 9], np.float32), vocabulary={"cheese": 0, "milk": 1})
    other.save(tmp_path / "other")
    for name in ("selector.safetensors", "vocabulary.json"):
        saved = (folder / name).read_bytes()
        shutil.copy(tmp_path / "other" / name, folder / name)
        line = refused(folder)
        assert sha256(saved).hexdigest()[:16] in line
        assert sha256((tmp_path / "other" / name).read_bytes()).hexdigest()[:16] in line
        assert "another fit" in line
        (folder / name).write_bytes(saved)


def forged(**header: Any) -> bytes:
    """Return a safetensors file with this header and 64 bytes."""
    text = json.dumps({"hidden": {"dtype": "F32", "shape": [4], "data_offsets": [0, 64], **header}}).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * 64


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("selector.safetensors", forged(shape=[2**62]), "not a valid safetensors file"),
        ("selector.safetensors", forged(shape="x"), "not a valid safetensors file"),
        ("selector.safetensors", b"", "not a valid safetensors file"),
        ("selector.safetensors", pack_tensors({"hidden": np.ones(2, np.float32)}), "it lacks the array"),
        ("vocabulary.json", b"{", "truncated"),
        ("vocabulary.json", b'{"a": 0, "b": 1.5}', "Expected `int`"),
        ("vocabulary.json", b'{"a": 0}', "1 terms, idf has shape"),
        ("vocabulary.json", b'{"a": 0, "b": 5}', "number its terms"),
        ("vocabulary.json", b"[" * 100_000, "Expected `object`"),
        *((name, None, "is refused") for name in FILES[:3]),
    ],
)
def test_hostile_and_damaged_files_are_refused(
    folder: Path, tmp_path: Path, name: str, data: bytes | None, problem: str
) -> None:
    """Other types, sizes or claims, also with the right digest; a pickle (None), of which nothing runs; a cut file."""
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    refused(folder)
    (folder / name).write_bytes(whole)
    hostile = pickle.dumps(Canary(tmp_path / "mark")) if data is None else data
    if name == "bank.json":
        (folder / name).write_bytes(hostile)
    else:
        replace_file(folder, name, hostile)
    assert re.search(problem, refused(folder))
    assert not (tmp_path / "mark").exists()


def set_in(*path: str | int, value: Any) -> Callable[..., None]:
    """Return a change of bank.json that sets one value."""

    def change(described: Any) -> None:
        *way, last = path
        for key in way:
            described = described[key]
        described[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (set_in("schema_version", value=2), "schema version 1"),
        (set_in("format", value="other"), "not svr-bank"),
        (set_in("rubrics", value=[]), "at least one rubric"),
        (set_in("rubrics", value={}), "Expected `array`, got `object` - at `\\$\\.rubrics"),
        (set_in("rubrics", 0, "weight", value=-1), "weight must be >= 0"),
        (set_in("rubrics", 0, "weight", value="1"), "Expected `float`"),
        (set_in("rubrics", 0, "weight", value=4e38), "finite in float32"),
        (set_in("rubrics", 0, "activation_rate", value=1.5), "activation_rate"),
        (set_in("rubrics", 0, "support_count", value=-1), "support_count"),
        (set_in("rubrics", 0, "weight", value=0.7), "differs from the weights"),
        (set_in("rubrics", 0, "text", value="Something else"), "not the hash of its text"),
        (set_in("rubrics", 0, "text", value=""), "needs a text"),
        (set_in("rubrics", 0, "check", value={"name": 5}), "check"),
        (set_in("rubrics", 0, "check", value={"name": "max_words", "args": {"n": {}}}), "argument"),
        (set_in("rubrics", 0, "observed_count", value=1.5), "observed_count"),
        (set_in("inference", "top_k", value=0), "top_k and selection_pool must be >= 1"),
        (set_in("selector", "arrays", value={}), "expects selector arrays"),
        (set_in("marks", value="simulated"), "marks"),
        (set_in("files", value={}), "no digest of selector.safetensors"),
        (set_in("files", "vocabulary.json", value={}), "`sha256`"),
        (lambda described: described.pop("judge"), "fields: judge"),
        (lambda described: described["rubrics"].append(described["rubrics"][0]), "occurs twice"),
    ],
)
def test_values_that_a_bank_cannot_have_are_refused(
    folder: Path, change: Callable[..., None] | Callable[..., Any], problem: str
) -> None:
    """Wrong types, ranges, ids, shapes and versions in bank.json are refused with the field's name."""
    edit(folder, change)
    assert re.search(problem, refused(folder))


def test_arrays_that_are_not_finite_are_refused(folder: Path) -> None:
    """NaN in the selector does not load, even with the right digest."""
    arrays = unpack_tensors((folder / "selector.safetensors").read_bytes())
    arrays["hidden"] = np.full_like(arrays["hidden"], np.nan)
    replace_file(folder, "selector.safetensors", pack_tensors(arrays))
    assert "not finite" in refused(folder)


def test_a_bank_without_history_removes_the_one_of_the_bank_before(tmp_path: Path) -> None:
    """A bank that replaces another in its folder keeps no curve of it."""
    made_bank(history=made_history()).save(tmp_path)
    made_bank().save(tmp_path)
    assert not (tmp_path / "history.json").exists()
    assert RubricBank.load(tmp_path).history is None


@pytest.mark.parametrize(
    "change",
    [
        set_in("curves", 0, "epochs", 1, "dev_loss", value="0.5"),
        set_in("rounds", 0, "bank", value=None),
        set_in("edits", value=[{"what": "disabled"}]),
        set_in("choice", "structure", "solver", value="other"),
        set_in("learning_curve", "points", value=[]),
    ],
)
def test_a_value_that_a_history_cannot_hold_is_refused(tmp_path: Path, change: Callable[..., None]) -> None:
    """A wrong type, range or name is refused, also with the right digest."""
    made_bank(history=made_history(rounds=1)).save(tmp_path)
    plain = orjson.loads((tmp_path / "history.json").read_bytes())
    change(plain)
    replace_file(tmp_path, "history.json", orjson.dumps(plain))
    assert "history.json is refused" in refused(tmp_path)


def test_the_chosen_curve_is_the_last_of_its_round_and_seed() -> None:
    """Calibration comes after the fit, and its selector is the bank's."""
    assert made_history(rounds=2, chosen_round=1).chosen == made_curve(round=1, phase="calibrate")
    seeds = (made_curve(seed=1), made_curve(seed=2))
    assert BankHistory(curves=seeds, chosen_seed=1).chosen == seeds[0]
    assert BankHistory().chosen is None


def test_merged_banks_have_the_marks_of_all() -> None:
    """Rules are named only where nothing else judged."""

    def marked(mark: str, text: str) -> RubricBank:
        return RubricBank(rubrics=(BankRubric(rubric=Rubric(text=text)),), marks=frozenset({mark}))

    rules = marked("offline_rules", "Is kind.")
    assert merge_banks([rules, marked("simulated", "Is brief.")]).marks == {"simulated"}
    assert merge_banks([rules, marked("offline_rules", "Is brief.")]).marks == {"offline_rules"}
