"""The statistics behind every reported number: intervals, paired tests, corrections; stdlib and NumPy only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 10_000  # percentile bounds then move by about 0.1 standard errors between seeds
_EXACT_REACH = 10_000  # convolutions of this length take a second at most
_BLOCK_CELLS = 4_000_000  # largest table of multinomial counts held at once: 32 MB


class Interval(NamedTuple):
    """A confidence interval, `low` ≤ `high`, in the unit of the estimate."""

    low: float
    high: float


def wilson_interval(successes: float, n: float, *, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a proportion, as fractions of 1.

    With p = successes/n and z the normal quantile of (1 + level)/2:
    (p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n). Never leaves [0, 1]; nothing observed (n = 0) gives (0, 1).
    Half successes (ties at half credit) are allowed, and an n that is an effective number of items.
    Source: Wilson 1927, JASA 22:209-212.
    """
    _check_level(level)
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie in 0..n (got {successes} of {n})")
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + level) / 2)
    p, z2 = successes / n, z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z2 / (4 * n))
    low, high = (p + z2 / 2 - half) / (1 + z2), (p + z2 / 2 + half) / (1 + z2)
    return Interval(0.0 if successes == 0 else max(0.0, low), 1.0 if successes == n else min(1.0, high))


def newcombe_interval(p: float, n: float, q: float, m: float, *, level: float = 0.95) -> Interval:
    """Return the interval of p − q, two proportions of different items, n and m of them, as fractions of 1.

    With (l, u) and (k, v) their Wilson intervals: p − q − √((p−l)² + (v−q)²) to p − q + √((u−p)² + (q−k)²).
    Source: Newcombe 1998, Statistics in Medicine 17:873-890, method 10.
    """
    of_p, of_q = wilson_interval(p * n, n, level=level), wilson_interval(q * m, m, level=level)
    down, up = math.hypot(p - of_p.low, of_q.high - q), math.hypot(of_p.high - p, q - of_q.low)
    return Interval(p - q - down, p - q + up)


def bootstrap_interval(
    values: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Return the percentile bootstrap interval of a mean (Efron 1979; Efron & Tibshirani 1993, ch. 13).

    `values` has one number per item. With `clusters` (one label per item) whole clusters are drawn, for items that
    share a prompt (Field & Welsh 2007), and each resample is Σ sums / Σ sizes. Drawing n of n with replacement equals
    a multinomial draw over the distinct values, so the cost grows with those, not with n: right/wrong data of any
    size takes milliseconds. The same seed gives the same interval.
    """
    _check_level(level)
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0 or not np.isfinite(data).all():
        raise ValueError(f"the bootstrap needs a non-empty list of finite numbers (got shape {data.shape})")
    sums, sizes, counts = _units(data, clusters)
    means = _resampled_means(sums, sizes, counts, resamples=resamples, seed=seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def share_interval(shares: Sequence[float], clusters: Sequence[Hashable]) -> Interval:
    """Return the interval of the mean of shares (right or wrong, or part of it) of items, each within 0 to 1.

    Wilson's, which is wide for few items. If items share clusters (prompts), the wider of Wilson's and the bootstrap
    over clusters: items of one prompt are not independent.
    """
    wilson = wilson_interval(sum(shares), len(shares))
    if len(set(clusters)) == len(shares):
        return wilson
    drawn = bootstrap_interval(shares, clusters=clusters)
    return Interval(min(wilson.low, drawn.low), max(wilson.high, drawn.high))


def paired_difference_interval(
    first: ArrayLike,
    second: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Return the percentile bootstrap interval of mean(second − first), items drawn in pairs.

    Both lists score the same items in the same order. See `bootstrap_interval` for the rest.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"paired scores must have the same length (got {a.shape} and {b.shape})")
    return bootstrap_interval(b - a, clusters=clusters, resamples=resamples, seed=seed, level=level)


def _units(
    data: NDArray[np.float64], clusters: Sequence[Hashable] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct drawable units: their sums, their sizes, and how often each occurs."""
    if clusters is None:
        distinct, counts = np.unique(data, return_counts=True)
        return distinct, np.ones_like(distinct), counts
    if len(clusters) != data.size:
        raise ValueError(f"one cluster label per value is needed (got {len(clusters)} for {data.size})")
    index: dict[Hashable, int] = {}
    rows = np.array([index.setdefault(label, len(index)) for label in clusters])
    pairs = np.stack([np.bincount(rows, weights=data), np.bincount(rows).astype(np.float64)], axis=1)
    units, counts = np.unique(pairs, axis=0, return_counts=True)
    return units[:, 0], units[:, 1], counts


def _resampled_means(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], counts: NDArray[np.int64], *, resamples: int, seed: int
) -> NDArray[np.float64]:
    return np.concatenate([(drawn @ sums) / (drawn @ sizes) for drawn in drawn_counts(counts, resamples, seed)])


def drawn_counts(counts: NDArray[np.int64], resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield blocks (resample, unit): how often each unit is drawn, n of n with replacement; `counts` is (unit,)."""
    if resamples < 1:
        raise ValueError(f"resamples must be >= 1 (got {resamples})")
    rng = np.random.default_rng(seed)
    n = int(counts.sum())
    block = max(1, _BLOCK_CELLS // counts.size)
    for start in range(0, resamples, block):
        yield rng.multinomial(n, counts / n, size=min(block, resamples - start))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """A 2×2 table of the same items judged twice: both, one or neither right."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        """The number of items."""
        return self.both + self.only_first + self.only_second + self.neither


def paired_counts(first: Sequence[bool], second: Sequence[bool]) -> PairedCounts:
    """Count, over items in the same order, where both, one or neither of two judges was right."""
    if len(first) != len(second):
        raise ValueError(f"paired verdicts must have the same length (got {len(first)} and {len(second)})")
    cells = [0, 0, 0, 0]
    for a, b in zip(first, second, strict=True):
        cells[2 * bool(a) + bool(b)] += 1
    return PairedCounts(neither=cells[0], only_second=cells[1], only_first=cells[2], both=cells[3])


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value of McNemar's test from the two discordant counts.

    Under the null hypothesis the smaller count m of n = only_first + only_second is Binomial(n, ½):
    p = min(1, 2·Σ_{k≤m} C(n, k)/2ⁿ). No discordant item gives 1. The largest term is taken in log space (lgamma),
    the others follow by the ratio C(n, k−1)/C(n, k) = k/(n−k+1), so counts in the millions cost milliseconds;
    below 1e-308 the result is 0. Source: McNemar 1947, Psychometrika 12:153-157; exact form: Edwards 1948.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"counts must be >= 0 (got {only_first} and {only_second})")
    n, m = only_first + only_second, min(only_first, only_second)
    if only_first == only_second:
        return 1.0
    log_term = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1) - n * math.log(2)
    return min(1.0, 2 * math.exp(log_term) * _tail_ratio(n, m))


def _tail_ratio(n: int, m: int) -> float:
    """Return Σ_{k≤m} C(n, k) / C(n, m), summed downwards until terms vanish."""
    total = term = 1.0
    for k in range(m, 0, -1):
        term *= k / (n - k + 1)
        total += term
        if term < total * 1e-18:
            break
    return total


def sign_flip_exact(differences: Sequence[int]) -> float:
    """Return the exact two-sided p-value of the sign-flip test of whole numbers, one for each cluster of items.

    A cluster's number is (items only the second has right) − (only the first). Under the null hypothesis each has
    either sign with ½, so S = Σ ±|d| and p = P(|S| ≥ |Σ d|). Clusters of one item give McNemar's exact test. Where
    sizes differ and Σ|d| is above 10,000 the normal limit of variance Σ d² is taken.
    Source: Fisher 1935, The Design of Experiments, §21.
    """
    sizes = Counter(abs(d) for d in differences if d)
    observed, reach = abs(sum(differences)), sum(size * n for size, n in sizes.items())
    if len(sizes) <= 1:
        rises = sum(d > 0 for d in differences)
        return mcnemar_exact(rises, sum(sizes.values()) - rises)
    if reach > _EXACT_REACH:
        return math.erfc(observed / math.sqrt(2 * sum(size * size * n for size, n in sizes.items())))
    chances = np.ones(1)  # of S + (what was added up so far) = 0, 1, 2, …
    for size, n in sizes.items():
        spread = np.zeros(2 * size * n + 1)
        spread[:: 2 * size] = _binomial_half(n)
        chances = np.convolve(chances, spread)
    return min(1.0, 2 * float(chances[: (reach - observed) + 1].sum()))


def _binomial_half(n: int) -> NDArray[np.float64]:
    """Return the chances of 0..n heads in n throws."""
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2) for k in range(n + 1)]
    return np.exp(logs)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's step-down adjusted p-values, in the order given.

    For the sorted p₍₁₎ ≤ … ≤ p₍ₘ₎: adjusted₍ᵢ₎ = max_{j≤i} min(1, (m−j+1)·p₍ⱼ₎). Rejecting where the result is ≤ α
    keeps the chance of any false rejection in the family at α, whatever the dependence. Source: Holm 1979,
    Scandinavian Journal of Statistics 6:65-70.
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"p-values must lie in 0..1 (got {list(p_values)})")
    adjusted, largest, m = [0.0] * len(p_values), 0.0, len(p_values)
    for rank, index in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (m - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1 (got {level})")
