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


def baselines(train: FitArrays, dev: FitArrays) -> Baselines:
    """Fit one weight per rubric on train, and measure it and the vote on dev."""
    weight = fit_linear(train)
    return Baselines(
        vote_accuracy=accuracy(linear_margins(np.ones(dev.n_rubrics), dev)),
        linear_accuracy=accuracy(linear_margins(weight, dev)),
        weight=weight.astype(np.float32),
    )


def fit_linear(train: FitArrays) -> Floats:
    """Return w >= 0 (rubric,) minimising Σ softplus(−Z w) + |w|²: logistic regression without intercept."""
    from svr_async.fit.margin_problems import Penalties, Problem, solve

    require_signal(train)
    problem = Problem(mixture=np.ones((train.n_pairs, 1)), penalties=Penalties(sparsity=0.0))
    return cast("Floats", solve(_matrix(train), [problem])[0][0])


def linear_margins(weight: npt.NDArray[np.floating], arrays: FitArrays) -> Floats:
    """Return Σ weight · z over each pair's judged entries (pair,); 0 without entries."""
    return cast("Floats", _matrix(arrays) @ weight.astype(np.float64))


def _matrix(arrays: FitArrays) -> Any:
    """Return z · entry weight as a sparse matrix (pair, rubric)."""
    from scipy.sparse import csr_matrix

    shape = arrays.n_pairs, arrays.n_rubrics
    return csr_matrix((arrays.weighted.astype(np.float64), arrays.z_rubric, arrays.z_indptr), shape=shape)
