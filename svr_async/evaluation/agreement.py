"""Agreement of raters beyond chance: Cohen's kappa, with a bootstrap interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svr_async.core.statistics import Interval, drawn_counts

Floats = NDArray[np.float64]
RESAMPLES = 2_000
MOST_UNDEFINED = 0.5  # share of resamples without a value, above which no interval is given


class Estimate(NamedTuple):
    """A number with its 95 % interval; None if the data do not determine it."""

    value: float | None
    ci95: Interval | None


NOTHING = Estimate(None, None)


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Return Cohen's kappa of two raters of the same items, with the percentile bootstrap interval over items.

    κ = (p_o − p_e)/(1 − p_e): p_o is the share of items with the same label, p_e = Σ_c p_c q_c the share expected by
    chance. None if both raters use one label throughout. Source: Cohen 1960, Educ. Psychol. Meas. 20:37-46.
    """
    if len(first) != len(second):
        raise ValueError(f"both raters must label the same items (got {len(first)} and {len(second)})")
    if not first:
        return NOTHING
    places = {label: place for place, label in enumerate(sorted({*first, *second}, key=str))}
    size = len(places)
    rows = np.zeros((len(first), size * size))
    rows[np.arange(len(first)), [places[a] * size + places[b] for a, b in zip(first, second, strict=True)]] = 1

    def kappas(weights: Floats, items: Floats) -> Floats:
        tables = (weights @ items).reshape(-1, size, size) / len(first)
        chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1)
        return _ratio(np.trace(tables, axis1=1, axis2=2) - chance, 1 - chance)

    return _estimate(rows, kappas, resamples, seed)


def _estimate(rows: Floats, statistic: Callable[[Floats, Floats], Floats], resamples: int, seed: int) -> Estimate:
    """Return a statistic of weighted rows, and the middle 95 % of its values over rows drawn with replacement.

    No interval is given if all draws are equal: they do not show how certain the value is.
    """
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    value = float(statistic(counts[None].astype(np.float64), distinct)[0])
    if math.isnan(value):
        return NOTHING
    drawn = np.concatenate(list(drawn_counts(counts, resamples, seed))).astype(np.float64)
    values = statistic(drawn, distinct)
    if len(rows) < 2 or np.isnan(values).mean() > MOST_UNDEFINED or np.nanmin(values) == np.nanmax(values):
        return Estimate(value, None)
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Estimate(value, Interval(float(low), float(high)))


def _ratio(top: Floats, bottom: Floats) -> Floats:
    undefined = np.abs(bottom) < 1e-12
    return np.where(undefined, np.nan, top / np.where(undefined, 1.0, bottom))
