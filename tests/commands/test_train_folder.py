"""The state folder of `svr train`, damaged file by file: named and refused, or the same bank; never another one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from endpoint import SimServer
from made_pairs import PATIENCE_S, TRAIN, files_of, last_line, write_planted
from rig import name_judge, svr_here

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)  # the first test of a module may have to train first


def cut(data: bytes) -> bytes:
    """Return the first half."""
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    """Return the data with one bit in the middle changed."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def empty(_: bytes) -> bytes:
    """Return nothing."""
    return b""


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (cut, flip, empty)
SOME = ("induce-1", "judge-1", "fit-1", "probe-1", "negatives-1", "dev-2")


@pytest.fixture(scope="module")
def home(trained: Path, sim: SimServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a finished training, with its cache."""
    folder = tmp_path_factory.mktemp("home") / "trained"
    shutil.copytree(trained, folder)
    name_judge(folder, sim.base_url)
    return folder


@pytest.fixture
def stages(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in the copy; its stages are whole again afterwards."""
    monkeypatch.chdir(home)
    held = files_of(home / "out" / "stages")
    yield home / "out" / "stages"
    for name, data in held.items():
        (home / "out" / "stages" / name).write_bytes(data)


def train() -> int:
    """Give the command again, in this process."""
    return svr_here(*TRAIN)


def check_refused(path: Path, damage: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """Damage a file: exit 7 and one line that names it and says what to remove; then put it back."""
    data = path.read_bytes()
    path.write_bytes(damage(data))
    capsys.readouterr()
    assert train() == 7, (path.name, damage.__name__)
    line = last_line(capsys)
    assert path.name in line
    assert "remove" in line
    path.write_bytes(data)


def test_a_damaged_file_of_the_state_folder_is_refused_by_name(
    stages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut, flipped, emptied: exit 7 and one line, whatever stage it is."""
    for name, damage in zip(SOME, cycle(DAMAGES), strict=False):
        check_refused(stages / f"{name}.stage", damage, capsys)


def test_what_is_gone_is_computed_again_without_a_paid_call(stages: Path, home: Path, sim: SimServer) -> None:
    """The cache has the replies, and the bank is the same."""
    before, calls = files_of(home / "out" / "bank"), sim.stats()["calls"]
    for name in ("induce-1", "judge-1", "fit-2", "probe-1"):
        (stages / f"{name}.stage").unlink()
    for name in ("bank.json", "card.md"):
        (home / "out" / "bank" / name).write_bytes(b"{")
    assert train() == 0
    assert files_of(home / "out" / "bank") == before
    assert sim.stats()["calls"] == calls


def test_a_finished_bank_is_not_replaced_by_another_training(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other pairs and settings with the same --out are refused, and the bank stays."""
    monkeypatch.chdir(home)
    write_planted(home / "fewer.jsonl", 40)
    flags = ["train", "fewer.jsonl", *TRAIN[2:], "--seed", "7", "--rounds", "1", "--cache", "cache/replies"]
    before = files_of(home / "out" / "bank")
    assert svr_here(*flags) == 2
    assert "name another folder with --out" in last_line(capsys)
    assert files_of(home / "out" / "bank") == before
