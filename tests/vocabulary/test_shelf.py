"""A shelf gives back what was put away, from memory or from its file, and leaves nothing behind."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest

from svr_async.errors import StorageError
from svr_async.vocabulary import shelf as shelves
from svr_async.vocabulary.shelf import Part, Shelf, Shelved

TEXTS = [b'["%d","%s"]' % (n, b"x" * (n % 7)) for n in range(500)]


def filled(folder: Path | None = None) -> Shelf:
    """Return a shelf with all texts, in pairs of two."""
    made = Shelf(folder)
    assert [made.put(*TEXTS[n : n + 2]) for n in range(0, 500, 2)] == list(range(0, 500, 2))
    return made


@pytest.mark.parametrize("held", [0, 100, 1 << 20])
def test_what_is_put_away_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """Every text, in any order, whether it lies in the file by now or in memory; no file has a name."""
    monkeypatch.setattr(shelves, "HELD", held)
    made = filled(tmp_path)
    assert [made.get(n) for n in reversed(range(500))] == TEXTS[::-1]
    assert made.put(b"[]") == 500
    assert made.get(500) == b"[]"
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_leaves_all_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be written, or in part only, ends nothing; with room again it is written whole."""
    monkeypatch.setattr(shelves, "HELD", 100)
    made, begun = Shelf(tmp_path), tempfile.TemporaryFile

    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    for text in TEXTS[:250]:
        made.put(text)
    monkeypatch.setattr(tempfile, "TemporaryFile", begun)
    for text in TEXTS[250:]:
        made.put(text)
    assert [made.get(n) for n in range(500)] == TEXTS
    assert shelves.Shelf(tmp_path / "not there").put(*TEXTS) == 0


def test_a_file_that_was_cut_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read is an error in a line, never something else."""
    monkeypatch.setattr(shelves, "HELD", 0)
    made = filled()
    assert made._file is not None
    os.ftruncate(made._file.fileno(), 10)
    with pytest.raises(StorageError, match="cannot read what was put away"):
        made.get(400)


def test_a_list_on_a_shelf_is_as_its_tuple() -> None:
    """It has the length, the elements and the equality of the tuple, and is one where it is copied or sent."""
    made = Shelf()
    there = Shelved(made, made.put(b"[0]", b"[1,2,3]"), Part(1, str), 3)
    whole = ("1", "2", "3")
    assert there == whole
    assert whole == there
    assert (len(there), tuple(there), there[1], there[-2:], "3" in there) == (3, whole, "2", ("2", "3"), True)
    assert (hash(there), repr(there)) == (hash(whole), repr(whole))
    assert [type(one) for one in (pickle.loads(pickle.dumps(there)), copy.deepcopy(there))] == [tuple, tuple]
