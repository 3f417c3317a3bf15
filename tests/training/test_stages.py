"""Stages on disk: read back if the inputs are the same, computed again if they are not or a run was killed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rig import pairs

from svr_async.errors import ArtefactError, CoverageError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, FitConfig
from svr_async.fit.training import fit
from svr_async.scoring.provenance import training_fingerprint
from svr_async.training.rounds import stages as module
from svr_async.training.rounds.stages import Stages, digest_of, kept_fit, require_answers, unanswered_lines

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
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(held[1][name], value)
        assert held[1][name].dtype == value.dtype
    assert load(stages, "judge-1", "e") is None
    assert load(stages, "judge-2", "d") is None
    stages.save("judge-1", "e", {"entries": 0})
    assert load(stages, "judge-1", "d") is None
    assert load(stages, "judge-1", "e") == ({"entries": 0}, {})


def test_marks_and_outcomes_are_kept_with_a_stage(tmp_path: Path) -> None:
    """A run that reads everything back knows who answered, and how many questions have no answer."""
    counts = {"scored": 309, "context_too_long": 91}
    Stages(tmp_path, {"svr-sim-1", ""}).save("judge-1", "d", {"outcomes": counts}, ARRAYS)
    Stages(tmp_path, {"other"}).save("fit-1", "d", {"epochs": 3})
    later = Stages(tmp_path)
    load(later, "judge-1", "other inputs")
    assert (later.marks, later.outcomes) == (set(), {})
    load(later, "judge-1", "d")
    load(later, "fit-1", "d")
    assert later.marks == {"svr-sim-1", "", "other"}
    assert later.outcomes == {"judge-1": counts}
    assert unanswered_lines(later.outcomes) == ["judge-1: 91 of 400 questions have no answer (91 context_too_long)"]
    require_answers(later.outcomes, 0.7, tmp_path)
    with pytest.raises(CoverageError, match="91 of 400 questions"):
        require_answers(later.outcomes, 0.8, tmp_path)


def test_stages_of_another_version_or_with_open_questions_are_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code may have screened or judged by other rules; `retry` asks what had no answer again."""
    Stages(tmp_path).save("induce-1", "d", {"outcomes": {"scored": 2, "refusal": 1}})
    Stages(tmp_path).save("judge-1", "d", {"outcomes": {"scored": 9}})
    again = Stages(tmp_path, retry=True)
    assert load(again, "induce-1", "d") is None
    assert load(again, "judge-1", "d") is not None
    monkeypatch.setattr(module, "__version__", "99.0")
    assert load(Stages(tmp_path), "judge-1", "d") is None


@settings(deadline=None, max_examples=60)
@given(place=st.integers(0, 10_000), bit=st.integers(-1, 7))
def test_no_flipped_bit_and_no_cut_is_overlooked(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    """Any bit flipped, or any number of bytes gone: one line names the file and says to remove it."""
    folder = tmp_path_factory.mktemp("damaged")
    Stages(folder).save("judge-1", "d", {"candidates": [{"count": 1}], "rate": 0.1}, ARRAYS)
    path = folder / "judge-1.stage"
    held = bytearray(path.read_bytes())
    place %= len(held)
    if bit < 0:
        del held[place:]
    else:
        held[place] ^= 1 << bit
    path.write_bytes(held)
    with pytest.raises(ArtefactError, match=r"judge-1\.stage cannot be read.*") as caught:
        load(Stages(folder), "judge-1", "d")
    assert caught.value.exit_code == 7
    assert "remove that file" in caught.value.one_line()


def test_a_digest_tells_different_values_apart() -> None:
    """Values, their borders, types and shapes all count; the order of keys does not."""
    values = [("ab", "c"), ("a", "bc"), ("abc",), (["a", "b"],), (b"ab",), (1,), ("1",), (1.0,), (None,), (True,)]
    arrays = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, np.float32), np.ones(4)]
    digests = [digest_of(*parts) for parts in values] + [digest_of(array) for array in arrays]
    assert len(set(digests)) == len(digests)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(np.arange(8)[::2]) == digest_of(np.arange(0, 8, 2))
    some = [*pairs(2), replace(pairs(1)[0], id="é\n")]
    assert training_fingerprint("d", [pair.id for pair in some]) == digest_of("d", [pair.id for pair in some])


@pytest.mark.parametrize("kind", ["topics", "mlp"])
def test_a_finished_fit_is_read_back_and_is_the_same(tmp_path: Path, kind: Any) -> None:
    """The second time nothing is fitted, and the result is equal in all its parts."""
    rng = np.random.default_rng(3)
    config = DEFAULT if kind == "topics" else FitConfig(hidden=4, epochs=2, batch=16)
    arrays = FitArrays(
        n_rubrics=4,
        n_features=6,
        feature_indptr=np.arange(25),
        feature_index=np.arange(24) % 6,
        feature_value=np.ones(24, np.float32),
        pair_prompt=np.arange(24),
        z_indptr=np.arange(25) * 2,
        z_rubric=np.tile([0, 1, 2, 3], 12),
        z_delta=rng.choice(np.array([-0.25, 0.75, 1.25], np.float32), 48),
    )
    run: Callable[..., Any] = partial(fit, arrays, None, config)
    first = kept_fit(Stages(tmp_path), "fit-1", ("d",), run, lambda _: None)
    second = kept_fit(Stages(tmp_path), "fit-1", ("d",), lambda **_: pytest.fail("fitted again"), lambda _: None)
    assert (first.history, first.choice, first.warnings) == (second.history, second.choice, second.warnings)
    for name, value in first.selector.tensors().items():
        assert value.tobytes() == second.selector.tensors()[name].tobytes()
