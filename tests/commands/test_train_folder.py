"""The state folder of `svr train`, damaged file by file: named and refused, or the same bank; never another one."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import orjson
import pytest
from made_pairs import PATIENCE_S, TRAIN, files_of, last_line, write_planted
from rig import name_judge, svr_here

from svr_async.simulation.server import SimServer

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


def other_type(_: bytes) -> bytes:
    """Return JSON of another type."""
    return b"[1, 2]"


def key_gone(data: bytes) -> bytes:
    """Return a head without one of its keys, or arrays without a byte."""
    if not data.startswith(b"{"):
        return data[:-1]
    held = orjson.loads(data)
    held["stage"]["values"].popitem()
    return orjson.dumps(held)


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (cut, flip, empty, other_type, key_gone)
SOME = ("induce-1.json", "judge-1.json", "judge-1.npz", "fit-1.npz", "probe-1.json", "negatives-1.npz", "dev-2.json")


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
    """Cut, flipped, emptied, of another type, a key gone: exit 7 and one line, whatever stage it is."""
    for name, damage in zip(SOME, cycle(DAMAGES), strict=False):
        check_refused(stages / name, damage, capsys)


def test_what_is_gone_or_of_other_inputs_is_computed_again_without_a_paid_call(
    stages: Path, home: Path, sim: SimServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Heads removed as the line says, or of other inputs: the cache has the replies, and the bank is the same."""
    before, calls = files_of(home / "out" / "bank"), sim.stats()["calls"]
    (stages / "judge-1.npz").unlink()
    assert train() == 7
    assert "judge-1.json" in last_line(capsys)
    for name in ("judge-1.json", "fit-2.json", "probe-1.json"):
        (stages / name).unlink()
    for name in ("induce-1.json", "calibrate-1.json"):
        reseal(stages / name, digest="of other inputs")
    for name in ("bank.json", "card.md"):
        (home / "out" / "bank" / name).write_bytes(b"{")
    (home / "out" / "stages" / "calibrate-1").mkdir()
    (home / "out" / "stages" / "calibrate-1" / "fit.safetensors").write_bytes(b"\x80 no checkpoint")
    assert train() == 0
    assert files_of(home / "out" / "bank") == before
    assert sim.stats()["calls"] == calls


def reseal(path: Path, **changes: object) -> None:
    """Change values of a head and write the checksum that goes with them."""
    stage = orjson.dumps(orjson.loads(path.read_bytes())["stage"] | changes)
    checksum = hashlib.sha256(stage).hexdigest()
    path.write_bytes(orjson.dumps({"sha256": checksum, "stage": orjson.Fragment(stage)}))


def test_a_finished_bank_is_not_replaced_by_another_training(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other pairs and settings with the same --out are refused, and the bank stays."""
    write_planted(home / "fewer.jsonl", 40)
    flags = ["train", "fewer.jsonl", *TRAIN[2:], "--seed", "7", "--rounds", "1", "--cache", "cache/replies"]
    before = files_of(home / "out" / "bank")
    assert svr_here(*flags) == 2
    assert "name another folder with --out" in last_line(capsys)
    assert files_of(home / "out" / "bank") == before
