"""Which of N responses are judged side by side, and the scores that explain the margins best.

    all       every two                                    N (N − 1) / 2 pairs
    circle    each with the next, the last with the first  N pairs
    anchor    each with one of them                        N − 1 pairs

Each connects all responses, so every one has a score unless a judgement fails. In a circle no response depends on one
judgement alone; with an anchor all scores depend on one response.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import UsageError

Schedule = Literal["all", "circle", "anchor"]
Pair = tuple[int, int]
Margins = dict[Pair, float]
"""(i, j) to F_ij, positive if i is better."""
SCHEDULES: tuple[str, ...] = get_args(Schedule)
SAME_SCORE_DIGITS = 9  # the last bits of a sum must not break a tie


def pairs_of(schedule: Schedule, n: int, *, anchor: int = 0) -> list[Pair]:
    """Return the pairs (i, j), i < j, that a schedule compares of n responses; `anchor` is the place that all meet."""
    if schedule == "circle":
        return sorted({_ordered(i, (i + 1) % n) for i in range(n) if n > 1})
    if schedule == "anchor":
        return [_ordered(anchor, i) for i in range(n) if i != anchor]
    return list(combinations(range(n), 2))


def _ordered(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)


def check_schedule(schedule: str, anchor: int | None) -> None:
    """Raise UsageError for an unknown schedule, or an anchor without the schedule `anchor`."""
    if schedule not in SCHEDULES:
        names = ", ".join(SCHEDULES)
        raise UsageError(f"schedule must be one of {names} (got {schedule!r})", hint="all is the default")
    if anchor is not None and schedule != "anchor":
        raise UsageError(f"anchor={anchor} with schedule={schedule!r}", hint="schedule='anchor' takes a place")


def potentials(n: int, margins: Mapping[Pair, float]) -> tuple[float | None, ...]:
    """Return scores of n responses: least squares of s_i − s_j ≈ F_ij, with Σ s = 0 over the scored ones.

    Only the largest connected group has scores, since nothing compares it with the others. A single response has 0.
    """
    group = _largest_group(n, margins)
    if not group:
        return (None,) * n
    row = {member: place for place, member in enumerate(group)}
    inside = {(row[i], row[j]): margin for (i, j), margin in margins.items() if i in row and j in row}
    laplacian, pull = _equations(len(group), inside)
    solved = np.linalg.lstsq(laplacian, pull, rcond=None)[0]
    return tuple(_rounded(solved[row[m]]) if m in row else None for m in range(n))


def _largest_group(n: int, margins: Mapping[Pair, float]) -> list[int]:
    """Return the largest set of responses that margins connect, the first of equal ones; empty without any margin."""
    mark = list(range(n))
    for i, j in margins:
        old, new = max(mark[i], mark[j]), min(mark[i], mark[j])
        mark = [new if own == old else own for own in mark]
    most = max(set(mark), key=lambda own: (mark.count(own), -own))
    return [place for place in range(n) if mark[place] == most] if n == 1 or mark.count(most) > 1 else []


def _equations(n: int, margins: Mapping[Pair, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return L and b of the normal equations L·s = b."""
    laplacian, pull = np.zeros((n, n)), np.zeros(n)
    if margins:
        i, j = np.array(list(margins)).T
        np.add.at(laplacian, (np.r_[i, j], np.r_[i, j]), 1.0)
        np.add.at(laplacian, (np.r_[i, j], np.r_[j, i]), -1.0)
        forces = np.array(list(margins.values()))
        np.add.at(pull, np.r_[i, j], np.r_[forces, -forces])
    return laplacian, pull


def _rounded(score: float) -> float:
    return round(float(score), SAME_SCORE_DIGITS) + 0.0
