"""Agreement beyond chance against worked examples."""

from __future__ import annotations

import pytest

from svr_async.evaluation.human_labels import cohen_kappa


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


def test_what_the_labels_cannot_tell_is_not_said() -> None:
    """One label throughout, single labels, no labels: neither a number nor an interval."""
    assert cohen_kappa(["a"] * 4, ["a"] * 4) == (None, None)
    assert cohen_kappa([], []) == (None, None)
    assert cohen_kappa([1], [2]).ci95 is None
    assert cohen_kappa(["a"] * 4, ["a", "b"] * 2) == (0.0, None), "κ of one label throughout is 0 in every draw"
    with pytest.raises(ValueError, match="zip"):
        cohen_kappa(["a"], [])


def test_the_same_seed_gives_the_same_interval() -> None:
    """Whatever the order of the items."""
    first, second = table({"yy": 20, "yn": 5, "ny": 10, "nn": 15})
    one = cohen_kappa(first, second, resamples=200)
    assert cohen_kappa(first[::-1], second[::-1], resamples=200) == one
    assert cohen_kappa(first, second, resamples=200, seed=1).ci95 != one.ci95
