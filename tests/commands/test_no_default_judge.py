"""Nobody judges by default: a judge that is missing is asked for in one line, and settings that name one hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_pairs import write_made
from rig import svr_here

from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import BankRubric, RubricBank

EVAL = ("eval", "rubricbench", "--sample", "--limit", "2", "-q", "--out", "run")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with pairs and a bank."""
    monkeypatch.chdir(tmp_path)
    write_made(tmp_path / "made.jsonl", 4)
    RubricBank(rubrics=(BankRubric(rubric=Rubric(text="Is kind.")),)).save(tmp_path / "bank")


@pytest.mark.parametrize(
    "args",
    [
        EVAL,
        ("train", "made.jsonl", "--out", "out"),
        ("stages", "induce", "made.jsonl", "--out", "c.jsonl"),
        ("stages", "judge", "made.jsonl", "--bank", "bank", "--out", "store"),
        ("explain", "--prompt", "Name a prime.", "--a", "7", "--b", "9"),
        ("bank", "audit", "bank", "--data", "made.jsonl"),
    ],
    ids=lambda args: args[0],
)
def test_a_missing_judge_is_asked_for(args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 and one line, which names an endpoint, a judge that ships, and the offline checks; nothing is written."""
    before = set(Path().rglob("*"))
    assert svr_here(*args) == 2
    shown = capsys.readouterr()
    for part in ("no judge is named", "--judge http://HOST:PORT/v1#MODEL", "gpt-5.6-luna", "`svr judges`", "rules"):
        assert part in shown.err
    assert (shown.err.count("\n"), shown.out) == (1, "")
    assert set(Path().rglob("*")) == before
