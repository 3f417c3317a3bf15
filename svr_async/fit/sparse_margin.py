"""The margin loss per topic, sparse: which few rubrics decide there, and how much, with the gates held fixed.

    min_{W >= 0}  Σ_pairs softplus(−Σ_k gate_k W_k · z)  +  λ Σ W  +  μ/2 Σ W²        λ = sparsity · √(pairs / topics)

With fixed gates the preference loss of the paper (sec:margin) is convex in the effects W, so it is solved rather
than descended: L-BFGS-B from SciPy, from the shrunken means. The L1 term grows as the noise of a sum does, so a rubric
enters a topic when its evidence there is more than chance; without it hundreds of rubrics with a little noise each
outvote the few that matter.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RIDGE = 2.0  # μ
ITERATIONS = 150
MOST_PAIRS = 100_000  # solved on a sample of this many


def solve(z: Any, gates: Floats, start: Floats, sparsity: float) -> Floats:
    """Return W (topic, rubric) >= 0. `z` is sparse (pair, rubric), absent = 0; `gates` (pair, topic) has rows of sum 1.

    Where nothing survives the L1 term, `start` is returned: an empty bank decides nothing.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    shape = start.shape
    penalty = sparsity * np.sqrt(gates.shape[0] / shape[0])

    def objective(flat: Floats) -> tuple[float, Floats]:
        weight = flat.reshape(shape)
        margin = np.einsum("pk,pk->p", gates, np.asarray(z @ weight.T))
        slope = 1 / (1 + np.exp(np.clip(margin, -500, 500)))
        loss = np.logaddexp(0, -margin).sum() + penalty * flat.sum() + RIDGE / 2 * (flat @ flat)
        gradient = -np.asarray((z.T @ (gates * slope[:, None])).T) + penalty + RIDGE * weight
        return float(loss), gradient.ravel()

    bounds = [(0.0, None)] * start.size
    begin = np.maximum(start, 0).ravel()
    found = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS})
    solved = cast("Floats", found.x.reshape(shape))
    return solved if np.isfinite(solved).all() and solved.any() else start
