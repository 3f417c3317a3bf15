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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.problems import Penalties, Problem, batch_of, solutions, sparse_gates
from svr_async.fit.solver import RIDGE

__all__ = ["MOST_PAIRS", "RIDGE", "Penalties", "Wanted", "solve"]

Floats = npt.NDArray[np.float64]

MOST_PAIRS = 100_000  # solved on a sample of this many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """A problem: `gates` (pair, topic) with rows of sum 1, penalties, and `price` (topic, rubric), which multiplies λ.

    `start` gives what (topic, rubric) is returned where nothing survives the L1 terms: an empty bank decides nothing.
    """

    gates: Floats
    start: Callable[[], Floats]
    penalties: Penalties
    price: Floats | None = None


def solve(z: Any, wanted: Sequence[Wanted], *, alike: Any = None) -> list[Floats]:
    """Return V (topic, rubric) >= 0 of each problem on the same sparse `z` (pair, rubric), absent = 0.

    `alike` is S, sparse (rubric, rubric) with a zero diagonal; None for no diversity term.
    """
    keys = [(id(each.gates), id(each.price)) for each in wanted]  # several may have the same gates
    own = dict(zip(keys, wanted, strict=True))
    places = {key: place for place, key in enumerate(own)}
    batch = batch_of(z, [sparse_gates(each.gates, price=each.price) for each in own.values()], alike=alike)
    problems = [Problem(gates=places[key], penalties=each.penalties) for key, each in zip(keys, wanted, strict=True)]
    found = [effects.astype(np.float64) for effects in solutions(batch, problems)]
    return [
        effects if np.isfinite(effects).all() and effects.any() else each.start()
        for effects, each in zip(found, wanted, strict=True)
    ]
