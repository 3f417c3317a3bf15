"""Intervals, paired tests and corrections against known values, invariants and slow references."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.statistics import (
    bootstrap_interval,
    holm,
    mcnemar_exact,
    paired_difference_interval,
    sign_flip_exact,
    wilson_interval,
)

counts = st.integers(0, 60)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.27753279986288926),
        (10, 10, 0.7224672001371109, 1.0),
        (81, 100, 0.7222115462093562, 0.8748524849023126),
        (933, 1147, 0.789848460128072, 0.8349117920241083),
        (1, 2, 0.09453120573423074, 0.9054687942657693),
    ],
)
def test_wilson_matches_published_values(successes: int, n: int, low: float, high: float) -> None:
    """Wilson's interval equals the values that independent software prints."""
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=1e-12)


def slow_bootstrap(values: list[float], clusters: list[int], resamples: int, seed: int) -> tuple[float, float]:
    """Draw clusters one by one in plain Python and return the percentile interval of the mean."""
    rng = random.Random(seed)
    groups: dict[int, list[float]] = {}
    for value, label in zip(values, clusters, strict=True):
        groups.setdefault(label, []).append(value)
    units = list(groups.values())
    means = []
    for _ in range(resamples):
        drawn = [value for _ in units for value in rng.choice(units)]
        means.append(sum(drawn) / len(drawn))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize("clustered", [False, True])
def test_bootstrap_agrees_with_drawing_items_one_by_one(clustered: bool) -> None:
    """The multinomial form has the distribution of drawing units with replacement, clustered or not."""
    rng = random.Random(3)
    clusters = [i // 3 if clustered else i for i in range(60)]
    shared = [rng.gauss(0, 1) for _ in range(60)]
    values = [round(shared[label] + rng.gauss(0, 0.3), 1) for label in clusters]

    slow = slow_bootstrap(values, clusters, 4_000, 1)
    fast = bootstrap_interval(values, clusters=clusters if clustered else None, resamples=20_000)

    assert fast == pytest.approx(tuple(slow), abs=0.05)


def test_bootstrap_repeats_with_its_seed_whatever_the_order_of_items() -> None:
    """The same seed and the same items in any order give the same interval; another seed another one."""
    values = [0.0, 1.0, 1.0, 0.5, 0.25] * 9

    assert bootstrap_interval(values, seed=4) == bootstrap_interval(values[::-1], seed=4)
    assert bootstrap_interval(values, seed=4, resamples=50) != bootstrap_interval(values, seed=5, resamples=50)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None, max_examples=30)
def test_paired_difference_brackets_the_difference_and_changes_sign_with_the_order(
    pairs: list[tuple[bool, bool]],
) -> None:
    """The interval holds the observed difference, and swapping the two judges mirrors it."""
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    forward = paired_difference_interval(first, second, resamples=2_000)
    backward = paired_difference_interval(second, first, resamples=2_000)

    difference = (sum(second) - sum(first)) / len(pairs)
    assert forward.low - 1e-9 <= difference <= forward.high + 1e-9
    assert forward == pytest.approx((-backward.high, -backward.low), abs=2 / len(pairs))


def slow_mcnemar(b: int, c: int) -> float:
    """Sum the two tails of Binomial(b + c, ½) in exact fractions."""
    n, m = b + c, min(b, c)
    tail = sum(Fraction(math.comb(n, k), 2**n) for k in range(m + 1))
    return float(min(Fraction(1), 2 * tail))


@given(counts, counts)
@settings(deadline=None)
def test_mcnemar_equals_exact_fractions_and_is_symmetric(b: int, c: int) -> None:
    """The p-value is that of exact arithmetic, and does not mind which judge is named first."""
    assert mcnemar_exact(b, c) == pytest.approx(slow_mcnemar(b, c), rel=1e-12)
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b)


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        (0, 0, 1.0),
        (3, 10, 0.09228515625),
        (25, 28, 0.7838463022094988),
        (4000, 4200, 0.027972423571324654),
        (1_000_000, 990_000, 1.3594824638540268e-12),
        (0, 10_000, 0.0),
    ],
)
def test_mcnemar_matches_published_values_up_to_millions(b: int, c: int, p: float) -> None:
    """Values that independent software prints, for small and for very large counts; no overflow, no NaN."""
    assert mcnemar_exact(b, c) == pytest.approx(p, rel=1e-8)


def slow_holm(p_values: list[float]) -> tuple[float, ...]:
    """Adjust each p-value by its own definition: the largest of (number not smaller) · p over all smaller ones."""
    m = len(p_values)
    ranked = sorted(range(m), key=lambda i: p_values[i])
    return tuple(
        max(min(1.0, (m - j) * p_values[k]) for j, k in enumerate(ranked) if j <= ranked.index(i)) for i in range(m)
    )


@given(st.lists(st.floats(0, 1), max_size=12))
@settings(deadline=None)
def test_holm_equals_its_definition_and_never_makes_a_p_value_smaller(p_values: list[float]) -> None:
    """Adjusted values equal the step-down definition, stay in [p, 1] and keep the order of the raw ones."""
    adjusted = holm(p_values)

    assert adjusted == pytest.approx(slow_holm(p_values))
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    for i, p in enumerate(p_values):
        for j, q in enumerate(p_values):
            assert p >= q or adjusted[i] <= adjusted[j]


def all_flips(differences: list[int]) -> float:
    """Return the p-value by going through every choice of signs."""
    sums = [
        sum(sign * abs(d) for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    return sum(abs(one) >= abs(sum(differences)) for one in sums) / len(sums)


@settings(deadline=None, max_examples=60)
@given(differences=st.lists(st.integers(-4, 4), max_size=9))
def test_flipping_whole_clusters_equals_going_through_all_signs(differences: list[int]) -> None:
    """The exact test is the share of all choices of signs whose sum is as far from 0 or farther."""
    assert sign_flip_exact(differences) == pytest.approx(all_flips(differences), abs=1e-12)
    assert sign_flip_exact(differences) == sign_flip_exact([-d for d in differences])


def test_the_normal_limit_takes_over_smoothly() -> None:
    """Beyond the exact reach the p-value is that of the normal limit, which is close to the exact one before it."""
    rng = np.random.default_rng(3)
    exact = [int(d) for d in rng.integers(-3, 4, 5000)]
    assert sum(map(abs, exact)) < 10_000 < sum(map(abs, exact * 2))
    z = abs(sum(exact)) / math.sqrt(sum(d * d for d in exact))
    assert sign_flip_exact(exact) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.05)
    twice = exact + [abs(d) if n % 2 else -abs(d) for n, d in enumerate(exact)]
    z = abs(sum(twice)) / math.sqrt(sum(d * d for d in twice))
    assert sign_flip_exact(twice) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-12)
