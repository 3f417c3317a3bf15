"""Where commands write: refused before anything is asked, and no bank is replaced by another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_pairs import files_of, last_line, write_candidates, write_made, write_planted
from rig import RULES, svr_here


@pytest.fixture
def bank(folder: Path) -> dict[str, bytes]:
    """Put a file with the name of a bank's where a command would write one; return what is there."""
    (folder / "out" / "bank").mkdir(parents=True)
    (folder / "out" / "bank" / "bank.json").write_text("{}")
    return files_of(folder / "out")


@pytest.mark.parametrize("judge", ["rules", "http://127.0.0.1:9/v1#m"])
@pytest.mark.parametrize("command", ["train", "stages induce"])
def test_a_place_that_cannot_be_written_is_exit_five_before_a_call(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, judge: str
) -> None:
    """`--out` below a file ends training in one line with the path, with any judge, and asks nothing."""
    out = "file/below"
    write_planted(folder / "pairs.jsonl", 40)
    (folder / "file").write_text("mine")
    assert svr_here(*command.split(), "pairs.jsonl", "--judge", judge, "--out", out, "-q") == 5
    assert f"cannot write to {out}" in last_line(capsys)
    assert (folder / "file").read_text() == "mine"


def test_training_leaves_the_bank_of_another_command(
    folder: Path, bank: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """`svr train` and `svr fit` do not write over a bank that they did not make."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl", "Is kind.")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    for args in (("train", "made.jsonl", *RULES), ("fit", "store")):
        assert svr_here(*args, "--out", "out", "-q") == 2
        assert "out/bank is a bank that another command made — name another folder with --out" in last_line(capsys)
    assert files_of(folder / "out") == bank
