"""Durations counted in buckets that grow by a fixed factor: constant memory, one addition a value, any quantile."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

FLOOR_S = 1e-5  # shorter durations count as this long
PER_DOUBLING = 8  # so a quantile is right within 4.4 %
BUCKETS = 240  # the last one begins at about 2.8 hours
_SHIFT = -log2(FLOOR_S) * PER_DOUBLING


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How many durations there were, three quantiles and the longest, in seconds; None while there is none."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


class Histogram:
    """Counts of durations on a logarithmic scale. Not thread-safe; reading it from another thread is harmless."""

    __slots__ = ("_counts", "_longest")

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._longest = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        place = int(log2(seconds) * PER_DOUBLING + _SHIFT) if seconds > FLOOR_S else 0
        self._counts[place if place < BUCKETS else -1] += 1
        if seconds > self._longest:  # noqa: PLR1730  (max() costs twice as much, on the path of every call)
            self._longest = seconds

    def quantile(self, share: float) -> float | None:
        """Return the duration that this share of them does not exceed, or None where there is none."""
        wanted = share * sum(self._counts)
        seen = 0
        for place, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_middle(place), self._longest)
        return None

    def spread(self) -> Spread:
        """Return a snapshot."""
        count = sum(self._counts)
        if not count:
            return Spread()
        p50, p90, p99 = (self.quantile(share) for share in (0.5, 0.9, 0.99))
        return Spread(count=count, p50=p50, p90=p90, p99=p99, max=self._longest)


def _middle(place: int) -> float:
    """Return the geometric middle of a bucket in seconds."""
    middle: float = FLOOR_S * 2 ** ((place + 0.5) / PER_DOUBLING)
    return middle
