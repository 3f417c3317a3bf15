"""Stages on disk: read back where the inputs are the same, computed again where they are not or a run was cut off."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rig import pairs

from svr_async.errors import ArtefactError
from svr_async.scoring.provenance import training_fingerprint
from svr_async.training.rounds import stages as module
from svr_async.training.rounds.answers import coverage_counts, unanswered_lines
from svr_async.training.rounds.stages import Stages, digest_of

ARRAYS: dict[str, NDArray[Any]] = {"z": np.array([0.25, np.nan, -1.25], np.float32), "n": np.arange(4)}


def load(stages: Stages, name: str, digest: str) -> tuple[Any, Mapping[str, NDArray[Any]]] | None:
    """Return values and arrays as they are."""
    return stages.load(name, digest, lambda values, arrays: (values, arrays))


def test_a_stage_of_the_same_inputs_is_read_back_and_of_others_is_not(tmp_path: Path) -> None:
    """Values and arrays come back as they were, NaN included; another digest or name gives None."""
    stages = Stages(tmp_path / "stages")
    assert load(stages, "judge-1", "d") is None
    stages.save("judge-1", "d", {"entries": 3, "names": ["a", "é"]}, ARRAYS)
    held = load(stages, "judge-1", "d")
    assert held is not None
    assert held[0] == {"entries": 3, "names": ["a", "é"]}
    assert {name: value.dtype for name, value in held[1].items()} == {n: v.dtype for n, v in ARRAYS.items()}
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(held[1][name], value)
    assert load(stages, "judge-1", "e") is None
    assert load(stages, "judge-2", "d") is None
    stages.save("judge-1", "e", {"entries": 0})
    assert load(stages, "judge-1", "d") is None
    assert load(stages, "judge-1", "e") == ({"entries": 0}, {})


def test_who_answered_is_kept_with_a_stage_and_read_back_with_it(tmp_path: Path) -> None:
    """A run that reads everything back knows the fingerprints of the systems that answered at the time."""
    Stages(tmp_path, {"svr-sim-1", ""}).save("judge-1", "d", {})
    Stages(tmp_path, {"other"}).save("judge-2", "d", {})
    later = Stages(tmp_path)
    load(later, "judge-1", "other inputs")
    assert later.marks == set()
    load(later, "judge-1", "d")
    load(later, "judge-2", "d")
    assert later.marks == {"svr-sim-1", "", "other"}


def test_a_stage_of_another_version_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other code computed is not trusted: it may have screened or judged by other rules."""
    Stages(tmp_path).save("induce-1", "d", {"candidates": []})
    assert load(Stages(tmp_path), "induce-1", "d") is not None
    monkeypatch.setattr(module, "__version__", "99.0")
    assert load(Stages(tmp_path), "induce-1", "d") is None


def test_a_stage_that_was_cut_off_between_its_files_is_none(tmp_path: Path) -> None:
    """Killed after the arrays and before the head: there is no stage, or the old head is that of other inputs."""
    stages = Stages(tmp_path)
    (tmp_path / "judge-1.npz").write_bytes(b"half")
    assert load(stages, "judge-1", "d") is None
    stages.save("judge-1", "d", {}, ARRAYS)
    (tmp_path / "judge-1.npz").write_bytes(b"of the next inputs")
    assert load(stages, "judge-1", "e") is None
    stages.save("judge-1", "d", {}, ARRAYS)
    assert load(stages, "judge-1", "d") is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["judge-1.json", "judge-1.npz"]


def refused(folder: Path, name: str = "judge-1") -> str:
    """Return the line with which a stage is refused."""
    with pytest.raises(ArtefactError) as caught:
        load(Stages(folder), name, "d")
    assert caught.value.exit_code == 7
    line = caught.value.one_line()
    assert "remove" in line
    return line


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"{}", b'"text"', b"\xff\xfe", b'{"digest": "d"}', b"null", b'{"sha256":"","stage":{}}'],
)
def test_a_damaged_head_is_named_in_one_line_that_says_what_to_do(tmp_path: Path, damage: bytes) -> None:
    """The file is named, and that removing it makes the stage be computed again."""
    (tmp_path / "judge-1.json").write_bytes(damage)
    line = refused(tmp_path)
    assert str(tmp_path / "judge-1.json") in line
    assert "remove that file" in line


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a whole stage."""
    folder = tmp_path_factory.mktemp("whole")
    Stages(folder).save("judge-1", "d", {"candidates": [{"sources": ["a"], "count": 1}], "rate": 0.1}, ARRAYS)
    return folder


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_no_flipped_bit_and_no_cut_goes_unseen(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any bit of either file flipped, or any number of bytes gone: refused, whichever value it is."""
    folder = tmp_path_factory.mktemp("damaged")
    for path in whole.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    name = data.draw(st.sampled_from(["judge-1.json", "judge-1.npz"]))
    held = bytearray((whole / name).read_bytes())
    place = data.draw(st.integers(0, len(held) - 1))
    if data.draw(st.booleans()):
        held[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del held[place:]
    (folder / name).write_bytes(held)
    assert name in refused(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("values", []), ("values", None), ("digest", 3), ("arrays", ""), ("marks", "svr"), ("format", None), ("extra", 1)],
)
def test_a_head_that_was_edited_is_refused(whole: Path, tmp_path: Path, key: str, value: int | str | None) -> None:
    """A value changed by hand, or a key added or gone, does not match the checksum."""
    held = orjson.loads((whole / "judge-1.json").read_bytes())
    changed = {**held["stage"], key: value}
    (tmp_path / "judge-1.json").write_bytes(orjson.dumps({**held, "stage": changed}))
    assert "checksum" in refused(tmp_path)
    changed.pop(key)
    (tmp_path / "judge-1.json").write_bytes(orjson.dumps({**held, "stage": changed}))
    if key != "extra":
        assert "checksum" in refused(tmp_path)


def test_a_folder_where_a_file_should_be_is_refused(tmp_path: Path) -> None:
    """Reading it fails, and the line says how."""
    (tmp_path / "judge-1.json").mkdir()
    assert "judge-1.json cannot be read" in refused(tmp_path)


def test_arrays_that_are_gone_are_damage(tmp_path: Path) -> None:
    """A head that speaks of arrays which are not there: both files are named."""
    Stages(tmp_path).save("judge-1", "d", {}, ARRAYS)
    (tmp_path / "judge-1.npz").unlink()
    line = refused(tmp_path)
    assert "judge-1.npz" in line
    assert "judge-1.json" in line


def test_a_digest_tells_different_values_apart() -> None:
    """Values, their borders, types and shapes all count; the order of keys does not."""
    values = [("ab", "c"), ("a", "bc"), ("abc",), (["a", "b"],), (b"ab",), (1,), ("1",), (1.0,), (None,), (True,)]
    arrays = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, np.float32), np.ones(4)]
    digests = [digest_of(*parts) for parts in values] + [digest_of(array) for array in arrays]
    assert len(set(digests)) == len(digests)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(np.arange(8)[::2]) == digest_of(np.arange(0, 8, 2))


def test_what_became_of_a_stages_questions_is_known_when_it_is_kept_and_when_it_is_read_back(tmp_path: Path) -> None:
    """Stages without questions say nothing; one that is not read, since its inputs differ, does not count."""
    counts = {"scored": 309, "context_too_long": 91}
    stages = Stages(tmp_path)
    stages.save("judge-1", "d", {"outcomes": counts}, ARRAYS)
    stages.save("fit-1", "d", {"epochs": 3})
    later = Stages(tmp_path)
    assert load(later, "judge-1", "other") is None
    assert (stages.outcomes, later.outcomes) == ({"judge-1": counts}, {})
    load(later, "judge-1", "d")
    load(later, "fit-1", "d")
    assert later.outcomes == stages.outcomes
    assert unanswered_lines(later.outcomes) == ["judge-1: 91 of 400 questions have no answer (91 context_too_long)"]
    assert coverage_counts(later.outcomes) == (91, 400)


def test_a_stage_with_questions_that_have_no_answer_is_computed_again_when_told_so(tmp_path: Path) -> None:
    """With `retry`; what has all answers is read back all the same."""
    Stages(tmp_path).save("induce-1", "d", {"outcomes": {"scored": 2, "refusal": 1}})
    Stages(tmp_path).save("judge-1", "d", {"outcomes": {"scored": 9}})
    again = Stages(tmp_path, retry=True)
    assert load(again, "induce-1", "d") is None
    assert load(again, "judge-1", "d") is not None
    again.save("induce-1", "d", {"outcomes": {"scored": 3}})
    assert load(again, "induce-1", "d") is not None


def test_a_bank_names_its_pairs_as_stages_do() -> None:
    """What tells a run that a bank was trained on its pairs is the digest that stages on disk have."""
    some = [*pairs(2), replace(pairs(1)[0], id="é\n")]
    assert training_fingerprint("d", [pair.id for pair in some]) == digest_of("d", [pair.id for pair in some])
