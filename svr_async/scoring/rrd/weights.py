"""Whitened-uniform weights: rubrics that say the same of responses share what one of them would weigh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def whitened_uniform(verdicts: Sequence[Sequence[float | None]], *, shrink: float) -> list[float]:
    """Return the weights Σ^(−1/2) · 1 of rubrics, which add up to 1, from their verdicts on the same responses.

    `verdicts` are (rubrics, responses), 1 for a yes and 0 for a no; None, not known, counts as the rubric's mean. Σ is
    the covariance of rubrics over responses, drawn by `shrink` to a multiple of the identity: there are often more
    rubrics than responses, and one that all or none satisfy varies by nothing. Without any variance all weigh the same.
    A weight below 0, which would turn its rubric round, is 0 (the method is RRD's "WU"; shrinking and this bound are
    ours).
    """
    if not verdicts:
        return []
    rows = np.array([[np.nan if one is None else one for one in row] for row in verdicts], dtype=np.float64)
    known = np.isfinite(rows)
    counts = np.maximum(known.sum(axis=1, keepdims=True), 1)
    means = np.where(known, rows, 0.0).sum(axis=1, keepdims=True) / counts
    centred = np.where(known, rows - means, 0.0)
    covariance = centred @ centred.T / max(1, rows.shape[1])
    scale = float(np.trace(covariance)) / len(rows)
    if scale <= 0:
        return [1.0 / len(rows)] * len(rows)
    drawn = (1 - shrink) * covariance + shrink * scale * np.eye(len(rows))
    values, vectors = np.linalg.eigh(drawn)
    inverse = 1.0 / np.sqrt(np.maximum(values, 1e-9 * scale))
    weights = np.maximum(vectors @ (inverse * (vectors.T @ np.ones(len(rows)))), 0.0)
    total = float(weights.sum())
    return [float(one) for one in weights / total] if total > 0 else [1.0 / len(rows)] * len(rows)
