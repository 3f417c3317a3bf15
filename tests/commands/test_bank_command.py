"""`svr bank` as a user meets it: tables, JSON, files, errors in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from svr_async.commands.bank import bank
from svr_async.commands.main import run
from svr_async.core.rubric import Check, Rubric
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank

TEXTS: dict[str, dict[str, Any]] = {
    "Keeps to the number of words that was asked for": {"weight": 0.75, "activation_rate": 0.125, "domain": "chat"},
    "Does not keep to the number of words that was asked for": {"weight": 0.25, "activation_rate": 0.1},
    "Names the river and its bridge": {
        "weight": 0.5,
        "domain": "code",
        "example_prompts": ("p7",),
        "aliases": ("Bridge",),
    },
    "The response is good": {"weight": 0.125, "source_pair_ids": tuple(f"p{n}" for n in range(30))},
}


def made(**changes: Any) -> RubricBank:
    """Return a bank of four rubrics, one with a check."""
    rubrics = [BankRubric(rubric=Rubric(text=text, facet="format"), **fields) for text, fields in TEXTS.items()]
    rubrics.append(BankRubric(rubric=Rubric(text="Is short", check=Check.of("max_words", n=50)), activation_rate=0.1))
    fields: dict[str, Any] = {
        "rubrics": tuple(rubrics),
        "selector_kind": "mlp",
        "selector": {"hidden": np.ones((2, 2), np.float32)},
        "vocabulary": {"a": 0, "b": 1},
        "idf": np.ones(2, np.float32),
        "name": "small",
        "dev_metrics": {"accuracy": 0.8125},
    }
    return RubricBank(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a saved bank."""
    made().save(tmp_path / "bank")
    return tmp_path / "bank"


def call(*args: Any) -> str:
    """Run a command and return its standard output; errors are raised."""
    result = CliRunner().invoke(bank, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def fail(*args: str | Path) -> int:
    """Run a command as the program does and return its exit code."""
    return run(bank, "svr bank", [str(arg) for arg in args])


def test_show_lists_the_heaviest_first(folder: Path) -> None:
    """Where the bank comes from, then rubrics by weight with activation, counts, domain and facet."""
    out = call("show", folder)
    assert made().digest[:12] in out
    assert "81.2 % on pairs held out" in out
    assert "5, 3 of them in use" in out
    assert out.index("Is short [check]") < out.index("Keeps to the number") < out.index("Names the river")
    assert "12.50" in out
    assert "5 of 5 rubrics" in out


def test_show_as_json(folder: Path) -> None:
    """Machines get the digest, the settings and the rubrics."""
    found = orjson.loads(call("show", folder, "--top", 0, "--json"))
    assert found["digest"] == made().digest
    assert [entry["weight"] for entry in found["rubrics"]] == [1.0, 0.75, 0.5, 0.25, 0.125]
    assert found["inference"]["top_k"] == 6
    assert found["selector"]["kind"] == "mlp"


def test_diff_of_two_banks(folder: Path, tmp_path: Path) -> None:
    """Gained, lost, reweighed rubrics and settings are listed."""
    rubrics = made().rubrics
    lighter = BankRubric(rubric=rubrics[0].rubric, weight=0.5)
    new = BankRubric(rubric=Rubric(text="Cites a source"))
    other = made(rubrics=(lighter, new, *rubrics[2:]), inference=InferenceSettings(top_k=4))
    other.save(tmp_path / "other")
    out = call("diff", folder, tmp_path / "other")
    assert "1 gained, 1 lost, 0 reworded, 4 kept" in out
    assert "-0.250" in out
    assert "inference.top_k" in out
    found = orjson.loads(call("diff", folder, tmp_path / "other", "--json"))
    assert [entry["text"] for entry in found["gained"]] == ["Cites a source"]
    assert "5 kept" in call("diff", folder, folder)


def test_edit_writes_another_bank_and_lists_what_it_did(folder: Path, tmp_path: Path) -> None:
    """Into a new folder or over the bank, whose old state is kept next to it; the changes are a table or JSON."""
    first, second = (entry.id for entry in made().rubrics[:2])
    why = ("--by", "Ana", "--reason", "rewards length")
    out = call("edit", folder, "--disable", first[:8], "--weight", second, 0.5, *why, "--out", tmp_path / "new")
    edited = RubricBank.load(tmp_path / "new")
    for words in ("disabled", "0.25 → 0.5", "+0.250", "rewards length", edited.digest[:12], made().digest[:12]):
        assert words in out
    assert RubricBank.load(folder).digest == made().digest
    assert "[disabled]" in call("show", tmp_path / "new", "--top", 0)
    found = orjson.loads(call("edit", folder, "--disable", first, *why, "--in-place", "--json"))
    assert RubricBank.load(folder).digest == found["digest"] != found["former"]["digest"]
    assert RubricBank.load(found["former"]["folder"]).digest == found["former"]["digest"] == made().digest
    assert [one["what"] for one in found["changes"]["edits"]] == ["disabled"]
    assert [one["first"]["id"] for one in found["changes"]["switched"]] == [first]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--disable", "r", "--in-place"), "no single rubric has an id that begins 'r'"),
        (("--disable", "zz", "--out", "new"), "no single rubric has an id that begins 'zz'"),
        (("--add", "Is polite", "--out", "bank"), "bank holds a bank"),
        (("--add", "Is polite"), "edit needs one of --out and --in-place"),
        (("--add", "Is polite", "--in-place", "--out", "new"), "edit needs one of --out and --in-place"),
        (("--out", "new"), "nothing is to be edited"),
        (("--weight", "r1", "heavy", "--out", "new"), "'heavy' is not a valid float"),
    ],
)
def test_an_edit_that_cannot_be_made_is_one_line(
    args: tuple[str, ...], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 and the mistake in words; nothing is written."""
    monkeypatch.chdir(folder.parent)
    assert fail("edit", "bank", *args, "--by", "Ana", "--reason", "why") == 2
    line = capsys.readouterr().err
    assert words in line
    assert line.count("\n") == 1
    assert [path.name for path in folder.parent.iterdir()] == ["bank"]


def test_merge_writes_a_bank(folder: Path, tmp_path: Path) -> None:
    """The merged bank loads, and what it still needs is said."""
    out = call("merge", folder, folder, "--out", tmp_path / "both")
    assert "10 rubrics of 2 banks became 5" in out
    assert RubricBank.load(tmp_path / "both").selector_kind == "uniform"
    found = orjson.loads(call("merge", folder, "--out", tmp_path / "one", "--json"))
    assert (found["rubrics"], found["from"]) == (5, [5])


def test_merge_replaces_no_other_bank(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bank is not merged over, neither a source nor another one; the same result may be written again."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert fail("merge", folder, folder, "--out", folder) == 2
    assert "holds another bank" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    for _ in range(2):
        call("merge", folder, folder, "--out", tmp_path / "both")


def test_a_folder_that_holds_something_else_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a training's folder, a store and a run it is said what they are, and what takes them."""
    parent = tmp_path / "trained"
    parent.mkdir()
    folder.rename(parent / "bank")
    for name, words in (("meta.json", "svr-fit makes a bank"), ("manifest.json", "svr explain and svr report")):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("{}")
        assert fail("show", tmp_path / name) == 2
        assert words in capsys.readouterr().err
    assert fail("show", parent) == 2
    assert f"name {parent / 'bank'}" in capsys.readouterr().err


@pytest.mark.parametrize("command", [(), ("--stats",), ("--lint",), ("--card",)])
def test_no_bank_and_no_such_rubric(
    command: tuple[str, ...], tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong folder is one line and exit 2; a wrong id or domain too."""
    assert fail("show", tmp_path / "nowhere", *command) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "no bank in" in line
    assert fail("show", folder, "--rubric", "zz") == 2
    assert fail("show", folder, "--domain", "zz") == 2


def test_a_damaged_bank_is_exit_seven_and_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file and the reason are named."""
    (folder / "selector.safetensors").write_bytes(b"\x80\x04.")
    assert fail("show", folder) == 7
    line = capsys.readouterr().err
    assert "selector.safetensors is refused" in line
    assert line.count("\n") == 1
