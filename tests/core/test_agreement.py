"""Agreement beyond chance against worked examples, and corrected rates against worlds whose truth is known."""

from __future__ import annotations

import random

import pytest

from svr_async.core.agreement import (
    cohen_kappa,
    krippendorff_alpha,
    nominal,
    prediction_powered,
    rogan_gladen,
    squared,
)

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability": four observers, twelve units, some ratings missing.
PUBLISHED: list[list[float | None]] = [
    [1, 1, None, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4],
    [4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [None, 5, 5, 5], [None, None, 1, 1], [None, None, 3, None],
]  # fmt: skip


def table(counts: dict[str, int]) -> tuple[list[str], list[str]]:
    """Return the labels of two raters whose pairs are counted: `ab` is a of the first and b of the second."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def test_kappa_is_that_of_a_worked_table() -> None:
    """20 and 15 agreements of 50: p_o = 0.7, p_e = 0.5, κ = 0.4; the interval holds it."""
    found = cohen_kappa(*table({"yy": 20, "yn": 5, "ny": 10, "nn": 15}))
    assert found.value == pytest.approx(0.4)
    assert found.ci95 is not None
    assert 0.1 < found.ci95.low < 0.4 < found.ci95.high < 0.7
    assert cohen_kappa(*table({"yy": 3, "nn": 3})).value == 1.0
    assert cohen_kappa(*table({"yn": 3, "ny": 3})).value == -1.0


def test_alpha_is_that_of_the_published_example() -> None:
    """0.743 for categories and 0.849 for numbers; the unit with one rating is left out."""
    found = krippendorff_alpha(PUBLISHED, nominal)
    assert found.units == 11
    assert found.alpha == pytest.approx(0.743, abs=0.0005)
    assert krippendorff_alpha(PUBLISHED, squared).alpha == pytest.approx(0.849, abs=0.0005)
    assert found.ci95 is not None
    assert found.ci95.low < 0.743 < found.ci95.high <= 1.0


def test_agreement_chance_and_nothing() -> None:
    """Full agreement is 1, opposition is below 0, and one value alone says nothing."""
    assert krippendorff_alpha([[1, 1], [2, 2]] * 9).alpha == 1.0
    opposed = krippendorff_alpha([[1, 2]] * 9).alpha
    assert opposed is not None
    assert opposed < 0
    assert krippendorff_alpha([[1, 1], [1, 1]]).alpha is None
    assert krippendorff_alpha([[1, None]]).units == 0
    assert krippendorff_alpha([[1, 2]]).alpha is None, "one unit tells nothing"
    assert cohen_kappa([1], [2]).ci95 is None
    assert cohen_kappa(["a"] * 4, ["a", "b"] * 2) == (0.0, None), "κ of one label throughout is 0 in every draw"
    assert krippendorff_alpha([[1, 2]] * 9).ci95 is None


def test_alpha_of_two_raters_is_that_of_a_worked_example() -> None:
    """Ten units, two observers, two labels: α = 0.095 (Krippendorff 2011, part A)."""
    first, second = "0100000010", "1110010000"
    pairs = [(int(one), int(other)) for one, other in zip(first, second, strict=True)]
    assert krippendorff_alpha(pairs).alpha == pytest.approx(0.095, abs=5e-4)


def test_what_the_labels_cannot_tell_is_not_said() -> None:
    """One label throughout, single labels, no labels: neither a number nor an interval."""
    assert cohen_kappa(["a"] * 4, ["a"] * 4) == (None, None)
    assert cohen_kappa([], []) == (None, None)
    with pytest.raises(ValueError, match="same items"):
        cohen_kappa(["a"], [])


def test_the_same_seed_gives_the_same_interval() -> None:
    """Whatever the order of the items."""
    first, second = table({"yy": 20, "yn": 5, "ny": 10, "nn": 15})
    one = cohen_kappa(first, second, resamples=200)
    assert cohen_kappa(first[::-1], second[::-1], resamples=200) == one
    assert cohen_kappa(first, second, resamples=200, seed=1).ci95 != one.ci95


def test_rogan_gladen_is_that_of_its_formula() -> None:
    """A rate of 0.5, sensitivity 0.9, specificity 0.8: (0.5 + 0.8 − 1)/(0.9 + 0.8 − 1) = 3/7."""
    labelled = [(True, True)] * 9 + [(True, False)] + [(False, False)] * 8 + [(False, True)] * 2
    found = rogan_gladen(labelled, [True, False] * 50)
    assert found.value == pytest.approx(3 / 7)
    z = 1.959964
    p, n, s, t = (50 + z * z / 2) / (100 + z * z), 100 + z * z, 10 / 12, 9 / 12
    plain, power = (p + t - 1) / (s + t - 1), s + t - 1
    missed, made = s * (1 - s) / 12, t * (1 - t) / 12
    half = z * (p * (1 - p) / n + plain**2 * missed + (1 - plain) ** 2 * made) ** 0.5 / power
    middle = plain + 2 * z * z * (plain * missed - (1 - plain) * made)
    assert found.ci95 == pytest.approx((middle - half, middle + half))


def test_a_judge_no_better_than_chance_gives_no_rogan_gladen_rate() -> None:
    """Nor do labels of one kind only; a rate never leaves 0 to 1."""
    assert rogan_gladen([(True, False), (False, True)], [True]) == (None, None)
    assert rogan_gladen([(True, True)] * 5, [True]) == (None, None)
    assert rogan_gladen([(True, True), (False, False)], []) == (None, None)
    assert rogan_gladen([(True, True), (False, False), (False, True)], [False] * 9).value == 0.0


def test_prediction_powered_without_a_useful_judge_is_the_labels_alone() -> None:
    """A judge that always says yes gets no trust; nor does one where every item is labelled."""
    people = [True] * 6 + [False] * 4
    assert prediction_powered([(one, True) for one in people], [True] * 90).value == pytest.approx(0.6)
    assert prediction_powered([(one, one) for one in people], []).value == pytest.approx(0.6)
    assert prediction_powered([(True, True)], [True]) == (None, None)


@pytest.mark.parametrize("truth", [0.02, 0.5, 0.9])
def test_a_few_labels_that_agree_prove_little(truth: float) -> None:
    """Of 300 worlds nineteen in twenty hold the truth by five labels or ten, though most agree with the judge."""
    for n in (5, 10):
        held = missed = 0
        for seed in range(300):
            rng = random.Random(seed)
            people = [rng.random() < truth for _ in range(n + 200)]
            judge = [rng.random() < (0.95 if one else 0.05) for one in people]
            labelled = list(zip(people[:n], judge[:n], strict=True))
            powered, gladen = prediction_powered(labelled, judge[n:]).ci95, rogan_gladen(labelled, judge).ci95
            assert powered is not None
            assert powered.high > powered.low
            held += powered.low <= truth <= powered.high
            missed += gladen is not None and not gladen.low <= truth <= gladen.high
        assert held > 0.93 * 300
        assert missed < 0.07 * 300


@pytest.mark.parametrize("truth", [0.3, 0.7])
def test_both_corrections_find_the_rate_that_a_biased_judge_misses(truth: float) -> None:
    """Of 150 worlds 95 % intervals hold the truth in nearly all, and the judge helps: they are narrower than labels."""
    held = {"powered": 0, "gladen": 0}
    narrower = 0
    for seed in range(150):
        rng = random.Random(seed)
        people = [rng.random() < truth for _ in range(1000)]
        judge = [rng.random() < (0.95 if one else 0.25) for one in people]
        labelled = list(zip(people[:120], judge[:120], strict=True))
        powered, gladen = prediction_powered(labelled, judge[120:]), rogan_gladen(labelled, judge)
        alone = prediction_powered([(one, True) for one, _ in labelled], [])
        assert powered.ci95 is not None
        assert gladen.ci95 is not None
        assert alone.ci95 is not None
        held["powered"] += powered.ci95.low <= truth <= powered.ci95.high
        held["gladen"] += gladen.ci95.low <= truth <= gladen.ci95.high
        narrower += powered.ci95.high - powered.ci95.low < alone.ci95.high - alone.ci95.low
    assert min(held.values()) > 135
    assert narrower == 150
