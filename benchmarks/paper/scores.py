"""How learned weights do on held pairs, and the plainest thing to learn them with: ridge logistic regression.

Points of a pair are 1 where F > 0, ½ for a tie and else 0, as training counts them on its dev split.
"""

from __future__ import annotations

import numpy as np

SAME = 1e-9  # margins nearer to 0 are ties
PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0)
LR_FOLDS = 4


def points(margin: np.ndarray) -> np.ndarray:
    """Return 1, ½ or 0 for each pair."""
    return 0.5 + 0.5 * np.sign(np.where(np.abs(margin) < SAME, 0.0, margin))


def logistic(z: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """Return weights of any sign (rubric,): ridge logistic regression without intercept, its penalty cross-validated.

    `prompts` (pair,) keeps the pairs of a prompt in one fold. The penalty with the best held-out accuracy is taken.
    """
    folds = np.random.default_rng(0).permutation(int(prompts.max()) + 1)[prompts] % LR_FOLDS

    def accuracy(penalty: float) -> float:
        hits = [points(z[folds == n] @ _logistic(z[folds != n], penalty)) for n in range(LR_FOLDS)]
        return float(np.concatenate(hits).mean())

    return _logistic(z, max(PENALTIES, key=accuracy))


def _logistic(z: np.ndarray, penalty: float) -> np.ndarray:
    """Minimise Σ softplus(−z·w) + penalty/2 · |w|²; every other pair is turned round, which changes nothing."""
    from sklearn.linear_model import LogisticRegression

    sign, used = np.where(np.arange(len(z)) % 2, -1.0, 1.0), z.any(axis=0)
    model = LogisticRegression(C=1 / penalty, fit_intercept=False, solver="newton-cholesky")
    weight = np.zeros(z.shape[1])
    weight[used] = model.fit(z[:, used] * sign[:, None], sign > 0).coef_[0]
    return weight
