"""`make demo`: the pairs are ours and always the same, and the commands of its recipe work on them."""

import importlib
import json
import re
import shlex
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

from svr_async.commands.main import run
from svr_async.commands.main import svr as group

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """Return the generator of the pairs, benchmarks/make_demo_pairs.py, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module("make_demo_pairs")


@pytest.fixture(scope="module")
def summary() -> ModuleType:
    """Return what ends the demo, benchmarks/demo_end.py, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module("demo_end")


def test_the_pairs_are_always_the_same(
    generator: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs write the same bytes: a few hundred pairs, each with its own id."""
    for name in ("one", "two"):
        assert generator.main([str(tmp_path / name)]) == 0
    for file in ("train.jsonl", "test.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert "272 pairs" in capsys.readouterr().out
    ids = [row["id"] for _, row in generator.rows()]
    assert len(ids) == len(set(ids)) == 340


def test_no_prompt_is_on_both_sides(generator: ModuleType) -> None:
    """Subjects that are held out are not trained on, and each kind has some."""
    sides = defaultdict(set)
    for held, row in generator.rows():
        sides[held].add(row["prompt"])
    assert not sides[True] & sides[False]
    assert {row["domain"] for held, row in generator.rows() if held} == {kind.name for kind in generator.KINDS}


def recipe(folder: Path) -> list[list[str]]:
    """Return the commands of `make demo` that call svr, with its output folder replaced."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    found = re.search(r"^HELD := (.*)$", makefile, re.MULTILINE)
    assert found is not None
    held = found[1]
    lines = re.findall(r"^\t@\$\(BIN\)/svr (.*)$", makefile, re.MULTILINE)
    return [shlex.split(line.replace("$(HELD)", held).replace("$(DEMO)", str(folder)).split(" >")[0]) for line in lines]


@pytest.mark.timeout(240)
def test_the_commands_work(
    generator: ModuleType,
    summary: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command of the recipe ends well; the bank beats length on held-out pairs; pages are there."""
    monkeypatch.chdir(tmp_path)
    generator.main([str(tmp_path)])
    commands = recipe(tmp_path)
    assert [command[0] for command in commands] == ["train", "eval", "eval", "eval", "explain"]
    for command in commands:
        assert run(group, "svr", [*command, *(["--rounds", "1"] if command[0] == "train" else [])]) == 0
    said = capsys.readouterr().out
    assert "rules (offline checks, no model)" in said
    assert "made-message-05a chose" in said
    accuracy = {
        name: json.loads((tmp_path / name / "metrics.json").read_text())["accuracy"] for name in ("longest", "bank")
    }
    assert accuracy["bank"] > accuracy["longest"] + 0.2
    assert summary.main([str(tmp_path)]) == 0
    end = capsys.readouterr().out
    for name in ("the longer answer", "the bank you trained", "OFFLINE RULES on made pairs"):
        assert name in end
    assert f"{100 * accuracy['bank']:.1f} %" in end
    assert (tmp_path / "bank/report.html").is_file()
    assert (tmp_path / "trained/report.html").is_file()
