"""Small arrays with a planted truth: two kinds of prompts, and rubrics that speak to one of them or to nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, importance_matrix

Z_VALUES = np.array([-1.25, -0.75, -0.25, 0.25, 0.75, 1.25], np.float32)


def made_arrays(
    n_pairs: int = 160, n_rubrics: int = 12, n_features: int = 24, pool: int = 6, seed: int = 0, **changes: Any
) -> FitArrays:
    """Even prompts use the first half of the words and rubrics 0 to 2, odd ones the second half and 3 to 5."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n_pairs) % 2
    half = n_features // 2
    index = np.stack([np.sort(rng.choice(half, 4, replace=False)) + half * k for k in kind])
    value = (rng.random((n_pairs, 4)) + 0.2).astype(np.float32)
    value /= np.linalg.norm(value, axis=1, keepdims=True)
    rubric = np.stack([np.sort(rng.choice(n_rubrics, pool, replace=False)) for _ in range(n_pairs)])
    z = rng.choice(Z_VALUES, rubric.shape)
    helps = (rubric // 3 == kind[:, None]) & (rng.random(z.shape) < 0.9)
    z = np.where(helps, np.abs(z), z)
    arrays = FitArrays(
        n_rubrics=n_rubrics,
        n_features=n_features,
        feature_indptr=np.arange(n_pairs + 1) * 4,
        feature_index=index.ravel(),
        feature_value=value.ravel(),
        pair_prompt=np.arange(n_pairs),
        z_indptr=np.arange(n_pairs + 1) * pool,
        z_rubric=rubric.ravel(),
        z_delta=z.ravel(),
    )
    return replace(arrays, **changes)


def split(arrays: FitArrays, n_dev: int = 40) -> tuple[FitArrays, FitArrays]:
    """Return training and dev arrays."""
    cut = arrays.n_pairs - n_dev
    return arrays.take_pairs(np.arange(cut)), arrays.take_pairs(np.arange(cut, arrays.n_pairs))


def with_edges(arrays: FitArrays) -> FitArrays:
    """Return the arrays with two redundancy edges."""
    return replace(
        arrays,
        redundancy_i=np.array([0, 3]),
        redundancy_j=np.array([1, 9]),
        redundancy_value=np.array([0.5, 1.0], np.float32),
    )


def with_sources(arrays: FitArrays) -> FitArrays:
    """Return the arrays with one source prompt for each rubric, of its own kind where it has one."""
    prompts = np.array([2 * r if r < 3 else 2 * r + 1 for r in range(arrays.n_rubrics)])
    return replace(arrays, source_indptr=np.arange(arrays.n_rubrics + 1), source_prompt=prompts)


def with_negatives(arrays: FitArrays) -> FitArrays:
    """Return the arrays with the last two pairs turned into hard negatives of pair 0."""
    negative_of = np.full(arrays.n_pairs, -1)
    negative_of[-2:] = 0
    return replace(arrays, negative_of=negative_of)


def judged_margins(selector: Selector, arrays: FitArrays, top_k: int) -> NDArray[np.float64]:
    """Return F of each pair from the best `top_k` of its judged rubrics, by importance over the bank (pair,)."""
    out = np.zeros(arrays.n_pairs)
    for pair, row in enumerate(importance_matrix(selector, arrays, arrays.pair_prompt)):
        entries = slice(arrays.z_indptr[pair], arrays.z_indptr[pair + 1])
        values = row[arrays.z_rubric[entries]]
        best = np.argsort(-values, kind="stable")[:top_k]
        out[pair] = values[best] @ arrays.weighted[entries][best]
    return out
