"""Numbers read as a person writes them, and what is unknown is never 0 or NaN."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svr_async.evaluation import wording


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        (wording.percent, 0.8123, "81.2\u00a0%"),
        (wording.percent, None, "–"),
        (wording.points, -0.0041, "−0.4"),
        (wording.points, 0.031, "+3.1"),
        (wording.points, -0.0001, "0.0"),
        (wording.signed, None, "–"),
        (wording.interval, [0.7891, 0.834], "78.9–83.4\u00a0%"),
        (wording.interval, None, "–"),
        (wording.count, 1234567, "1,234,567"),
        (wording.count, None, "–"),
        (wording.p_value, 0.034, "0.034"),
        (wording.p_value, 0.5, "0.50"),
        (wording.p_value, 0.00042, "0.0004"),
        (wording.p_value, 1e-9, "< 0.0001"),
        (wording.dollars, None, "unknown"),
        (wording.dollars, 0, "$0.00"),
        (wording.dollars, 0.0042, "$0.0042"),
        (wording.dollars, 1234.5, "$1,234.50"),
        (wording.duration, None, "–"),
        (wording.duration, 0.24, "240\u00a0ms"),
        (wording.duration, 8.31, "8.3\u00a0s"),
        (wording.duration, 245, "4\u00a0min 05\u00a0s"),
        (wording.duration, 11520, "3\u00a0h 12\u00a0min"),
    ],
)
def test_numbers_as_words(function: Callable[..., str], value: float | list[float] | None, words: str) -> None:
    """Each kind of number has one form."""
    assert function(value) == words
