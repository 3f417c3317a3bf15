"""Whether a run decides better than a coin flip, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.evaluation.wording import percent

EVEN = 0.5


def against_chance(metrics: Mapping[str, Any], interval: Sequence[float] | None) -> str:
    """Say where a run's interval lies beside one half, and whether ties and missing verdicts alone put it below.

    `metrics` are those of metrics.json; nothing is said of a run without an interval.
    """
    if interval is None:
        return ""
    low, high = interval
    if low > EVEN:
        return "The whole interval lies above 50 %: better than a coin flip."
    accuracy, scored, bounds = (metrics.get(f"accuracy{name}") for name in ("", "_scored", "_bounds"))
    below = high < EVEN or (accuracy is not None and accuracy < EVEN)
    if below and bounds and bounds[1] > EVEN and (scored is None or scored >= EVEN):
        return _put_below(scored)
    if high < EVEN:
        return (
            "Below chance: the whole interval lies below 50 %, worse than a coin flip. "
            "Look which way round the labels are, and what leads the judge astray."
        )
    if below:
        return "Below 50 %, though the interval contains it: fewer right than a coin flip expects, perhaps by chance."
    return "The interval contains 50 %: not told apart from a coin flip."


def _put_below(scored: float | None) -> str:
    """Say that what is no verdict for either side put a run below one half."""
    of_those = "" if scored is None else f"; of the pairs with a verdict {percent(scored)} are right"
    return f"Below 50 % with ties and missing verdicts counted as wrong{of_those}."
