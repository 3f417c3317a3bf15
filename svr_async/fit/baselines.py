"""Two baselines on the same entries: every rubric counts the same, and one weight per rubric for all prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays, require_signal
from svr_async.fit.forward import accuracy

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baselines:
    """Dev accuracy (a tie counts half) of the unweighted vote and of prompt-independent weights >= 0 (rubric,)."""

    vote_accuracy: float
    linear_accuracy: float
    weight: npt.NDArray[np.float32]


def baselines(train: FitArrays, dev: FitArrays, *, penalty: float = 1.0) -> Baselines:
    """Fit the linear baseline on train, and measure it and the vote on dev."""
    weight = fit_linear(train, penalty=penalty)
    return Baselines(
        vote_accuracy=accuracy(linear_margins(np.ones(dev.n_rubrics), dev)),
        linear_accuracy=accuracy(linear_margins(weight, dev)),
        weight=weight.astype(np.float32),
    )


def fit_linear(train: FitArrays, *, penalty: float = 1.0) -> Floats:
    """Return w >= 0 (rubric,) minimising Σ softplus(−Z w) + penalty/2 · |w|², Z the mean-pooled judged entries.

    Logistic regression without intercept on rows z / (number of judged entries), by L-BFGS with bounds.
    """
    from scipy.optimize import minimize

    require_signal(train)
    z = _row_means(train)

    def objective(weight: Floats) -> tuple[float, Floats]:
        margin = z @ weight
        slope = -1 / (1 + np.exp(np.clip(margin, -700, 700)))
        loss = np.logaddexp(0, -margin).sum() + penalty / 2 * weight @ weight
        return float(loss), z.T @ slope + penalty * weight

    start = np.ones(train.n_rubrics)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * train.n_rubrics)
    return cast("Floats", found.x)


def linear_margins(weight: npt.NDArray[np.floating], arrays: FitArrays) -> Floats:
    """Return the mean of weight · z over each pair's judged entries (pair,); 0 without entries."""
    return cast("Floats", _row_means(arrays) @ weight.astype(np.float64))


def _row_means(arrays: FitArrays) -> Any:
    """Return z · weight / (sum of the pair's weights: its judged entries) as a sparse matrix (pair, rubric)."""
    from scipy.sparse import csr_matrix

    counts = np.diff(arrays.z_indptr)
    weights = arrays.entry_weights.astype(np.float64)
    total = np.bincount(np.repeat(np.arange(len(counts)), counts), weights, minlength=len(counts))
    value = arrays.weighted.astype(np.float64) / np.repeat(np.maximum(total, 1e-12), counts)
    return csr_matrix((value, arrays.z_rubric, arrays.z_indptr), shape=(arrays.n_pairs, arrays.n_rubrics))
