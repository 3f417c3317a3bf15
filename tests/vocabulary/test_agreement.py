"""Krippendorff's α against published and hand-worked values, and its interval."""

from __future__ import annotations

import pytest

from svr_async.vocabulary.agreement import krippendorff_alpha, nominal, squared

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability": four observers, twelve units, some ratings missing.
PUBLISHED: list[list[float | None]] = [
    [1, 1, None, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4],
    [4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [None, 5, 5, 5], [None, None, 1, 1], [None, None, 3, None],
]  # fmt: skip


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
