"""A bank beside baselines that need none: the figures are those of the pairs, and a run that lacks pairs is refused."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("beside_regression")


def write_pairs(path: Path, count: int, *, first: int) -> None:
    """Write pairs, two a prompt, whose preferred answer is a list and, but for every fifth, the shorter one."""
    rows = []
    for number in range(first, first + count):
        listed = "- Pack the tent.\n- Pack the stove.\n- Leave at dawn."
        plain = "Pack the tent and then the stove and then leave at dawn. " * (1 if number % 5 == 0 else 3)
        chosen = f"{listed}\n" + "- Also take water along, as much as you can carry.\n" * (number % 5 == 0)
        prompt = f"How do I pack for trip {number // 2}?"
        rows.append({"id": f"p{number}", "prompt": prompt, "chosen": chosen, "rejected": plain})
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")


def write_run(folder: Path, margins: list[float], *, first: int) -> None:
    """Write the items of a run, the gold side B."""
    folder.mkdir()
    rows = [{"id": f"p{first + n}", "margin": margin, "gold": "B"} for n, margin in enumerate(margins)]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")


def test_a_bank_is_compared_with_length_and_a_regression(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 pairs the longest answer gets the four it should, the regression all, the bank 12 and two ties."""
    write_pairs(tmp_path / "train.jsonl", 60, first=0)
    write_pairs(tmp_path / "test.jsonl", 20, first=60)
    write_run(tmp_path / "run", [-1.0] * 12 + [0.0] * 2 + [0.5] * 6, first=60)
    files = [f"--{name}={tmp_path / name}.jsonl" for name in ("train", "test")]
    monkeypatch.setattr(sys, "argv", ["script", *files, f"--run={tmp_path / 'run'}", f"--kept={tmp_path / 'kept'}"])
    script.main()
    shown = capsys.readouterr().out
    assert "20 pairs of 10 prompts" in shown
    assert "| longest answer | 20.0 % [" in shown
    assert "| +45.0 [" in shown
    assert "checks | 100.0 % [100.0, 100.0] | -35.0 [" in shown
    assert "| the trained bank | 65.0 % [" in shown
    assert {path.name for path in (tmp_path / "kept" / "judged").iterdir()} == {"train.npz", "test.npz"}
