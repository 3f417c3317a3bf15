"""The margin loss per topic, sparse: which few rubrics decide there, and how much, with the gates held fixed.

    min_{W, c >= 0}  Σ_pairs softplus(−Σ_k gate_k V_k · z)  +  λ Σ W  +  λ₀ Σ c  +  μ/2 (Σ W² + Σ c²)
                     +  δ/2 · pairs · Σ_k share_k V_kᵀ S V_k                       V_k = W_k + c
    λ = sparsity · √(pairs / topics) · price,   λ₀ = common · √pairs

With fixed gates the preference loss of the paper (sec:margin) is convex in the effects, so it is solved rather
than descended (`fit.solver`, for many problems at once `fit.problems`). The L1 terms grow as the noise of a sum does,
so a rubric enters a topic when its evidence there is more than chance; without them hundreds of rubrics with a little
noise each outvote the few that matter. c is what all topics have in common: where a rubric holds for every prompt, a
topic need not learn it from its own pairs. An effect's price is what was mined from the topic's prompts (`fit.price`).

The last term is the paper's diversity term (sec:margin), with alpha · weight in the place of alpha and with the
likeness S of judgements (`fit.overlap.repeats`) in the place of the likeness of texts, of which merging leaves next to
none. The best six rubrics are then six criteria.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.problems import Penalties, Problem, batch_of, effects, sparse_gates
from svr_async.fit.solver import RIDGE

__all__ = ["MOST_PAIRS", "RIDGE", "Penalties", "solve"]

Floats = npt.NDArray[np.float64]

MOST_PAIRS = 100_000  # solved on a sample of this many


def solve(
    z: Any, gates: Floats, start: Floats, penalties: Penalties, *, alike: Any = None, price: Floats | None = None
) -> Floats:
    """Return V (topic, rubric) >= 0. `z` is sparse (pair, rubric), absent = 0; `gates` (pair, topic) has rows of sum 1.

    `alike` is S, sparse (rubric, rubric) with a zero diagonal; None for no diversity term. `price` (topic, rubric)
    multiplies λ; None: 1. Where nothing survives the L1 terms, `start` is returned: an empty bank decides nothing.
    """
    batch = batch_of(z, [sparse_gates(gates, price=price)], alike=alike)
    found = effects(batch, Problem(penalties=penalties)).astype(np.float64)
    return found if np.isfinite(found).all() and found.any() else start
