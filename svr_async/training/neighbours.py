"""The prompts most similar to each prompt, by cosine of their TF-IDF features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

BLOCK_ROWS = 256


def nearest_prompts(
    features: sparse.csr_matrix, groups: Sequence[object], *, queries: NDArray[np.int64] | None = None, count: int = 24
) -> NDArray[np.int32]:
    """Return, for each query row, the rows most similar to it, best first, (n_queries, count); −1 where there are fewer.

    `features` (n, d) has unit rows. Rows of the same group (the same prompt) are never neighbours. Ties go to the
    lower row. Work is done in blocks of rows, so memory is n times a constant.
    """
    n = features.shape[0]
    rows = np.arange(n) if queries is None else np.asarray(queries)
    labels = _labels(groups)
    by_label = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_label], np.arange(labels.max(initial=-1) + 2))
    transposed = features.T.tocsr()
    found = np.full((len(rows), count), -1, dtype=np.int32)
    for begin in range(0, len(rows), BLOCK_ROWS):
        block = rows[begin : begin + BLOCK_ROWS]
        scores = np.asarray((features[block] @ transposed).todense(), dtype=np.float32)
        for offset, row in enumerate(block):
            scores[offset, by_label[starts[labels[row]] : starts[labels[row] + 1]]] = 0.0
        found[begin : begin + len(block)] = _best(scores, count)
    return found


def _labels(groups: Sequence[object]) -> NDArray[np.int64]:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.int32]:
    """Return the columns of the largest positive scores of each row, in falling order."""
    width = min(count, scores.shape[1])
    top = np.argpartition(-scores, width - 1, axis=1)[:, :width] if width < scores.shape[1] else _all(scores)
    values = np.take_along_axis(scores, top, axis=1)
    order = np.lexsort((top, -values), axis=1)
    top, values = np.take_along_axis(top, order, axis=1), np.take_along_axis(values, order, axis=1)
    best = np.full((scores.shape[0], count), -1, dtype=np.int32)
    best[:, :width] = np.where(values > 0, top, -1)
    return best


def _all(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
