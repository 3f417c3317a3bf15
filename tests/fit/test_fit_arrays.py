"""Arrays at the door: what is refused, what is missing, what is left out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_arrays import made_arrays, with_edges, with_negatives, with_sources
from numpy.typing import NDArray

from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays, require_signal


def entry(arrays: FitArrays, value: float) -> NDArray[np.float32]:
    """Return z_delta with its first entry changed."""
    z = arrays.z_delta.copy()
    z[0] = value
    return z


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.26, -2.0])
def test_a_bad_z_is_refused_with_its_value(value: float) -> None:
    """NaN, infinities and |z| > 1.25 end the load with exit 7 (fault 108)."""
    arrays = made_arrays()
    with pytest.raises(ArtefactError, match="z_delta") as caught:
        replace(arrays, z_delta=entry(arrays, value))
    assert caught.value.exit_code == 7
    assert "\n" not in caught.value.one_line()


@pytest.mark.parametrize(
    "change",
    [
        {"feature_indptr": np.array([0, 1])},
        {"feature_indptr": np.array([1])},
        {"n_rubrics": 3},
        {"n_features": 2},
        {"pair_prompt": np.full(160, 500)},
        {"pair_prompt": np.zeros(160)},
        {"z_delta": np.zeros(4, np.float32)},
        {"z_delta": np.zeros(960)},
        {"z_own": np.zeros(3, bool)},
        {"negative_of": np.full(160, 1)},
        {"negative_of": np.zeros(3, int)},
        {"redundancy_i": np.array([0])},
        {"redundancy_i": np.array([1]), "redundancy_j": np.array([0]), "redundancy_value": np.ones(1, np.float32)},
        {"redundancy_i": np.array([0]), "redundancy_j": np.array([1]), "redundancy_value": np.full(1, 2.0)},
        {"source_indptr": np.array([0, 1]), "source_prompt": np.array([0])},
    ],
)
def test_shapes_and_ranges_are_checked(change: dict[str, Any]) -> None:
    """Any array that does not fit the others is named in one line, exit 7."""
    with pytest.raises(ArtefactError):
        replace(made_arrays(), **change)


def test_a_missing_entry_is_not_zero() -> None:
    """An absent entry leaves its row shorter; padding has z = 0."""
    from svr_async.fit.epoch import tabulate

    arrays = made_arrays(n_pairs=4, pool=3)
    keep = np.ones(12, bool)
    keep[1] = False
    shorter = replace(
        arrays, z_indptr=np.array([0, 2, 5, 8, 11]), z_rubric=arrays.z_rubric[keep], z_delta=arrays.z_delta[keep]
    )
    table, _ = tabulate(shorter)
    np.testing.assert_array_equal((table.z != 0).sum(axis=1), [2, 3, 3, 3])


@pytest.mark.parametrize("n_rubrics", [0, 12])
def test_nothing_to_learn_from_is_exit_8(n_rubrics: int) -> None:
    """No rubrics, no entries, or every entry tied is a degenerate fit, not a random model (faults 101, 107)."""
    arrays = made_arrays()
    empty: dict[str, Any] = {
        "z_indptr": np.zeros(161, int),
        "z_rubric": np.zeros(0, int),
        "z_delta": np.zeros(0, np.float32),
    }
    with pytest.raises(DegenerateFitError):
        require_signal(replace(arrays, n_rubrics=n_rubrics, **empty))
    with pytest.raises(DegenerateFitError, match="no signal") as caught:
        require_signal(replace(arrays, z_delta=np.zeros_like(arrays.z_delta)))
    assert caught.value.exit_code == 8


def test_own_entries_can_be_left_out() -> None:
    """Entries mined from the pair itself go, the others stay in order."""
    arrays = made_arrays()
    own = np.arange(arrays.n_entries) % 3 == 0
    fewer = replace(arrays, z_own=own).without_own()
    np.testing.assert_array_equal(fewer.z_rubric, arrays.z_rubric[~own])
    np.testing.assert_array_equal(ragged.lengths(fewer.z_indptr), 4)
    assert arrays.without_own() is arrays


def test_restricting_rubrics_renumbers_everything() -> None:
    """Entries, sources and redundancy edges follow the kept rubrics."""
    arrays = with_sources(with_edges(made_arrays()))
    kept = np.array([9, 3, 0])
    smaller = arrays.restrict_rubrics(kept)
    assert smaller.n_rubrics == 3
    np.testing.assert_array_equal(kept[smaller.z_rubric], arrays.z_rubric[np.isin(arrays.z_rubric, kept)])
    assert arrays.source_prompt is not None
    np.testing.assert_array_equal(smaller.source_prompt, arrays.source_prompt[kept])
    assert smaller.redundancy_i is not None
    assert smaller.redundancy_j is not None
    assert (smaller.redundancy_i.tolist(), smaller.redundancy_j.tolist()) == ([0], [1])


def test_taking_pairs_keeps_their_entries_and_negatives() -> None:
    """Chosen pairs keep their entries, and hard negatives still point at their originals."""
    arrays = with_negatives(made_arrays())
    chosen = arrays.take_pairs(np.array([5, 0, 158, 159]))
    np.testing.assert_array_equal(chosen.z_rubric[:6], arrays.z_rubric[30:36])
    np.testing.assert_array_equal(chosen.negative_of, [-1, -1, 1, 1])
    with pytest.raises(ArtefactError, match="negative_of"):
        arrays.take_pairs(np.array([5, 158]))


def test_taking_pairs_keeps_their_sources() -> None:
    """Chosen pairs keep the number of their source; the digest sees it, and a list of another length is refused."""
    arrays = made_arrays()
    sourced = replace(arrays, pair_source=np.arange(160, dtype=np.int32) % 5)
    taken = sourced.take_pairs(np.array([7, 3])).pair_source
    assert taken is not None
    assert taken.tolist() == [2, 3]
    assert sourced.digest() != arrays.digest()
    for wrong in (np.arange(159), np.full(160, -1)):
        with pytest.raises(ArtefactError, match="pair_source"):
            replace(arrays, pair_source=wrong)


def test_hard_negatives_share_half_of_their_pairs_weight() -> None:
    """The original keeps a half, its negatives share the other half (paper sec:adv)."""
    weights = with_negatives(made_arrays()).row_weights()
    np.testing.assert_allclose(weights[[0, 1, -1, -2]], [0.5, 1, 0.25, 0.25])


def test_the_digest_sees_every_change() -> None:
    """Equal arrays have equal digests; one changed value changes it."""
    arrays = made_arrays()
    assert arrays.digest() == made_arrays().digest()
    assert (
        arrays.digest() != replace(arrays, z_delta=entry(arrays, 0.25 if arrays.z_delta[0] != 0.25 else 0.75)).digest()
    )


def test_rows_are_cut_into_short_pieces() -> None:
    """Every row gets at least one piece, and the pieces' borders cover all entries in order."""
    borders, per_row = ragged.pieces(np.array([0, 0, 3, 10]), 4)
    np.testing.assert_array_equal(per_row, [1, 1, 2])
    np.testing.assert_array_equal(borders, [0, 0, 3, 7, 10])
