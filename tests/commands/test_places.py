"""Where commands write: refused before anything is asked, and no bank is replaced by another one."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from made_pairs import files_of, last_line, write_candidates, write_made, write_planted
from rig import RULES, svr_here

from svr_async.core.files import open_folder
from svr_async.errors import StorageError, UsageError
from svr_async.training.running.run import keep_bank


@pytest.fixture
def bank(folder: Path) -> dict[str, bytes]:
    """Put a file with the name of a bank's where a command would write one; return what is there."""
    (folder / "out" / "bank").mkdir(parents=True)
    (folder / "out" / "bank" / "bank.json").write_text("{}")
    return files_of(folder / "out")


@pytest.mark.parametrize("out", ["file", "file/below"])
@pytest.mark.parametrize("judge", ["rules", "http://127.0.0.1:9/v1#m"])
@pytest.mark.parametrize("command", ["train", "stages induce"])
def test_a_place_that_cannot_be_written_is_exit_five_before_a_call(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, judge: str, out: str
) -> None:
    """`--out` at or below a file ends training in one line with the path, with any judge, and asks nothing."""
    if (command, out) == ("stages induce", "file"):
        out = "file/other"  # its own output is a file
    write_planted(folder / "pairs.jsonl", 40)
    (folder / "file").write_text("mine")
    assert svr_here(*command.split(), "pairs.jsonl", "--judge", judge, "--out", out, "-q") == 5
    assert f"cannot write to {out}" in last_line(capsys)
    assert (folder / "file").read_text() == "mine"


def test_a_fit_looks_at_its_place_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`svr fit` into a file is refused before an epoch."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl", "Is kind.")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    assert svr_here("fit", "store", "--out", "made.jsonl") == 5
    assert "cannot write to made.jsonl" in last_line(capsys)


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


def test_a_command_goes_on_beside_its_own_traces(folder: Path, bank: dict[str, bytes]) -> None:
    """A trace of the command, or no bank, lets it write."""
    assert bank
    with pytest.raises(UsageError, match="another command"):
        keep_bank(folder / "out", "stages", "record.json")
    (folder / "out" / "record.json").write_text("{}")
    keep_bank(folder / "out", "stages", "record.json")
    keep_bank(folder / "nowhere", "stages")


def test_no_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be written is refused where it stands."""
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(StorageError, match="no permission"):
        open_folder(tmp_path)


def test_rows_that_break_the_schema_can_be_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The flag that the error names exists: `--lenient` trains on, or splits, the rows that can be read."""
    with write_made(folder / "made.jsonl", 60).open("a") as file:
        file.write('{"prompt": 3}\n')
    for args in (
        ("train", "made.jsonl", *RULES, "--rounds", "1", "--out", "out", "-q"),
        ("data", "split", "made.jsonl", "--out", "s"),
    ):
        assert svr_here(*args) == 2
        assert "--lenient" in last_line(capsys)
        assert svr_here(*args, "--lenient") == 0
        capsys.readouterr()


def test_pairs_that_all_overlap_with_a_benchmark_are_said_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where decontamination leaves nothing, that is the error."""
    words = " ".join(f"word{n}" for n in range(20))
    rows = [{"id": str(n), "prompt": words, "chosen": "a", "rejected": "b"} for n in range(9)]
    (folder / "pairs.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert svr_here("train", "pairs.jsonl", *RULES, "--decontaminate", "pairs=pairs.jsonl", "--out", "out", "-q") == 2
    assert "all 9 pairs overlap with pairs=pairs.jsonl" in last_line(capsys)


def test_a_split_with_an_empty_side_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs of one prompt cannot be split: nothing is written."""
    rows = ({"prompt": "p", "chosen": "a", "rejected": f"b{n}"} for n in range(9))
    (folder / "pairs.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert svr_here("data", "split", "pairs.jsonl", "--share", "0.00001", "--out", "s") == 2
    assert "0 into test" in last_line(capsys)
    assert not (folder / "s").exists()
