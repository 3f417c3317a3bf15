"""Formats numbers: percentages, intervals, counts, money, durations; unknown is a dash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "–"
_NBSP = "\u00a0"
MINUS = "−"
ORDER_WORDS = {
    "ab": "as in the data set",
    "ba": "swapped",
    "both": "both orders, averaged",
    "hash": "by a hash of the pair's id",
}
OUTCOME_WORDS = {
    "scored": "the judge preferred one response",
    "tie": "the evidence was exactly balanced, which counts as wrong",
    "parse_error": "no verdict could be read in the reply",
    "refusal": "the judge declined to answer",
    "context_too_long": "the pair does not fit the judge's context",
    "truncated": "the reply ended before its verdict",
    "api_error": "the endpoint gave no reply",
    "invalid_input": "the row could not be judged as it stands",
}


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction of 1 as `81.2 %` (with a no-break space)."""
    return UNKNOWN if value is None else f"{100 * value:.{digits}f}{_NBSP}%"


def points(value: float | None, digits: int = 1) -> str:
    """Return a difference of two fractions as signed percentage points: `+3.1`, `−0.4`, `0.0`."""
    return UNKNOWN if value is None else signed(100 * value, digits)


def signed(value: float | None, digits: int = 2) -> str:
    """Return a number with its sign, a true minus sign, and no sign for what rounds to zero."""
    if value is None:
        return UNKNOWN
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return (MINUS if value < 0 else "+") + text


def interval(ends: tuple[float, float] | list[float] | None) -> str:
    """Return an interval of fractions as `78.9–83.4 %`."""
    if ends is None:
        return UNKNOWN
    return f"{100 * ends[0]:.1f}–{percent(ends[1])}"


def count(value: float | None) -> str:
    """Return a count with thousands separated by commas."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def plural(value: int, one: str) -> str:
    """Return `1 item`, `2 items`."""
    return f"{count(value)} {one if value == 1 else one + 's'}"


def left_out(counts: object) -> str:
    """Return skipped and odd rows in words, as `left out: 3 ties, 2 rows`; `counts` is `left_out` of metrics.json."""
    found = {name: n for name, n in counts.items() if isinstance(n, int)} if isinstance(counts, dict) else {}
    gone = [("ties", "tie"), ("skipped", "other row")]
    odd = {"repeated": "repeated", "contradicting": "with opposite labels"}
    parts = [plural(found[name], one) for name, one in gone if found.get(name)]
    text = f"left out: {', '.join(parts)}" if parts else ""
    kept = [f"{plural(found[name], 'row')} {words}" for name, words in odd.items() if found.get(name)]
    return "; ".join(filter(None, (text, f"kept: {', '.join(kept)}" if kept else "")))


def p_value(value: float) -> str:
    """Return a p-value with two meaningful digits: `0.034`, `0.50`, `< 0.0001`."""
    if value < 0.0001:
        return "< 0.0001"
    if value < 0.1:
        return f"{value:.2g}" if value >= 0.001 else f"{value:.4f}"
    return f"{value:.2f}"


def dollars(value: float | None) -> str:
    """Return money: `$0.0042` below ten cents, `$12.40` above; an unknown price says so."""
    if value is None:
        return "unknown"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def duration(seconds: float | None) -> str:
    """Return a duration with its two largest units: `3 h 12 min`, `4 min 05 s`, `8.3 s`, `240 ms`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{1000 * seconds:.0f}{_NBSP}ms"
    if seconds < 60:
        return f"{seconds:.1f}{_NBSP}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{_NBSP}min {whole % 60:02d}{_NBSP}s"
    return f"{whole // 3600}{_NBSP}h {whole % 3600 // 60:02d}{_NBSP}min"


EVEN = 0.5


def against_chance(metrics: Mapping[str, Any], interval: Sequence[float] | None) -> str:
    """Return in words whether a run is better than guessing; empty without an interval.

    Ties and missing verdicts count as wrong; the text says so if only they put the accuracy below one half.
    """
    if interval is None:
        return ""
    low, high = interval
    if low > EVEN:
        return "Better than guessing."
    accuracy, scored, bounds = (metrics.get(f"accuracy{name}") for name in ("", "_scored", "_bounds"))
    below = high < EVEN or (accuracy is not None and accuracy < EVEN)
    if below and bounds and bounds[1] > EVEN and (scored is None or scored >= EVEN):
        of_those = "" if scored is None else f"; of the pairs with a verdict {percent(scored)} are right"
        return f"Below 50 % with ties and missing verdicts counted as wrong{of_those}."
    if high < EVEN:
        return "Worse than guessing: check which way round the labels are."
    return "No better than guessing so far."
