"""Scores as means over strata, with 95 % intervals, and whether a printed score differs by more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from svr_async.core.statistics import Interval, newcombe_interval, wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score as a fraction of 1, and how many pairs of a plain share would be as sure (`effective`)."""

    value: float
    effective: float

    @property
    def interval(self) -> Interval:
        """Wilson's interval at that number of pairs."""
        return wilson_interval(self.value * self.effective, self.effective)

    def differs_from(self, printed: float) -> bool:
        """Whether a printed score differs at 95 %, taken as measured on as many other pairs (Newcombe's interval).

        On the same pairs this is cautious: a mark is more than chance, no mark says nothing.
        """
        low, high = newcombe_interval(self.value, self.effective, printed, self.effective)
        return low > 0 or high < 0


def share(marks: Sequence[bool]) -> Score | None:
    """Return the share of True; None without marks."""
    return Score(value=sum(marks) / len(marks), effective=len(marks)) if marks else None


def mean_of(scores: Sequence[Score | None]) -> Score | None:
    """Return the plain mean of scores of different pairs; None if one is missing."""
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return None
    size = effective_size([(1.0, score.effective) for score in known])
    return Score(value=fsum(score.value for score in known) / len(known), effective=size)


def effective_size(strata: Sequence[tuple[float, float]]) -> float:
    """Return Kish's effective size of a mean over strata of (weight, size): (Σ weight)² / Σ (weight² / size)."""
    return fsum(weight for weight, _ in strata) ** 2 / fsum(weight**2 / size for weight, size in strata)
