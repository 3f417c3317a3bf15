"""The benchmark of verdicts against probabilities: its table tells the paired difference, and that it is simulated."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"


def test_the_table_has_the_paired_difference_of_each_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four pairs against three of four: 25 points more, with the standard error of the pairs' differences."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    rows = [
        {"draw": 7, "noise": 0.1, "verdicts": [True, True, False, False], "probabilities": [True, True, True, False]}
    ]
    text = importlib.import_module("expected").table(rows, 600)
    assert text.startswith("SIMULATED: 1 drawn worlds, 600 training and 4 unseen pairs each")
    assert "| 7 | 10% | 50.0 | 75.0 | 25.0 | 25.0 |" in text
