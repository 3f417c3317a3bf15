"""Agreement of raters beyond chance: Cohen's κ and Krippendorff's α with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svr_async.core.statistics import Interval, drawn_counts

Floats = NDArray[np.float64]
RESAMPLES = 2_000
MOST_UNDEFINED = 0.5  # share of resamples without a value, above which there is no interval

Distance = Callable[[float, float], float]


def nominal(one: float, other: float) -> float:
    """Return 1 where two ratings differ: for categories."""
    return float(one != other)


def squared(one: float, other: float) -> float:
    """Return the squared difference of two ratings: for numbers."""
    return (one - other) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """α over `units` with two ratings or more, and its 95 % interval; None for one unit, and for ratings of one value.

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
    if len(values) < 2 or len(rows) < 2:
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
    return Agreement(
        units=len(rows), alpha=alpha, ci95=_between(_alphas(drawn.astype(np.float64), counts, within, apart))
    )


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


class Estimate(NamedTuple):
    """A number with its interval; None for what the data cannot tell."""

    value: float | None
    ci95: Interval | None


NOTHING = Estimate(None, None)


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Return Cohen's κ of two raters of the same items, with the percentile bootstrap interval over items.

    κ = (p_o − p_e)/(1 − p_e): p_o the share of items with one label, p_e = Σ_c p_c q_c what their own shares of labels
    give by chance. None where both use one label throughout. Source: Cohen 1960, Educ. Psychol. Meas. 20:37-46.
    """
    if len(first) != len(second):
        raise ValueError(f"both raters must label the same items (got {len(first)} and {len(second)})")
    names = _numbered([*first, *second])
    rows = np.zeros((len(first), len(names), len(names)))
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        rows[place, names[one], names[other]] = 1
    return _bootstrapped(rows, _kappa, resamples, seed)


def _numbered(labels: Sequence[Hashable]) -> dict[Hashable, int]:
    return {label: number for number, label in enumerate(sorted(set(labels), key=str))}


def _bootstrapped(rows: Floats, statistic: Callable[[Floats], Floats], resamples: int, seed: int) -> Estimate:
    """Return a statistic of the sum of matrices, one an item, and its interval over items drawn with replacement."""
    if not len(rows):
        return NOTHING
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    value = float(statistic(rows.sum(axis=0)[None])[0])
    if math.isnan(value):
        return NOTHING
    flat = distinct.reshape(len(distinct), -1)
    drawn = np.concatenate([block @ flat for block in drawn_counts(counts, resamples, seed)])
    values = statistic(drawn.reshape(-1, *rows.shape[1:]))
    if len(rows) < 2 or np.isnan(values).mean() > MOST_UNDEFINED:
        return Estimate(value, None)
    return Estimate(value, _between(values))


def _between(values: Floats) -> Interval | None:
    """Return the middle 95 % of what was drawn; None where all draws are the same: they do not tell how sure it is."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Interval(float(low), float(high)) if np.nanmin(values) < np.nanmax(values) else None


def _kappa(tables: Floats) -> Floats:
    """Return κ (table,) of tables (table, label, label); NaN where chance explains all."""
    n = tables.sum(axis=(1, 2))
    seen = np.trace(tables, axis1=1, axis2=2) / n
    chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
    return _ratio(seen - chance, 1 - chance)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    undefined = np.abs(bottom) < 1e-12
    return np.where(undefined, np.nan, top / np.where(undefined, 1.0, bottom))
