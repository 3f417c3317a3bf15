"""Mean z by rubric, shrunk by the number of judgements: what little data can tell of a rubric.

Per topic, mean_r = Σ_pairs gate · z_r / (Σ_pairs gate · judged_r + κ).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHRINKAGE = 100.0  # κ, in judgements


def shrunken(z: Any, gates: Floats) -> Floats:
    """Return the means of z by topic (topic, rubric), shrunk by the number of judgements; z is never stored as 0.

    `z` is sparse (pair, rubric), `gates` (pair, topic).
    """
    judged = z.copy()
    judged.data = np.ones_like(judged.data)
    return np.asarray((z.T @ gates).T) / (np.asarray((judged.T @ gates).T) + SHRINKAGE)


def one_weight(z: Any) -> Floats:
    """Return one weight a rubric for every prompt (1, rubric): its shrunken mean, 0 where that is below."""
    return np.maximum(shrunken(z, np.ones((z.shape[0], 1))), 0)
