"""Rubrics that say the same share one effect: known values, the optimality conditions, shrinkage by counts."""

import numpy as np
from made_arrays import made_arrays
from scipy.optimize import nnls
from scipy.sparse import csc_matrix

from svr_async.fit.overlap import RIDGE, SHRINKAGE, correlation, shared, without_overlap


def test_twins_share_and_the_others_stay():
    """Two identical rubrics get half each of what one would get; an independent one is untouched but for the ridge."""
    overlaps = np.array([[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    found = shared(overlaps, np.array([[0.6, 0.6, 0.5]]))[0]
    np.testing.assert_allclose(found, [0.6 / (2 + RIDGE), 0.6 / (2 + RIDGE), 0.5 / (1 + RIDGE)], atol=1e-4)


def test_it_equals_non_negative_least_squares():
    """The solution is SciPy's, for random overlaps of several topics at once."""
    rng = np.random.default_rng(0)
    factor = rng.random((4, 9, 7))
    overlaps = np.einsum("tki,tkj->tij", factor, factor)
    scale = np.sqrt(np.einsum("tii->ti", overlaps))
    overlaps = 0.7 * overlaps / (scale[:, :, None] * scale[:, None]) + 0.3 * np.eye(7)
    target = rng.random((4, 7))
    for matrix, goal, found in zip(overlaps, target, shared(overlaps, target), strict=True):
        root = np.linalg.cholesky(matrix + RIDGE * np.eye(7)).T
        np.testing.assert_allclose(found, nnls(root, np.linalg.solve(root.T, goal))[0], atol=1e-6)


def test_a_correlation_that_few_pairs_show_is_shrunk():
    """N pairs judged on both, always alike, give n / (n + κ); never judged together gives 0."""
    z = csc_matrix(np.array([[1.25, 1.25, 0], [-0.75, -0.75, 0], [0, 0, 0.25]]))
    judged = (z != 0).astype(float)
    expected = np.eye(3)
    expected[0, 1] = expected[1, 0] = 2 / (2 + SHRINKAGE)
    np.testing.assert_allclose(correlation(z, judged), expected)


def test_effects_stay_non_negative_and_finite():
    """Any arrays give finite shares >= 0, none larger than the effect that it came from."""
    arrays = made_arrays()
    effects = np.random.default_rng(0).normal(size=(3, 12))
    found = without_overlap(arrays, effects)
    assert found.min() >= 0
    assert (found <= np.maximum(effects, 0) + 1e-12).all()
