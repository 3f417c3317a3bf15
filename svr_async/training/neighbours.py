"""The prompts most similar to each prompt, by cosine of their TF-IDF features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

BLOCK_ROWS = 256


def nearest_prompts(features: sparse.csr_matrix, offered: sparse.csr_matrix, *, count: int) -> NDArray[np.int32]:
    """Return, for each row, the offered rows most similar to it, best first, (n, count); −1 where there are fewer.

    `features` (n, d) has one unit row for each distinct prompt; `offered` is the same with the rows that may be
    neighbours, the others empty. A prompt is not its own neighbour. Ties go to the lower row. Work is done in blocks of
    rows, so memory is n times a constant.
    """
    n = features.shape[0]
    transposed = offered.T.tocsr()
    found = np.full((n, count), -1, dtype=np.int32)
    for begin in range(0, n, BLOCK_ROWS):
        scores = np.asarray((features[begin : begin + BLOCK_ROWS] @ transposed).todense(), dtype=np.float32)
        scores[np.arange(len(scores)), np.arange(begin, begin + len(scores))] = 0.0
        found[begin : begin + len(scores)] = _best(scores, count)
    return found


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.int32]:
    """Return the columns of the largest positive scores of each row, in falling order."""
    width = min(count, scores.shape[1])
    top = _top(scores, width) if width < scores.shape[1] else _all(scores)
    values = np.take_along_axis(scores, top, axis=1)
    order = np.lexsort((top, -values), axis=1)
    top, values = np.take_along_axis(top, order, axis=1), np.take_along_axis(values, order, axis=1)
    best = np.full((scores.shape[0], count), -1, dtype=np.int32)
    best[:, :width] = np.where(values > 0, top, -1)
    return best


def _top(scores: NDArray[np.float32], width: int) -> NDArray[np.int64]:
    """Return the columns of the `width` largest scores of each row; of equals at the border the lower columns."""
    border = -np.partition(-scores, width - 1, axis=1)[:, width - 1 : width]
    above, equal = scores > border, scores == border
    wanted = above | (equal & (np.cumsum(equal, axis=1) <= width - above.sum(axis=1, keepdims=True)))
    return np.nonzero(wanted)[1].reshape(len(scores), width)


def _all(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
