"""Scores that explain margins best: s_i − s_j ≈ F_ij in least squares, whichever pairs there are a margin of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Margins = dict[tuple[int, int], float]
"""(i, j) to F_ij, positive where i is better."""

SAME_SCORE_DIGITS = 9  # so that the last bits of a sum settle no tie


def potentials(n: int, margins: Mapping[tuple[int, int], float]) -> tuple[float | None, ...]:
    """Return scores of n responses with s_i − s_j ≈ F_ij in least squares and Σ s = 0 over those that have one.

    `margins` maps (i, j) to F_ij. Only the largest group that margins connect has scores (the first of equal ones):
    nothing says how a response outside it compares. A lone response has the score 0.
    """
    group = _largest_group(n, margins)
    if not group:
        return (None,) * n
    row = {member: place for place, member in enumerate(group)}
    inside = {(row[i], row[j]): margin for (i, j), margin in margins.items() if i in row and j in row}
    laplacian, pull = _equations(len(group), inside)
    solved = np.linalg.lstsq(laplacian, pull, rcond=None)[0]
    return tuple(_rounded(solved[row[m]]) if m in row else None for m in range(n))


def standings(n: int, margins: Mapping[tuple[int, int], float]) -> list[float]:
    """Return a score of each of n responses while margins are still coming in, also where nothing connects them yet.

    They are the potentials after one more pair for each: a tie with a response of score 0.
    """
    laplacian, pull = _equations(n, margins)
    return [_rounded(score) for score in np.linalg.solve(laplacian + np.eye(n), pull)]


def connected(n: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the groups of n responses that pairs connect, each in ascending order, by their first member."""
    mark = list(range(n))
    for i, j in pairs:
        old, new = max(mark[i], mark[j]), min(mark[i], mark[j])
        mark = [new if own == old else own for own in mark]
    return [[place for place in range(n) if mark[place] == own] for own in sorted(set(mark))]


def _largest_group(n: int, margins: Mapping[tuple[int, int], float]) -> list[int]:
    if n == 1:
        return [0]
    largest = max(connected(n, margins), key=len)
    return largest if len(largest) > 1 else []


def _equations(n: int, margins: Mapping[tuple[int, int], float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return L and b of L·s = b, whose solutions have the least squared error."""
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
