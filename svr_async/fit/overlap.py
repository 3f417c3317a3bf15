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
from svr_async.fit.threads import in_threads

Floats = npt.NDArray[np.float64]

CANDIDATES = 48  # rubrics per topic that are weighed against each other; the rest get 0
SHRINKAGE = 20.0  # κ, in pairs judged on both
RIDGE = 0.1  # ρ
ALIKE = 0.3  # a correlation below this is not counted as repetition by the diversity term
DIFFERENCE = 0.05  # ε: judgements that differ less than this are as good as the same
SWEEPS = 60  # of coordinate descent; it has settled long before


def without_overlap(train: FitArrays, effects: Floats) -> Floats:
    """Return the effects (topic, rubric) with overlapping rubrics sharing; 0 for those not among the candidates."""
    z, judged = _columns(train, train.weighted.astype(np.float64)), _columns(train, np.ones(train.n_entries))
    size = min(CANDIDATES, effects.shape[1])
    chosen = np.argsort(-effects, axis=1, kind="stable")[:, :size]
    target = np.maximum(np.take_along_axis(effects, chosen, axis=1), 0)
    overlaps = np.stack(in_threads(lambda rubrics: correlation(z[:, rubrics], judged[:, rubrics]), chosen))
    out = np.zeros_like(effects)
    np.put_along_axis(out, chosen, shared(overlaps, target), axis=1)
    return out


def alike(z: Any, judged: Any, least: float = ALIKE) -> Any:
    """Return C of all rubrics without its diagonal, sparse (rubric, rubric), only where it is at least `least`."""
    i, j, _, shrunk = _correlations(z, judged)
    return _sparse(shrunk, i, j, shrunk >= least, z.shape[1])


def repeats(z: Any, judged: Any, least: float = ALIKE) -> Any:
    """Return how much rubrics repeat each other: C_ij / (1 − r_ij + ε), sparse as `alike` and where it is not 0.

    r is the correlation before shrinking. What two judgements have in common weighs by how seldom they differ: a
    threshold of the same quality, or a wording with errors of its own, is a second opinion, of use beside the first;
    what is judged the same in nearly every pair is not.
    """
    i, j, raw, shrunk = _correlations(z, judged)
    return _sparse(shrunk / (1 - np.minimum(raw, 1) + DIFFERENCE), i, j, shrunk >= least, z.shape[1])


def _correlations(z: Any, judged: Any) -> tuple[Any, Any, Floats, Floats]:
    """Return i, j, r_ij and C_ij of all ordered pairs of different rubrics with a positive correlation."""
    raw = (z.T @ z).tocoo()
    off = (raw.row != raw.col) & (raw.data > 0)
    i, j, products = raw.row[off], raw.col[off], raw.data[off]
    if not len(i):
        return i, j, np.zeros(0), np.zeros(0)
    squares, together = (z.multiply(z).T @ judged).tocsr(), (judged.T @ judged).tocsr()
    length = np.sqrt(np.asarray(squares[i, j]).ravel() * np.asarray(squares[j, i]).ravel())
    count = np.asarray(together[i, j]).ravel()
    value = products / np.maximum(length, 1e-12)
    return i, j, value, value * count / (count + SHRINKAGE)


def _sparse(value: Floats, i: Any, j: Any, kept: Any, size: int) -> Any:
    from scipy.sparse import csr_matrix  # noqa: PLC0415  (comes with scikit-learn; slow to import)

    return csr_matrix((value[kept], (i[kept], j[kept])), shape=(size, size))


def correlation(z: Any, judged: Any) -> Floats:
    """Return C (rubric, rubric) of the columns of sparse z and of its mask (pair, rubric)."""
    shrunk = alike(z, judged, 0.0).toarray()
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
