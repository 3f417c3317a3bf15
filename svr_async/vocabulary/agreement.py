"""Krippendorff's α with a bootstrap interval: how far several raters agree beyond chance, ratings missing or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svr_async.vocabulary.statistics import Interval

RESAMPLES = 2_000

Distance = Callable[[float, float], float]


def nominal(one: float, other: float) -> float:
    """Return 1 where two ratings differ: for categories."""
    return float(one != other)


def squared(one: float, other: float) -> float:
    """Return the squared difference of two ratings: for numbers."""
    return (one - other) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """α over `units` with two ratings or more, and its 95 % interval; None where all ratings are one value.

    1 is full agreement, 0 what chance gives, below 0 systematic disagreement.
    """

    units: int
    alpha: float | None
    ci95: Interval | None


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | None]],
    distance: Distance = nominal,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Agreement:
    """Return Krippendorff's α of ratings: a row for each unit, in it a rating for each rater or None.

    α = 1 − D_o / D_e: D_o is the mean distance within units, each unit's ordered couples weighted by 1/(ratings − 1);
    D_e that of couples drawn from all ratings. Units with fewer than two ratings are left out. The interval is a
    percentile bootstrap over units; resamples without any variation of ratings are left out.
    Source: Krippendorff 2004, Content Analysis, ch. 11.
    """
    rows = [held for row in ratings if len(held := [one for one in row if one is not None]) > 1]
    values = sorted({value for row in rows for value in row})
    if len(values) < 2:
        return Agreement(units=len(rows), alpha=None, ci95=None)
    place = {value: index for index, value in enumerate(values)}
    counts = np.zeros((len(rows), len(values)))
    for index, row in enumerate(rows):
        for value in row:
            counts[index, place[value]] += 1
    apart = np.array([[distance(one, other) for other in values] for one in values])
    within = ((counts @ apart) * counts).sum(axis=1) / (counts.sum(axis=1) - 1)
    alpha = float(_alphas(np.ones((1, len(rows))), counts, within, apart)[0])
    drawn = np.random.default_rng(seed).multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=resamples)
    low, high = np.nanquantile(_alphas(drawn.astype(np.float64), counts, within, apart), [0.025, 0.975])
    return Agreement(units=len(rows), alpha=alpha, ci95=Interval(float(low), float(high)))


def _alphas(
    weights: NDArray[np.float64],
    counts: NDArray[np.float64],
    within: NDArray[np.float64],
    apart: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return α for each row of weights of the units; NaN where only one value was drawn."""
    totals = weights @ counts
    n = totals.sum(axis=1)
    expected = ((totals @ apart) * totals).sum(axis=1) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - (weights @ within) / expected, np.nan)
