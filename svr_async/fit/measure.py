"""How well a selector does as it is used: the best k rubrics of the whole bank, in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, importance_matrix

Floats = npt.NDArray[np.float32]


def importance_rows(
    selector: Selector, arrays: FitArrays, prompts: npt.NDArray[np.integer], *, block: int = 256
) -> Iterator[Floats]:
    """Yield alpha · weight (prompt, rubric) of the prompt rows, `block` at a time, so that memory stays small."""
    for first in range(0, len(prompts), block):
        yield importance_matrix(selector, arrays, prompts[first : first + block])


def active_rubrics(selector: Selector, arrays: FitArrays, top_k: int, *, at_most: int = 256) -> int:
    """Count the rubrics that are among the best `top_k`, with importance > 0, for one of the first prompts."""
    used = np.zeros(selector.n_rubrics, bool)
    for rows in importance_rows(selector, arrays, np.unique(arrays.pair_prompt)[:at_most]):
        chosen = np.argpartition(-rows, min(top_k, rows.shape[1]) - 1, axis=1)[:, :top_k]
        used[chosen[np.take_along_axis(rows, chosen, axis=1) > 0]] = True
    return int(used.sum())


def best(values: Floats, top_k: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the `top_k` largest positive values, largest first, ties by number."""
    order = np.argsort(-values, kind="stable")[:top_k]
    return order[values[order] > 0]


def accuracy(margins: npt.NDArray[np.floating]) -> float:
    """Return the share of pairs with F > 0; a tie counts half, since a coin would be right half the time."""
    return float((0.5 + 0.5 * np.sign(margins)).mean()) if len(margins) else 0.5


def judged_accuracy(selector: Selector, arrays: FitArrays, top_k: int) -> float:
    """Return the accuracy when each pair uses the best `top_k` of its own judged rubrics."""
    return accuracy(judged_margins(selector, arrays, top_k))


def judged_margins(selector: Selector, arrays: FitArrays, top_k: int) -> Floats:
    """Return F of each pair from the best `top_k` of its judged rubrics, ranked by importance over the bank (pair,)."""
    out = np.zeros(arrays.n_pairs, np.float32)
    rows = (row for block in importance_rows(selector, arrays, arrays.pair_prompt) for row in block)
    z = arrays.weighted
    for pair, row in enumerate(rows):
        a, b = int(arrays.z_indptr[pair]), int(arrays.z_indptr[pair + 1])
        values = row[arrays.z_rubric[a:b]]
        chosen = best(values, top_k)
        out[pair] = float(values[chosen] @ z[a:b][chosen])
    return out
