"""How much an entry counts: its weight goes along with it and multiplies its z."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_arrays import judged_margins, made_arrays

from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit import ragged
from svr_async.fit.arrays import require_signal
from svr_async.fit.config import PRESETS, Structure
from svr_async.fit.epoch import tabulate
from svr_async.fit.evidence import evidence_of
from svr_async.fit.forward import linear_margins
from svr_async.fit.structure import shrunken_means
from svr_async.fit.topics import solve_topics
from svr_async.fit.training import fit


def test_weights_go_along_with_their_entries() -> None:
    """Through chosen pairs, kept rubrics and entries left out, an entry keeps its weight; the digest sees them."""
    made = made_arrays()
    weights = np.arange(made.n_entries, dtype=np.float32) / np.float32(8)
    arrays = replace(made, z_weight=weights, z_own=np.arange(made.n_entries) % 3 == 0)
    keys = dict(
        zip(
            zip(ragged.row_ids(made.z_indptr).tolist(), made.z_rubric.tolist(), strict=True),
            weights.tolist(),
            strict=True,
        )
    )
    rows, kept = np.array([7, 2, 40]), np.array([5, 0, 9])
    smaller = arrays.take_pairs(rows).without_own().restrict_rubrics(kept)
    at = zip(ragged.row_ids(smaller.z_indptr).tolist(), smaller.z_rubric.tolist(), strict=True)
    assert smaller.n_entries
    assert smaller.z_weight is not None
    assert smaller.z_weight.tolist() == [keys[rows[row], kept[rubric]] for row, rubric in at]
    assert arrays.digest() != replace(arrays, z_weight=None).digest()


def test_a_weight_multiplies_z_wherever_a_margin_is_made() -> None:
    """The compiled table, the margins in use and both baselines see z · weight; a weight of 1 changes nothing."""
    made = made_arrays()
    halved = replace(made, z_delta=made.z_delta / np.float32(2))
    weighed = replace(made, z_weight=np.full(made.n_entries, 0.5, np.float32))
    ones = replace(made, z_weight=np.ones(made.n_entries, np.float32))
    selector = solve_topics(made, replace(PRESETS["default"], structure=Structure())).selector
    for left, right in ((weighed, halved), (ones, made)):
        assert np.array_equal(tabulate(left)[0].z, tabulate(right)[0].z)
        assert np.array_equal(judged_margins(selector, left, 3), judged_margins(selector, right, 3))
    equal = np.ones(made.n_rubrics)
    np.testing.assert_allclose(linear_margins(equal, weighed), linear_margins(equal, halved))
    for settings in PRESETS.values():
        config = replace(settings, epochs=min(1, settings.epochs), hidden=8)
        assert all(
            np.array_equal(one, fit(made, None, config).selector.tensors()[name])
            for name, one in fit(ones, None, config).selector.tensors().items()
        )


def test_effects_are_those_of_entries_of_half_the_z() -> None:
    """Where effects are solved and where they are means, an entry of weight ½ is one of half its z, as in a margin."""
    made = made_arrays(n_pairs=80)
    weighed = replace(made, z_weight=np.full(made.n_entries, 0.5, np.float32))
    smaller = replace(made, z_delta=made.z_delta / np.float32(2))
    config = replace(PRESETS["default"], structure=Structure())
    one, other = (evidence_of(arrays, config) for arrays in (weighed, smaller))
    mixture = np.eye(2)[np.arange(80) % 2]
    np.testing.assert_allclose(shrunken_means(one.z, mixture), shrunken_means(other.z, mixture))
    first, second = (solve_topics(arrays, config).selector for arrays in (weighed, smaller))
    np.testing.assert_array_equal(first.output, second.output)


def test_an_entry_of_weight_0_is_left_out_of_the_solution() -> None:
    """It is no judgement of 0 either: means, paraphrases and effects are those without the entry."""
    made = made_arrays(n_pairs=80)
    out = np.arange(made.n_entries) % 5 == 0
    weighed = replace(made, z_weight=np.where(out, 0, 1).astype(np.float32))
    config = replace(PRESETS["default"], structure=Structure())
    without = replace(made, z_own=out).without_own()
    one, other = (evidence_of(arrays, config) for arrays in (weighed, without))
    assert one.z.nnz == made.n_entries - out.sum()
    np.testing.assert_array_equal(one.z.toarray(), other.z.toarray())
    np.testing.assert_array_equal(shrunken_means(one.z, np.ones((80, 1))), shrunken_means(other.z, np.ones((80, 1))))
    first, second = (solve_topics(arrays, config).selector for arrays in (weighed, without))
    np.testing.assert_array_equal(first.output, second.output)
    tied = replace(made, z_delta=np.where(out, 0, made.z_delta).astype(np.float32))
    assert evidence_of(tied, config).z.nnz == made.n_entries, "a tie is a judgement"


@pytest.mark.parametrize(
    "weights", [np.ones(3, np.float32), np.ones(960), np.full(960, -1, np.float32), np.full(960, np.nan, np.float32)]
)
def test_bad_weights_are_refused(weights: Any) -> None:
    """Another length, another type, negative, not a number: exit 7."""
    with pytest.raises(ArtefactError, match="z_weight"):
        replace(made_arrays(), z_weight=weights)


def test_entries_that_all_weigh_nothing_are_no_signal() -> None:
    """Exit 8, as for ties."""
    arrays = made_arrays()
    with pytest.raises(DegenerateFitError, match="no signal"):
        require_signal(replace(arrays, z_weight=np.zeros(arrays.n_entries, np.float32)))
