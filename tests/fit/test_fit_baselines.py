"""The baselines: equal to scikit-learn where both apply, weights >= 0, worse than nothing never hidden."""

from typing import Any

import numpy as np
import pytest
from made_arrays import made_arrays, split
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from svr_async.errors import DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import baselines, fit_linear, linear_margins


def one_prompt(z: NDArray[Any] | NDArray[np.float64]) -> FitArrays:
    """Return arrays with every rubric judged on every pair, and no features."""
    n_pairs, n_rubrics = z.shape
    return FitArrays(
        n_rubrics=n_rubrics,
        n_features=0,
        feature_indptr=np.zeros(2, int),
        feature_index=np.zeros(0, int),
        feature_value=np.zeros(0, np.float32),
        pair_prompt=np.zeros(n_pairs, int),
        z_indptr=np.arange(n_pairs + 1) * n_rubrics,
        z_rubric=np.tile(np.arange(n_rubrics), n_pairs),
        z_delta=z.astype(np.float32).ravel(),
    )


def test_weights_equal_scikit_learns_logistic_regression() -> None:
    """Where no weight is at its bound, the fit is the usual logistic regression without intercept."""
    rng = np.random.default_rng(0)
    z = rng.choice([-1.25, -0.25, 0.25, 0.75, 1.25], (400, 3), p=[0.1, 0.15, 0.2, 0.25, 0.3])
    doubled, label = np.concatenate([z, -z]), np.repeat([1, 0], 400)
    reference = LogisticRegression(C=0.25, fit_intercept=False, tol=1e-10).fit(doubled, label)
    np.testing.assert_allclose(fit_linear(one_prompt(z)), reference.coef_[0], rtol=2e-2)


def test_a_rubric_that_points_the_wrong_way_gets_weight_zero() -> None:
    """Weights are never negative."""
    z = np.tile([[1.25, -1.25]], (50, 1))
    weight = fit_linear(one_prompt(z))
    assert weight[0] > 0
    assert weight[1] == 0


def test_both_baselines_are_reported() -> None:
    """The vote counts every judged rubric the same; the weights beat it where rubrics differ."""
    train, dev = split(made_arrays(n_pairs=600), 200)
    found = baselines(train, dev)
    vote = linear_margins(np.ones(12), dev)
    assert found.vote_accuracy == pytest.approx(np.mean((vote > 0) + 0.5 * (vote == 0)))
    assert found.linear_accuracy > found.vote_accuracy
    assert found.weight.min() >= 0


def test_no_signal_is_exit_8() -> None:
    """All ties cannot be fitted."""
    with pytest.raises(DegenerateFitError):
        fit_linear(one_prompt(np.zeros((4, 2))))
