"""Scores have the intervals of their effective size, and differ from printed ones beyond chance only."""

from __future__ import annotations

import pytest

from svr_async.core.statistics import newcombe_interval
from svr_async.reproduction.scores import Score, effective_size, mean_of


def test_a_mean_over_strata_has_kishs_size() -> None:
    """Equal strata of equal weight add up; a heavy small stratum makes the mean less sure; a missing one ends it."""
    assert effective_size([(1.0, 50), (1.0, 50)]) == pytest.approx(100)
    assert effective_size([(9.0, 10), (1.0, 90)]) == pytest.approx(100 / (81 / 10 + 1 / 90))
    mean = mean_of([Score(value=0.5, effective=10), Score(value=1.0, effective=40)])
    assert mean is not None
    assert (mean.value, mean.effective) == pytest.approx((0.75, 32))
    assert mean_of([Score(value=0.5, effective=10), None]) is None


def test_newcombes_interval_is_that_of_his_paper() -> None:
    """Newcombe 1998, table II, method 10, contrast a: 56/70 less 48/80 gives 0.0524 to 0.3339."""
    found = newcombe_interval(56 / 70, 70, 48 / 80, 80)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)
