"""The margin loss per topic, sparse: which few rubrics decide there, and how much, with the gates held fixed.

    min_{W, c >= 0}  Σ_pairs softplus(−Σ_k gate_k V_k · z)  +  λ Σ W  +  λ₀ Σ c  +  μ/2 (Σ W² + Σ c²)
                     +  δ/2 · pairs · Σ_k share_k V_kᵀ S V_k                       V_k = W_k + c
    λ = sparsity · √(pairs / topics),   λ₀ = common · √pairs

With fixed gates the preference loss of the paper (sec:margin) is convex in the effects, so it is solved rather
than descended: L-BFGS-B from SciPy, from the shrunken means. The L1 terms grow as the noise of a sum does, so a rubric
enters a topic when its evidence there is more than chance; without them hundreds of rubrics with a little noise each
outvote the few that matter. c is what all topics have in common: where a rubric holds for every prompt, a topic need
not learn it from its own pairs.

The last term is the paper's diversity term (sec:margin), with alpha · weight in the place of alpha and with the
likeness S of judgements (`fit.overlap.repeats`) in the place of the likeness of texts, of which merging leaves next to
none. The best six rubrics are then six criteria.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.threads import in_threads, rows_of

Floats = npt.NDArray[np.float64]

RIDGE = 2.0  # μ
ITERATIONS = 150
MOST_PAIRS = 100_000  # solved on a sample of this many
BLOCK = 4096  # pairs at a time, so that their gates stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalties:
    """What keeps the effects few and apart: L1 by topic, L1 of the common part (0: there is none), diversity δ."""

    sparsity: float
    common: float = 0.0
    diversity: float = 0.0


def solve(
    z: Any, gates: Floats, start: Floats, penalties: Penalties, *, alike: Any = None, iterations: int = ITERATIONS
) -> Floats:
    """Return V (topic, rubric) >= 0. `z` is sparse (pair, rubric), absent = 0; `gates` (pair, topic) has rows of sum 1.

    `alike` is S, sparse (rubric, rubric) with a zero diagonal; None for no diversity term. Where nothing survives the
    L1 terms, `start` is returned: an empty bank decides nothing.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    blocks = [(z[rows], gates[rows]) for rows in rows_of(gates.shape[0], BLOCK)]
    cost, topics = _costs(gates, start, penalties), len(start)
    apart = None if alike is None else penalties.diversity * gates.sum(axis=0)[:, None]

    def objective(flat: Floats) -> tuple[float, Floats]:
        rows = flat.reshape(len(cost), -1)
        effects = _folded(rows, topics)
        columns = np.ascontiguousarray(effects.T)
        parts = in_threads(lambda block: _preference(*block, columns), blocks)
        loss = sum(part[0] for part in parts) + float((cost * rows).sum()) + RIDGE / 2 * float(flat @ flat)
        slope = sum((part[1] for part in parts[1:]), parts[0][1]).T
        if apart is not None:
            repeated = apart * (alike @ columns).T
            loss, slope = loss + float((repeated * effects).sum()) / 2, slope + repeated
        slope = slope if len(cost) == topics else np.vstack([slope, slope.sum(axis=0)])
        return loss, (slope + cost + RIDGE * rows).ravel()

    begin = np.vstack([np.maximum(start, 0), np.zeros((len(cost) - topics, start.shape[1]))]).ravel()
    options = {"maxiter": iterations}
    bounds = [(0.0, None)] * begin.size
    found = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    solved = _folded(cast("Floats", found.x).reshape(len(cost), -1), topics)
    return solved if np.isfinite(solved).all() and solved.any() else start


def _costs(gates: Floats, start: Floats, penalties: Penalties) -> Floats:
    """Return λ for each row of the problem (row, 1): one a topic, and one more where there is a common part."""
    own = penalties.sparsity * np.sqrt(len(gates) / len(start))
    rows = [own] * len(start) + ([penalties.common * np.sqrt(len(gates))] if penalties.common > 0 else [])
    return np.array(rows)[:, None]


def _folded(rows: Floats, topics: int) -> Floats:
    """Return V: the topics' own effects, with the common ones added to each."""
    return rows if len(rows) == topics else rows[:topics] + rows[topics]


def _preference(z: Any, gates: Floats, columns: Floats) -> tuple[float, Floats]:
    """Return Σ softplus(−F) of some pairs and its slope, (rubric, topic) like the effects in `columns`."""
    margin = np.einsum("pk,pk->p", gates, z @ columns)
    share = gates * (-1 / (1 + np.exp(np.clip(margin, -500, 500))))[:, None]
    return float(np.logaddexp(0, -margin).sum()), np.asarray(z.T @ share)
