"""Stages on disk: read back where the inputs are the same, computed again where they are not or a run was cut off."""

import numpy as np
import pytest

from svr_async.errors import ArtefactError
from svr_async.training.stages import Stages, digest_of

ARRAYS = {"z": np.array([0.25, np.nan, -1.25], np.float32), "n": np.arange(4)}


def test_a_stage_of_the_same_inputs_is_read_back_and_of_others_is_not(tmp_path):
    """Values and arrays come back as they were, NaN included; another digest or name gives None."""
    stages = Stages(tmp_path / "stages")
    assert stages.load("judge-1", "d") is None
    stages.save("judge-1", "d", {"entries": 3, "names": ["a", "é"]}, ARRAYS)
    held = stages.load("judge-1", "d")
    assert held is not None
    assert held[0] == {"entries": 3, "names": ["a", "é"]}
    assert {name: value.dtype for name, value in held[1].items()} == {n: v.dtype for n, v in ARRAYS.items()}
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(held[1][name], value)
    assert stages.load("judge-1", "e") is None
    assert stages.load("judge-2", "d") is None
    stages.save("judge-1", "e", {"entries": 0})
    assert stages.load("judge-1", "d") is None
    assert stages.load("judge-1", "e") == ({"entries": 0}, {})


def test_arrays_of_a_run_that_was_cut_off_are_ignored(tmp_path):
    """Killed after the arrays and before the head: there is no stage, or the old head does not fit and is not used."""
    stages = Stages(tmp_path)
    (tmp_path / "judge-1.npz").write_bytes(b"half")
    assert stages.load("judge-1", "d") is None
    stages.save("judge-1", "d", {}, ARRAYS)
    whole = (tmp_path / "judge-1.npz").read_bytes()
    (tmp_path / "judge-1.npz").write_bytes(whole[:-9] + b"x" * 9)
    assert stages.load("judge-1", "d") is None
    stages.save("judge-1", "d", {}, ARRAYS)
    assert stages.load("judge-1", "d") is not None
    assert not [path for path in tmp_path.iterdir() if path.name not in {"judge-1.json", "judge-1.npz"}]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'"text"', b"\xff\xfe", b'{"digest": "d"}', b"null"])
def test_a_damaged_head_is_named_in_one_line_that_says_what_to_do(tmp_path, damage):
    """The file is named, and that removing it makes the stage be computed again."""
    (tmp_path / "induce-1.json").write_bytes(damage)
    with pytest.raises(ArtefactError) as caught:
        Stages(tmp_path).load("induce-1", "d")
    line = caught.value.one_line()
    assert str(tmp_path / "induce-1.json") in line
    assert "remove that file" in line
    assert "\n" not in line
    assert caught.value.exit_code == 7


def test_arrays_that_are_gone_are_damage(tmp_path):
    """A head that speaks of arrays which are not there is named."""
    Stages(tmp_path).save("judge-1", "d", {}, ARRAYS)
    (tmp_path / "judge-1.npz").unlink()
    with pytest.raises(ArtefactError, match=r"judge-1\.json"):
        Stages(tmp_path).load("judge-1", "d")


def test_a_digest_tells_different_values_apart():
    """Values, their borders, types and shapes all count; the order of keys does not."""
    values = [("ab", "c"), ("a", "bc"), ("abc",), (["a", "b"],), (b"ab",), (1,), ("1",), (1.0,), (None,), (True,)]
    arrays = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, np.float32), np.ones(4)]
    digests = [digest_of(*parts) for parts in values] + [digest_of(array) for array in arrays]
    assert len(set(digests)) == len(digests)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(np.arange(8)[::2]) == digest_of(np.arange(0, 8, 2))
