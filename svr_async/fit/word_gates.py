"""Gates by words alone for groups that were found by more than words: logistic regression on soft groups.

    min_{W, b}  −Σ_prompts Σ_k held_k log softmax(Wᵀ φ + b)_k  +  ρ/2 Σ W²

EM's own word shares weigh each word as if the others were not there; where the groups are known for the training
prompts, the regression tells better which words give them away. A few steps from the shares are enough.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.threads import in_threads, rows_of

Floats = npt.NDArray[np.float64]

RIDGE = 0.3  # ρ
ITERATIONS = 30
BLOCK = 4096  # prompts at a time, in threads


def gates_by_words(features: Any, held: Floats, words: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return W (feature, topic) and b (topic,) that tell groups `held` (prompt, topic) by sparse `features`.

    The search begins at `words` and `share`, which have the shapes of the result.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    shape = words.shape
    blocks = [(features[rows], held[rows]) for rows in rows_of(features.shape[0], BLOCK)]

    def objective(flat: Floats) -> tuple[float, Floats]:
        weight, bias = flat[: words.size].reshape(shape), flat[words.size :]
        parts = in_threads(lambda block: _mismatch(*block, weight, bias), blocks)
        slope = sum((part[1] for part in parts[1:]), parts[0][1]) + RIDGE * weight
        loss = sum(part[0] for part in parts) + RIDGE / 2 * float((weight * weight).sum())
        return loss, np.concatenate([slope.ravel(), np.sum([part[2] for part in parts], axis=0)])

    begin = np.concatenate([words.ravel(), share])
    found = minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    solved = cast("Floats", found.x)
    if not np.isfinite(solved).all():
        return words, share
    return solved[: words.size].reshape(shape), solved[words.size :]


def _mismatch(features: Any, held: Floats, weight: Floats, bias: Floats) -> tuple[float, Floats, Floats]:
    """Return the cross-entropy of some prompts, its slope by `weight` and its slope by `bias`."""
    score = np.asarray(features @ weight) + bias
    score -= score.max(axis=1, keepdims=True)
    total = np.log(np.exp(score).sum(axis=1, keepdims=True))
    excess = np.exp(score - total) - held
    return float((held * (total - score)).sum()), np.asarray(features.T @ excess), excess.sum(axis=0)
