"""First and second moments of z by source: all that a squared loss on the margin needs, so that learning costs little.

Minimising mean (1 − z·w)² over a source needs its mean z and its mean of z zᵀ alone. A pooled loss in which every
source counts the same needs their means over sources: leaving one out takes no other pass over pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sources_data import Judged

NOTHING = 1e-8  # keeps the variance of a check that never differs above 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Mean z (check,), mean z zᵀ (check, check) and the variance of the mean (check,) of one source, by prompts."""

    mean: np.ndarray
    gram: np.ndarray
    variance: np.ndarray


@lru_cache(maxsize=512)
def moments(judged: Judged) -> Moments:
    """Return the moments of a source's z."""
    mean = judged.z.mean(axis=0, dtype=np.float64)
    gram = (judged.z.T @ judged.z).astype(np.float64) / len(judged.z)
    return Moments(mean=mean, gram=gram, variance=variance_of_mean(judged.z, judged.prompt) + NOTHING)


def variance_of_mean(values: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Return the variance of the mean over the first axis, pairs of a prompt drawn together (cluster-robust)."""
    _, cluster = np.unique(prompt, return_inverse=True)
    member = csr_matrix((np.ones(len(cluster)), (cluster, np.arange(len(cluster)))))
    sums = member @ (values - values.mean(axis=0))
    return (sums**2).sum(axis=0) * len(sums) / max(1, len(sums) - 1) / len(values) ** 2


def pooled(parts: Sequence[Moments], share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean z and mean z zᵀ over sources with these shares, which sum to 1."""
    mean = sum(part.mean * s for part, s in zip(parts, share, strict=True))
    gram = sum(part.gram * s for part, s in zip(parts, share, strict=True))
    return np.asarray(mean), np.asarray(gram)


@dataclass(frozen=True, kw_only=True, eq=False)
class Effects:
    """What sources say of each check on its own: the common effect, its variance, and the variance between sources."""

    common: np.ndarray
    variance: np.ndarray
    between: np.ndarray


def random_effects(parts: Sequence[Moments]) -> Effects:
    """Return the random-effects summary of each check's mean z over sources.

    Source: DerSimonian & Laird 1986, Controlled Clinical Trials 7:177-188.
    """
    mean, variance = (np.array([getattr(part, name) for part in parts]) for name in ("mean", "variance"))
    weight = 1 / variance
    fixed = (weight * mean).sum(axis=0) / weight.sum(axis=0)
    excess = (weight * (mean - fixed) ** 2).sum(axis=0) - (len(parts) - 1)
    scale = weight.sum(axis=0) - (weight**2).sum(axis=0) / weight.sum(axis=0)
    between = np.maximum(0, excess / np.maximum(scale, NOTHING))
    weight = 1 / (variance + between)
    total = weight.sum(axis=0)
    return Effects(common=(weight * mean).sum(axis=0) / total, variance=1 / total, between=between)


def solve(mean: np.ndarray, gram: np.ndarray, ridge: np.ndarray, *, l1: float = 0.0) -> np.ndarray:
    """Return w >= 0 (check,) minimising ½ wᵀ gram w − mean·w + ½ Σ ridge w² + l1 Σ w.

    In units of the ridge, so that a check which is shrunken much is no slower to fit: v = w · √ridge.
    """
    root = np.sqrt(np.maximum(ridge, NOTHING))
    inner, pull = gram / np.outer(root, root), (mean - l1) / root
    own = ridge / root**2

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        slope = inner @ v + own * v
        return float(v @ slope / 2 - pull @ v), slope - pull

    start = np.maximum(0, pull) / (np.abs(inner).sum(axis=1).max() + own.max())  # at most 1 / the largest eigenvalue
    bounds = [(0.0, None)] * len(mean)
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x / root
