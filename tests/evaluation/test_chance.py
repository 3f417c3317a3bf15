"""Whether a run is better than a coin flip is said in a sentence that is true of it."""

from __future__ import annotations

import pytest

from svr_async.evaluation.wording import against_chance


@pytest.mark.parametrize(
    ("accuracy", "interval", "bounds", "scored", "words"),
    [
        (0.75, (0.7, 0.8), [0.75, 0.75], 0.75, "better than a coin flip"),
        (0.52, (0.4, 0.6), [0.52, 0.52], 0.52, "not told apart from a coin flip"),
        (0.48, (0.4, 0.6), [0.48, 0.49], 0.48, "Below 50 %, though the interval contains it"),
        (0.30, (0.2, 0.4), [0.30, 0.31], 0.30, "Below chance: the whole interval lies below 50 %"),
        (0.30, (0.2, 0.4), [0.30, 0.80], 0.60, "of the pairs with a verdict 60.0"),
        (0.48, (0.4, 0.6), [0.48, 0.55], 0.52, "Below 50 % with ties and missing verdicts counted as wrong"),
        (0.30, (0.2, 0.4), [0.30, 0.60], 0.43, "Below chance"),
    ],
)
def test_a_run_below_chance_says_so(
    accuracy: float, interval: tuple[float, float], bounds: list[float], scored: float, words: str
) -> None:
    """Only what is at or above one half is "not told apart"; ties and missing verdicts are named where they are why."""
    metrics = {"accuracy": accuracy, "accuracy_bounds": bounds, "accuracy_scored": scored}

    assert words in against_chance(metrics, interval)


def test_nothing_is_said_of_a_run_without_an_interval() -> None:
    """A run without pairs is neither above nor below."""
    assert against_chance({}, None) == ""
