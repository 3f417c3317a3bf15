"""Rubrics that say the same: estimate from the judgements which do, and let them share one effect instead of adding up.

Six rubrics on one criterion decide less than six on six. Per topic, over the rubrics with the largest effects μ:

    w = argmin_{w >= 0} ½ wᵀ (C + ρ I) w − μᵀ w
    C_ij = max(0, Σ z_i z_j / √(Σ z_i² Σ z_j²)) · n_ij / (n_ij + κ)        sums over pairs judged on both

n_ij counts those pairs, so a correlation that few pairs show counts for little. C has a diagonal of 1.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays

Floats = npt.NDArray[np.float64]

CANDIDATES = 48  # rubrics per topic that are weighed against each other; the rest get 0
SHRINKAGE = 20.0  # κ, in pairs judged on both
RIDGE = 0.1  # ρ
SWEEPS = 60  # of coordinate descent; it has settled long before


def without_overlap(train: FitArrays, effects: Floats) -> Floats:
    """Return the effects (topic, rubric) with overlapping rubrics sharing; 0 for those not among the candidates."""
    z, judged = _columns(train, train.z_delta.astype(np.float64)), _columns(train, np.ones(train.n_entries))
    size = min(CANDIDATES, effects.shape[1])
    chosen = np.argsort(-effects, axis=1, kind="stable")[:, :size]
    target = np.maximum(np.take_along_axis(effects, chosen, axis=1), 0)
    overlaps = np.stack([correlation(z[:, rubrics], judged[:, rubrics]) for rubrics in chosen])
    out = np.zeros_like(effects)
    np.put_along_axis(out, chosen, shared(overlaps, target), axis=1)
    return out


def correlation(z: Any, judged: Any) -> Floats:
    """Return C (rubric, rubric) of the columns of sparse z and of its mask (pair, rubric)."""
    together = (judged.T @ judged).toarray()
    squares = (z.multiply(z).T @ judged).toarray()  # Σ z_i² over the pairs that were also judged on j
    raw = (z.T @ z).toarray() / np.sqrt(np.maximum(squares * squares.T, 1e-12))
    shrunk = np.maximum(raw, 0) * together / (together + SHRINKAGE)
    np.fill_diagonal(shrunk, 1.0)
    return cast("Floats", shrunk)


def shared(overlaps: Floats, target: Floats) -> Floats:
    """Solve all topics' problems by coordinate descent: `overlaps` (topic, i, j), `target` (topic, i)."""
    weight = np.zeros_like(target)
    for _ in range(SWEEPS):
        for i in range(target.shape[1]):
            others = np.einsum("tj,tj->t", overlaps[:, i], weight) - weight[:, i]
            weight[:, i] = np.maximum(0, target[:, i] - others) / (1 + RIDGE)
    return weight


def _columns(train: FitArrays, value: Floats) -> Any:
    """Return entries as a sparse matrix (pair, rubric) whose columns are cheap to take."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415  (comes with scikit-learn; slow to import)

    shape = (train.n_pairs, train.n_rubrics)
    return csr_matrix((value, train.z_rubric, train.z_indptr), shape=shape).tocsc()
