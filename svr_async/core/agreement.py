"""How far raters agree beyond chance, ratings missing or not, and a fallible rater's rate corrected by a few labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svr_async.core.statistics import Interval, drawn_counts, newcombe_interval, wilson_interval

Floats = NDArray[np.float64]
Share = tuple[float, float]  # of 1, and of how many
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


def rogan_gladen(labelled: Sequence[tuple[bool, bool]], judged: Sequence[bool], *, level: float = 0.95) -> Estimate:
    """Return the rate of what people say from the judge's rate and its errors, as fractions of 1.

    `labelled` has (people, judge) of items that both decided, a random sample; `judged` the judge's word on all items.
    With p its rate there, sensitivity s = P(judge | people) and specificity t = P(not judge | not people):
    θ = (p + t − 1)/(s + t − 1), held within [0, 1]. None where people said only one of the two, or the judge is no
    better than chance (s + t ≤ 1). Sources: Rogan & Gladen 1978, Am. J. Epidemiol. 107:71-76; the interval:
    Lang & Reiczigel 2014, Prev. Vet. Med. 113:13-22.
    """
    yes = [judge for people, judge in labelled if people]
    no = [judge for people, judge in labelled if not people]
    if not yes or not no or not judged:
        return NOTHING
    p, s, t = sum(judged) / len(judged), sum(yes) / len(yes), 1 - sum(no) / len(no)
    if s + t <= 1:
        return NOTHING
    rate = min(1.0, max(0.0, (p + t - 1) / (s + t - 1)))
    return Estimate(rate, _lang_reiczigel(rate, (p, len(judged)), (s, len(yes)), (t, len(no)), level))


def _lang_reiczigel(rate: float, judged: Share, right: Share, rejected: Share, level: float) -> Interval:
    """Return the interval of a corrected rate: the delta method's, with counts added to each share.

    z²/2 of each kind to the judge's (as Agresti and Coull), one of each to its sensitivity and its specificity, so that
    a few labels without an error do not count as no error at all, and the middle is moved by what this biases.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    (p, n), (s, n1), (t, n0) = _more(judged, z * z / 2), _more(right, 1), _more(rejected, 1)
    power = s + t - 1
    if power <= 0:
        return Interval(0.0, 1.0)
    missed, made, plain = s * (1 - s) / n1, t * (1 - t) / n0, (p + t - 1) / power
    half = z * math.sqrt(p * (1 - p) / n + plain**2 * missed + (1 - plain) ** 2 * made) / power
    middle = plain + 2 * z * z * (plain * missed - (1 - plain) * made)
    return Interval(max(0.0, min(rate, middle - half)), min(1.0, max(rate, middle + half)))


def _more(share: Share, count: float) -> Share:
    """Return a share with so many more of both kinds."""
    value, n = share
    return (value * n + count) / (n + 2 * count), n + 2 * count


def prediction_powered(
    labelled: Sequence[tuple[bool, bool]], others: Sequence[bool], *, level: float = 0.95
) -> Estimate:
    """Return the rate of what people say from a few labels and the judge's word on the other items.

    `labelled` has (people y, judge f) of n items drawn at random, `others` the judge's word f on N more:
    θ = λ mean(f of others) + mean(y − λ f), Var θ = λ² Var(f of others)/N + Var(y − λ f)/n.
    λ = Cov(y, f)/((1 + n/N) Var f), held within [0, 1], makes the interval narrowest: 0, the labels alone, for a judge
    that tells nothing. The rate is right whatever the judge's errors are. None below two labels.
    The interval is never narrower than `_at_least`: that few labels agree with the judge is no proof that all would.
    Sources: Angelopoulos et al. 2023, Science 382:669-674; λ: Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453, §6.
    """
    n, more = len(labelled), len(others)
    if n < 2:
        return NOTHING
    people, judge = np.array(labelled, dtype=np.float64).T
    rest = np.array(others, dtype=np.float64)
    spread = float(np.var(np.concatenate([judge, rest])))
    trust = 0.0
    if more > 1 and spread > 0:
        cov = float(np.cov(people, judge)[0, 1])
        trust = min(1.0, max(0.0, cov / ((1 + n / more) * spread)))
    errors = people - trust * judge
    value = float(errors.mean()) + (trust * float(rest.mean()) if more else 0.0)
    variance = float(errors.var(ddof=1)) / n + (trust**2 * float(rest.var(ddof=1)) / more if more > 1 else 0.0)
    found = _normal(min(1.0, max(0.0, value)), variance, level)
    down, up = _at_least(people, judge, rest, trust, level)
    return _widened(found, Interval(value - down, value + up))


def _at_least(people: Floats, judge: Floats, rest: Floats, trust: float, level: float) -> tuple[float, float]:
    """Return how far down and up θ may lie, from intervals that know small counts.

    mean(y − λ f) = (1 − λ) mean(y) + λ (P(y, not f) − P(f, not y)): Wilson's interval of the first, Newcombe's of the
    second, whose reaches are added, as they may err together. Those of the other items are independent: squares add.
    """
    n = len(people)
    missed, made = float(np.mean(people > judge)), float(np.mean(judge > people))
    labels = wilson_interval(float(people.sum()), n, level=level)
    errors = newcombe_interval(missed, n, made, n, level=level)
    alone = wilson_interval(float(rest.sum()), len(rest), level=level) if trust else Interval(0.0, 0.0)
    mean, gap, seen = float(people.mean()), missed - made, float(rest.mean()) if trust else 0.0
    down = (1 - trust) * (mean - labels.low) + trust * (gap - errors.low)
    up = (1 - trust) * (labels.high - mean) + trust * (errors.high - gap)
    return math.hypot(down, trust * (seen - alone.low)), math.hypot(up, trust * (alone.high - seen))


def _widened(found: Estimate, least: Interval) -> Estimate:
    """Return an estimate whose interval holds another one too, as far as that lies within 0 to 1."""
    held = found.ci95 or least
    return Estimate(found.value, Interval(max(0.0, min(held.low, least.low)), min(1.0, max(held.high, least.high))))


def _normal(rate: float, variance: float, level: float) -> Estimate:
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    return Estimate(rate, Interval(max(0.0, rate - half), min(1.0, rate + half)))
