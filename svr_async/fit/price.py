"""What an effect costs by topic and criterion: less where the topic's prompts gave the criterion often.

    price_kc = ½ typical_k / rate_kc        rate_kc: of topic k's prompts, the share that gave criterion c
    typical_k = Σ_c rate² / Σ_c rate        the rate of what is usually mined there

A criterion that was mined again and again from a kind of prompts sets their responses apart, whatever its weight turns
out to be; one that never was seldom does. With few pairs that says as much as the judgements do (adaptive lasso: Zou
2006, Journal of the American Statistical Association 101:1418-1429).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

USUAL = 0.5  # of a criterion that is mined as often as is typical
LEAST, MOST = 0.1, 10.0
SHRINKAGE = 5.0  # prompts


def prices(gates: Floats, mined: Any) -> Floats | None:
    """Return the price of each effect (topic, criterion) by `gates` (prompt, topic), `mined` (prompt, criterion).

    None where nothing is known to be mined: every price is 1.
    """
    if mined is None or not mined.nnz:
        return None
    given = np.asarray((mined.T @ gates).T)
    rate = given / (gates.sum(axis=0)[:, None] + SHRINKAGE)
    typical = (rate**2).sum(axis=1) / np.maximum(rate.sum(axis=1), 1e-12)
    price: Floats = np.clip(USUAL * typical[:, None] / np.maximum(rate, 1e-9), LEAST, MOST)
    return price
