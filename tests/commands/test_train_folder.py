"""The folder of `svr train`, damaged: the same bank without a paid call; a finished bank is not replaced by another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from endpoint import SimServer
from made_pairs import PATIENCE_S, TRAIN, files_of, last_line, write_planted
from rig import name_judge, svr_here

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)  # the first test of a module may have to train first


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "fit-1": lambda data: data[: len(data) // 2],
    "probe-1": lambda data: data[:99] + bytes([data[99] ^ 1]) + data[100:],
    "negatives-1": lambda _: b"",
    "dev-2": lambda data: data + b" ",
}


@pytest.fixture(scope="module")
def home(trained: Path, sim: SimServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a finished training, with its cache."""
    folder = tmp_path_factory.mktemp("home") / "trained"
    shutil.copytree(trained, folder)
    name_judge(folder, sim.base_url)
    return folder


def test_what_is_damaged_or_gone_is_computed_again_without_a_paid_call(
    home: Path, sim: SimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stages cut, flipped, emptied or removed, files of the bank: the cache has the replies, the bank is the same."""
    monkeypatch.chdir(home)
    before, calls = files_of(home / "out" / "bank"), sim.stats()["calls"]
    for name, damage in DAMAGES.items():
        path = home / "out" / "stages" / f"{name}.stage"
        path.write_bytes(damage(path.read_bytes()))
    for name in ("induce-1", "judge-1", "fit-2"):
        (home / "out" / "stages" / f"{name}.stage").unlink()
    for name in ("bank.json", "card.md"):
        (home / "out" / "bank" / name).write_bytes(b"{")
    assert svr_here(*TRAIN) == 0
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
