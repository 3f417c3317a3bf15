"""One hostile example of each file format: files from other people are data, and no code in them runs.

A canary is a folder that code hidden in a file would make. An audit hook also listens for unpickling and new processes.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import svr_here, write_bench
from small_bank import checked_bank

from svr_async.simulation.world import World, train_row

Call = Callable[..., tuple[int, str]]
LOUD = {"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"}
_heard: list[str] = []
_folder: list[str] = []  # of the test that runs now


def _listen(event: str, args: tuple[object, ...]) -> None:
    """Note events that only code from a file can cause; an audit hook cannot be removed again."""
    if not _folder:
        return
    from_file = event == "exec" and str(getattr(args[0], "co_filename", "")).startswith(_folder[0])
    if from_file or (event in LOUD and args[0] != "fc-list"):  # matplotlib lists the fonts of the machine
        _heard.append(f"{event} {args!r}"[:200])


sys.addaudithook(_listen)


class Bomb:
    """Make a folder when unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.canary),)


def pickled(canary: Path) -> bytes:
    """Return a pickle that makes the canary when it is loaded."""
    return pickle.dumps(Bomb(canary))


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder; at the end nothing was heard and the canary does not exist."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    _heard.clear()
    _folder[:] = [str(tmp_path)]
    yield tmp_path / "canary"
    _folder.clear()
    assert not _heard
    assert not (tmp_path / "canary").exists()


@pytest.fixture
def call(canary: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs `svr …` here; it returns the exit code and the output."""

    def run(*args: str) -> tuple[int, str]:
        capfd.readouterr()
        code = svr_here(*args)
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err
        assert "a bug" not in shown.err
        return code, shown.err

    return run


# --- the files --------------------------------------------------------------------------------------------------------


def make_bank() -> None:
    """Write a small bank."""
    checked_bank().save(Path("bank"))


def make_pairs() -> None:
    """Write planted pairs."""
    rows = (orjson.dumps(train_row(pair)) for pair in World().pairs(40, "train"))
    Path("pairs.jsonl").write_bytes(b"\n".join(rows))


def make_run() -> None:
    """Write a run folder."""
    write_bench(Path("bench.jsonl"), 2)
    assert svr_here("eval", "rubricbench", "--data", "bench.jsonl", "--method", "longest", "--out", "run", "-q") == 0


def make_nothing() -> None:
    """Write no other file."""


def replaced(path: str, content: Callable[[Path], bytes] = pickled) -> Callable[[Path], None]:
    """Return a function that writes this content to a file."""

    def write(canary: Path) -> None:
        Path(path).write_bytes(content(canary))

    return write


def strangers(folder: str) -> Callable[[Path], None]:
    """Return a function that adds files that other libraries would load or run."""

    def write(canary: Path) -> None:
        for name in ("selector.pkl", "model.joblib", "pytorch_model.bin"):
            (Path(folder) / name).write_bytes(pickled(canary))
        for name in ("__init__.py", f"{folder}.py", "setup.py"):
            (Path(folder) / name).write_text(f"import os; os.mkdir({str(canary)!r})")

    return write


def scripted_data(canary: Path) -> None:
    """Write a folder of pairs with loading scripts, as data sets on a hub have."""
    Path("pairs").mkdir()
    Path("pairs.jsonl").rename("pairs/train.jsonl")
    for name in ("pairs.py", "dataset.py", "conftest.py"):
        (Path("pairs") / name).write_text(f"import os; os.mkdir({str(canary)!r})")


LYING = (2**40).to_bytes(8, "little") + b"{}"
SHOW, REPORT, FIT = ("bank", "show", "bank"), ("report", "run"), ("fit", "store", "--out", "fitted", "-q")
PAIRS = ("eval", "pairs", "--method", "longest", "-q", "--out", "never", "--data")
FILES: dict[str, tuple[Callable[[], None], Callable[[Path], None], tuple[str, ...], int]] = {
    "bank.json: a pickle": (make_bank, replaced("bank/bank.json"), SHOW, 7),
    "bank: pickles and scripts next to it": (make_bank, strangers("bank"), SHOW, 0),
    "selector.safetensors: a pickle": (make_bank, replaced("bank/selector.safetensors"), SHOW, 7),
    "selector.safetensors: a header of a terabyte": (
        make_bank, replaced("bank/selector.safetensors", lambda _: LYING), SHOW, 7,
    ),
    "run: items.jsonl is a pickle": (make_run, replaced("run/items.jsonl"), REPORT, 7),
    "run: manifest.json is a pickle": (make_run, replaced("run/manifest.json"), REPORT, 7),
    "data: a pickle named JSON Lines": (make_nothing, replaced("pairs.jsonl"), (*PAIRS, "pairs.jsonl"), 2),
    "data: a pickle named Parquet": (make_nothing, replaced("pairs.parquet"), (*PAIRS, "pairs.parquet"), 2),
    "data: loading scripts in the folder": (make_pairs, scripted_data, (*PAIRS, "pairs"), 0),
    "exported replies: a pickle": (
        make_nothing, replaced("replies.jsonl"), ("cache", "import", "replies.jsonl", "--cache", "cache"), 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused_and_runs_nothing(call: Call, canary: Path, name: str) -> None:
    """The command ends with its documented exit code and one line, or ignores foreign files."""
    make, spoil, command, expected = FILES[name]
    make()
    spoil(canary)
    code, errors = call(*command)
    assert code == expected, errors
    assert errors.count("\n") == 1 or not code, errors
