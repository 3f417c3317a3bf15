"""Which rubrics are judged alike: known values, shrinkage by counts, repeats beside second opinions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix
from svr_async.fit.overlap import (
    ALIKE,
    DIFFERENCE,
    SHRINKAGE,
    alike,
    repeats,
)

from svr_async.fit import overlap
from svr_async.fit.config import DEFAULT
from svr_async.fit.evidence import FEW, likeness_of


def test_a_correlation_that_few_pairs_show_is_shrunk() -> None:
    """N pairs judged on both, always alike, give n / (n + κ); never judged together gives 0."""
    z = csc_matrix(np.array([[1.25, 1.25, 0], [-0.75, -0.75, 0], [0, 0, 0.25]]))
    judged = (z != 0).astype(float)
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 0] = 2 / (2 + SHRINKAGE)
    np.testing.assert_allclose(alike(z, judged, 0.0).toarray(), expected)
    assert alike(z, judged).nnz == 0


@pytest.mark.parametrize("measure", [alike, repeats])
def test_many_rubrics_are_gone_through_in_blocks_with_the_same_result(
    measure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, whatever the block: what does not fit in memory whole is what it would be."""
    rng = np.random.default_rng(2)
    z = csr_matrix(np.where(rng.random((400, 11)) < 0.6, rng.choice([-1.25, 0.25, 0.75], (400, 1)), 0))
    judged = (z != 0).astype(float)
    whole = measure(z, judged)
    monkeypatch.setattr(overlap, "MOST_WHOLE", 4)
    monkeypatch.setattr(overlap, "BLOCK", 4)
    assert whole.nnz
    assert (whole != measure(z, judged)).nnz == 0


def _opinions(agree: float, n_pairs: int = 4000) -> csr_matrix:
    """Return z of two rubrics that agree on this share of pairs."""
    rng = np.random.default_rng(1)
    first = rng.choice([-1.25, 1.25], n_pairs)
    return csr_matrix(np.column_stack([first, np.where(rng.random(n_pairs) < agree, first, -first)]))


def test_repeats_weigh_far_more_than_second_opinions() -> None:
    """A rubric judged the same in every pair repeats by C / ε, one that differs now and then by C / (1 − r + ε)."""
    found = []
    for agree in (1.0, 0.875, 0.75):
        z = _opinions(agree)
        mask = csr_matrix(np.ones(z.shape))
        likeness, repeated = alike(z, mask)[0, 1], repeats(z, mask)[0, 1]
        raw = likeness * (4000 + SHRINKAGE) / 4000
        np.testing.assert_allclose(repeated, likeness / (1 - raw + DIFFERENCE))
        found.append(repeated)
    assert found[0] > 5 * found[1] > 8 * found[2] > 0


def test_little_in_common_is_no_repetition() -> None:
    """What is alike below the cutoff, never judged together, or the rubric itself counts nothing."""
    z = _opinions(0.5 + 0.45 * ALIKE)
    assert repeats(z, csr_matrix(np.ones(z.shape))).nnz == 0
    apart = csr_matrix(np.array([[1.25, 0.0], [0.0, 1.25]]))
    assert repeats(apart, (apart != 0).astype(float)).nnz == 0
    assert repeats(apart, (apart != 0).astype(float)).shape == (2, 2)


@pytest.mark.parametrize(("top_ks", "measure"), [((6, 99), repeats), ((FEW,), repeats), ((FEW + 1,), alike)])
def test_repeats_are_pushed_out_where_a_prompt_gets_few_rubrics(
    top_ks: tuple[int, ...], measure: Callable[..., Any]
) -> None:
    """With many rubrics a prompt only the correlation counts; with a diversity of 0 there is no term."""
    z = _opinions(0.9)
    mask = csr_matrix(np.ones(z.shape))
    config = replace(DEFAULT, top_ks=top_ks)
    np.testing.assert_allclose(likeness_of(z, mask, config).toarray(), measure(z, mask).toarray())
    assert likeness_of(z, mask, replace(config, diversity=0.0)) is None
