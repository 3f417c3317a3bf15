"""Scores that are weighted means of right and wrong, with their intervals, and whether a printed one differs.

A benchmark's score is Σ weight · credit over its pairs, with weights that its rule fixes. The spread of such a sum is
that of its clusters (the pairs of a prompt are one): Σ over clusters of (Σ weight · (credit − mean of its cell))².
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from svr_async.core.statistics import Interval, newcombe_interval, wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One pair or item of a score: the cell whose mean it belongs to, what it is drawn with, weight, credit."""

    cell: str
    cluster: str
    weight: float
    credit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score as a fraction of 1, with the number of independent pairs that would be as sure (`effective`)."""

    value: float
    effective: float

    @property
    def interval(self) -> Interval:
        """Wilson's interval at that number of pairs."""
        return wilson_interval(self.value * self.effective, self.effective)

    def differs_from(self, printed: float) -> bool:
        """Whether a printed score, taken for one of as many pairs, is told apart from this one at 95 %.

        The printed one is treated as measured apart (Newcombe's interval of a difference), which on the same pairs is
        cautious: what is marked differs by more than chance, what is not may.
        """
        low, high = newcombe_interval(self.value, self.effective, printed, self.effective)
        return low > 0 or high < 0


def scored(parts: Sequence[Part]) -> Score | None:
    """Return the score of parts, whose weights add up to 1; None of nothing."""
    if not parts:
        return None
    value = min(1.0, max(0.0, fsum(part.weight * part.credit for part in parts)))
    variance = _variance(parts)
    most = _kish({f"{place}": part.weight for place, part in enumerate(parts)})
    effective = value * (1 - value) / variance if variance > 0 else 0.0
    return Score(value=value, effective=min(most, effective or _kish(_clusters(parts))))


def evenly(parts: Iterable[tuple[str, str, float]]) -> list[Part]:
    """Return parts of equal weight from (cell, cluster, credit)."""
    held = list(parts)
    return [Part(cell=cell, cluster=cluster, weight=1 / len(held), credit=credit) for cell, cluster, credit in held]


def mean_of(scores: Sequence[Sequence[Part]]) -> list[Part]:
    """Return the parts of the plain mean of several scores."""
    return [replace(part, weight=part.weight / len(scores)) for parts in scores for part in parts]


def _variance(parts: Sequence[Part]) -> float:
    weight: dict[str, float] = defaultdict(float)
    credit: dict[str, float] = defaultdict(float)
    for part in parts:
        weight[part.cell] += part.weight
        credit[part.cell] += part.weight * part.credit
    off: dict[str, float] = defaultdict(float)
    for part in parts:
        off[part.cluster] += part.weight * (part.credit - credit[part.cell] / weight[part.cell])
    return fsum(value * value for value in off.values())


def _clusters(parts: Sequence[Part]) -> Mapping[str, float]:
    held: dict[str, float] = defaultdict(float)
    for part in parts:
        held[part.cluster] += part.weight
    return held


def _kish(weights: Mapping[str, float]) -> float:
    """Return how many of equal weight would be as many (Kish): of clusters what is left where all are right, or none.

    Of pairs it is the most that is believed: strata with few pairs seem to vary less than they do.
    """
    return fsum(weights.values()) ** 2 / fsum(value * value for value in weights.values())
