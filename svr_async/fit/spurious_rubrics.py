"""Spurious rubrics: those that go with the preferred response without being a reason, such as a writer's style.

    ρ_j = E[z_j F₋j] / (E[z_j] E[F₋j])      over the pairs judged on j
    F₋j: the margin by all other criteria, except those that repeat j

Reasons compensate for each other: where the rest speaks less for the chosen response, a criterion that counts has to
speak more for it. Given the choice it leans against the rest, and ρ is small: 0 if properties of responses are
independent (selection by a sum: Berkson 1946, Biometrics Bulletin 2:47-53). A style that merely accompanies the choice
is independent of the rest given the choice: ρ = 1. A share ε of wrong labels raises that to 1 / (1 − 2ε)², and the
others less. Labels and judgements alone cannot distinguish the two: both predict the label where they were learned.

A judge's halo raises the ρ of all criteria alike, so only outliers count: ρ not below 1, above the others by more than
chance, together less than half of what decides, and with an effect for most prompts. They are removed one by one,
since what they add to F raises the ρ of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.ragged import rows_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
Marks = npt.NDArray[np.bool_]

LEAST_SHARE = 0.01  # of what decides; rubrics below it matter little
LEAST_PAIRS = 100  # judged on a criterion
FEWEST = 3  # criteria to compare
MOST_SHARE = 0.5  # of what decides, for all removed criteria together
SURE = 3.0  # standard errors of the outliers together above the others
LIKELY = 2.0  # of each of them, and below 1 at the most
MOST_CELLS = 1 << 25  # pairs times criteria processed at a time
COMMON = 0.5  # share of the pairs for which a criterion has an effect
ALIKE = 0.3  # correlation from which one criterion repeats another
SHRINKAGE = 20.0  # of that correlation, in pairs judged on both


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ratios:
    """ρ of some criteria (n,) and its standard error; `place` (n,) is each one's place among the candidates."""

    place: Ints
    value: Floats
    error: Floats


def spurious_rubrics(z: Any, judged: Any, mixture: Floats, effects: Floats) -> list[int]:
    """Return the criteria that only go with the label, the strongest outlier first.

    `z` and `judged` (pair, criterion) are sparse, `mixture` (pair, topic), `effects` (topic, criterion).
    """
    weighed, share = _shares(z, mixture, effects)
    if len(weighed) < FEWEST:
        return []
    value, known = z[:, weighed].toarray(), judged[:, weighed].toarray() > 0
    said = value * (mixture @ effects[:, weighed])
    same = _repeats(value, known.astype(np.float64))
    common = mixture.mean(axis=0) @ (effects[:, weighed] > 0) >= COMMON
    kept = np.ones(len(weighed), bool)
    found: list[int] = []
    while True:
        place = _outlier(_ratios(value, known, said, same, kept), common, share, float(share[~kept].sum()))
        if place is None:
            return found
        kept[place] = False
        found.append(int(weighed[place]))


def _shares(z: Any, mixture: Floats, effects: Floats) -> tuple[Ints, Floats]:
    """Return the criteria that decide (n,), and each one's share of the sum of all."""
    block = max(1, min(len(mixture), MOST_CELLS // effects.shape[1]))
    parts = [abs(z[rows]).multiply(mixture[rows] @ effects).sum(axis=0) for rows in rows_of(z.shape[0], block)]
    size = np.asarray(sum(parts)).ravel()
    share = size / max(float(size.sum()), 1e-12)
    weighed = np.flatnonzero(share >= LEAST_SHARE)
    return weighed, share[weighed]


def _repeats(value: Floats, known: Floats) -> Marks:
    """Return which candidates are judged alike (candidate, candidate), each being alike itself."""
    count, squares = known.T @ known, (value**2).T @ known
    correlation = (value.T @ value) / np.sqrt(np.maximum(squares * squares.T, 1e-12))
    same = correlation * count / (count + SHRINKAGE) >= ALIKE
    np.fill_diagonal(same, val=True)
    return same


def _ratios(value: Floats, known: Marks, said: Floats, same: Marks, kept: Marks) -> _Ratios:
    """Return ρ of the kept criteria for which it is defined: both means are above 0.

    `value`, `known` and `said` (pair, candidate) are z, whether it was judged, and what it adds to the margin; `same`
    (candidate, candidate) marks repeats.
    """
    rest = (said @ kept)[:, None] - said @ (same & kept[:, None])
    count = np.maximum(known.sum(axis=0), 1)
    mean, others = value.sum(axis=0) / count, (rest * known).sum(axis=0) / count
    defined = kept & (known.sum(axis=0) >= LEAST_PAIRS) & (mean > 0) & (others > 0)
    scale = np.where(defined, mean * others, 1.0)
    product = value * rest
    ratio = product.sum(axis=0) / count / scale
    spread = product - ratio * (value * others + rest * mean - scale)  # the delta method
    error = np.sqrt((known * spread**2).sum(axis=0)) / count / scale
    place = np.flatnonzero(defined)
    return _Ratios(place=place, value=ratio[place], error=np.maximum(error[place], 1e-6))


def _outlier(found: _Ratios, common: Marks, share: Floats, removed: float) -> int | None:
    """Return the strongest of the candidates that are outliers together; None without any.

    `common` (candidate,) marks those allowed, `share` (candidate,) is of what decides, `removed` already.
    """
    order = np.argsort(-(found.value - found.error), kind="stable")
    order = order[common[found.place[order]]]
    best: tuple[float, int | None] = (SURE, None)
    for count in range(1, min(len(order), len(found.place) - 2) + 1):
        top, rest = order[:count], np.setdiff1d(np.arange(len(found.place)), order[:count])
        least, removed_then = top[-1], removed + float(share[found.place[top]].sum())
        if found.value[least] + LIKELY * found.error[least] < 1 or removed_then > MOST_SHARE:
            break
        mean, error = _mean(found, rest)
        above = (found.value[top] - mean) / np.hypot(found.error[top], error)
        together, of_both = _mean(found, top)
        sure = (together - mean) / np.hypot(of_both, error)
        if above[-1] >= LIKELY and sure >= best[0]:
            best = float(sure), int(found.place[top[above.argmax()]])
    return best[1]


def _mean(found: _Ratios, rows: Sequence[int] | Ints) -> tuple[float, float]:
    """Return the precision-weighted mean of some ρ, and its standard error."""
    weight = 1 / found.error[rows] ** 2
    return float((weight * found.value[rows]).sum() / weight.sum()), float(1 / np.sqrt(weight.sum()))
