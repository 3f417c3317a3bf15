"""How well a selector does, in NumPy: as it is used, by the best k rubrics of the whole bank, and as a fit sees it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector, hidden_matrix, importance_matrix, positive_numpy

Floats = npt.NDArray[np.float32]

PAIRS = 512  # looked at together


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


def fitted_margins(selector: Selector, arrays: FitArrays, config: FitConfig) -> tuple[Floats, Floats]:
    """Return F of each pair (pair,) as a fit of kind `topics` sees it, and F by the best `top_k` of its entries.

    alpha is a distribution on the pair's judged entries, or, for the pool `bank`, on all rubrics. 0 without an entry.
    """
    whole, best_k = np.zeros((2, arrays.n_pairs), np.float32)
    judged = np.flatnonzero(ragged.lengths(arrays.z_indptr))
    for first in range(0, len(judged), PAIRS):
        pair = judged[first : first + PAIRS]
        whole[pair], best_k[pair] = _margins(selector, arrays, pair, config)
    return whole, best_k


def _margins(
    selector: Selector, arrays: FitArrays, pair: npt.NDArray[np.integer], config: FitConfig
) -> tuple[Floats, Floats]:
    """Return both margins of a few pairs; where entries tie with the k-th, all of them count."""
    borders, at = ragged.take_rows(arrays.z_indptr, pair)
    width = int(ragged.lengths(borders).max())
    rubric = ragged.padded(borders, arrays.z_rubric[at], fill=0, width=width)
    z = ragged.padded(borders, arrays.weighted[at], fill=0, width=width)
    judged = np.arange(width) < ragged.lengths(borders)[:, None]
    hidden = hidden_matrix(selector, arrays, arrays.pair_prompt[pair])
    if config.pool == "judged":
        logits = np.einsum("beh,bh->be", selector.output[rubric], hidden) + selector.output_bias[rubric]
        alpha = positive_numpy(np.where(judged, logits, np.float32(-np.inf)))
    else:
        whole_bank = positive_numpy(hidden @ selector.output.T + selector.output_bias)
        alpha = np.take_along_axis(whole_bank, rubric, axis=1)
    ranked = np.where(judged, alpha * selector.weight[rubric], 0)
    parts = ranked * z
    if config.top_k is None or config.top_k >= width:
        return parts.sum(axis=1), parts.sum(axis=1)
    lowest = -np.partition(-ranked, config.top_k - 1, axis=1)[:, config.top_k - 1 : config.top_k]
    return parts.sum(axis=1), np.where(ranked >= lowest, parts, 0).sum(axis=1)
