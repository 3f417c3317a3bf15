"""Which rubrics are judged alike, estimated from the judgements: what the diversity term keeps apart.

    C_ij = max(0, Σ z_i z_j / √(Σ z_i² Σ z_j²)) · n_ij / (n_ij + κ)        sums over pairs judged on both

Six rubrics on one criterion decide less than six on six. n_ij counts the pairs judged on both, so a correlation that
few pairs show counts for little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.threads import rows_of

Floats = npt.NDArray[np.float64]

SHRINKAGE = 20.0  # κ, in pairs judged on both
ALIKE = 0.3  # a correlation below this is not counted as repetition by the diversity term
MOST_WHOLE = 2048  # rows and columns of a sparse matrix that is looked up whole
BLOCK = 256  # rows at a time of one that is larger
DIFFERENCE = 0.05  # ε: judgements that differ less than this are as good as the same


def alike(z: Any, judged: Any, least: float = ALIKE) -> Any:
    """Return C of all rubrics without its diagonal, sparse (rubric, rubric), only where it is at least `least`."""
    i, j, _, shrunk = _correlations(z, judged, least)
    return _sparse(shrunk, i, j, shrunk >= least, z.shape[1])


def repeats(z: Any, judged: Any, least: float = ALIKE) -> Any:
    """Return how much rubrics repeat each other: C_ij / (1 − r_ij + ε), sparse as `alike` and where it is not 0.

    r is the correlation before shrinking. What two judgements have in common weighs by how seldom they differ: a
    threshold of the same quality, or a wording with errors of its own, is a second opinion, of use beside the first;
    what is judged the same in nearly every pair is not.
    """
    i, j, raw, shrunk = _correlations(z, judged, least)
    return _sparse(shrunk / (1 - np.minimum(raw, 1) + DIFFERENCE), i, j, shrunk >= least, z.shape[1])


def _correlations(z: Any, judged: Any, least: float) -> tuple[Any, Any, Floats, Floats]:
    """Return i, j, r_ij and C_ij of ordered pairs of different rubrics: all whose C_ij may be `least`."""
    if z.shape[1] > MOST_WHOLE:
        some, known = z.tocsc(), judged.tocsc()
        blocks = ((some[:, rows].T, known[:, rows].T, rows) for rows in rows_of(z.shape[1], BLOCK))
        parts = [_block(z, judged, *block, least) for block in blocks]
        i, j, value, shrunk = (np.concatenate(column) for column in zip(*parts, strict=True))
        return i, j, value, shrunk
    raw = (z.T @ z).tocoo()
    off = (raw.row != raw.col) & (raw.data > 0)
    i, j, products = raw.row[off], raw.col[off], raw.data[off]
    if not len(i):
        return i, j, np.zeros(0), np.zeros(0)
    squares, together = (z.multiply(z).T @ judged).tocsr(), (judged.T @ judged).tocsr()
    length = np.sqrt(entries_at(squares, i, j) * entries_at(squares, j, i))
    count = entries_at(together, i, j)
    value = products / np.maximum(length, 1e-12)
    return i, j, value, value * count / (count + SHRINKAGE)


def _block(z: Any, judged: Any, some: Any, known: Any, rows: slice, least: float) -> tuple[Any, Any, Floats, Floats]:
    """Return what `_correlations` does of the i in `rows`, whose z and judgements are `some` and `known` (i, pair)."""
    count = (known @ judged).toarray()
    raw = (some @ z).toarray()
    i, j = np.nonzero((raw > 0) & (count / (count + SHRINKAGE) >= least))
    off = i + rows.start != j
    i, j = i[off], j[off]
    products, together = raw[i, j], count[i, j]
    length = np.sqrt((some.multiply(some) @ judged).toarray()[i, j] * (known @ z.multiply(z)).toarray()[i, j])
    value = products / np.maximum(length, 1e-12)
    return i + rows.start, j, value, value * together / (together + SHRINKAGE)


def entries_at(matrix: Any, i: Any, j: Any) -> Floats:
    """Return entries of a sparse matrix (n,), by their rows and columns; a small one is faster looked up whole."""
    whole = matrix.toarray() if max(matrix.shape) <= MOST_WHOLE else matrix
    return np.asarray(whole[i, j], np.float64).ravel()


def _sparse(value: Floats, i: Any, j: Any, kept: Any, size: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((value[kept], (i[kept], j[kept])), shape=(size, size))
