"""Rubrics that go with the preferred response and do not make it so: a style of those who write the better ones.

    ρ_j = E[z_j F₋j] / (E[z_j] E[F₋j])      over the pairs judged on j
    F₋j: the margin by all other criteria, but for those that repeat j

What people weigh makes up for each other: where the rest speaks less for the chosen response, a criterion that counts
has to speak more for it. So, given the choice, it leans against the rest, and ρ is small: 0 where responses have their
properties independently (selection by a sum: Berkson 1946, Biometrics Bulletin 2:47-53). What the choice merely brings
along is independent of the rest given the choice: ρ = 1. Wrong labels, a share ε, raise that to 1 / (1 − 2ε)² and the
others less. No fit of labels to judgements can tell the two apart: both predict the label where they were learned.

A judge's halo raises the ρ of all criteria alike, so only those count that stand out: ρ not below 1, above that of the
others by more than chance gives, together less than half of what decides, and with an effect in most kinds of prompts:
what a label brings along, it brings along everywhere. They are left out one by one, since what they add to F raises the
ρ of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.overlap import alike
from svr_async.fit.threads import rows_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
Marks = npt.NDArray[np.bool_]

LEAST_SHARE = 0.01  # of what decides; below it, little is lost
LEAST_PAIRS = 100  # judged on a criterion
FEWEST = 3  # criteria to compare
MOST_SHARE = 0.5  # of what decides, for all that is left out
SURE = 3.0  # standard errors of those that stand out, together, above the others
LIKELY = 2.0  # of each of them, and below 1 at the most
MOST_CELLS = 1 << 25  # pairs times criteria that are gone through at a time
COMMON = 0.5  # of the pairs, by topics in which a criterion has an effect


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ratios:
    """ρ of some criteria (n,) and its standard error; `place` (n,) is where each stands among the candidates."""

    place: Ints
    value: Floats
    error: Floats


def correlates(z: Any, judged: Any, gates: Floats, effects: Floats) -> list[int]:
    """Return the criteria that only go with the label, those that stand out most first.

    `z` and `judged` (pair, criterion) are sparse, `gates` (pair, topic), `effects` (topic, criterion).
    """
    weighed, share = _shares(z, gates, effects)
    if len(weighed) < FEWEST:
        return []
    value, known = z[:, weighed].toarray(), judged[:, weighed].toarray() > 0
    told = value * (gates @ effects[:, weighed])
    same = alike(z[:, weighed], judged[:, weighed]).toarray() > 0
    np.fill_diagonal(same, True)
    common = gates.mean(axis=0) @ (effects[:, weighed] > 0) >= COMMON
    kept = np.ones(len(weighed), bool)
    found: list[int] = []
    while True:
        place = _outlier(_ratios(value, known, told, same, kept), common, share, float(share[~kept].sum()))
        if place is None:
            return found
        kept[place] = False
        found.append(int(weighed[place]))


def _shares(z: Any, gates: Floats, effects: Floats) -> tuple[Ints, Floats]:
    """Return the criteria that decide (n,), and the share of each in what all of them say."""
    block = len(gates) if effects.shape[1] * len(gates) <= MOST_CELLS else max(1, MOST_CELLS // effects.shape[1])
    parts = [abs(z[rows]).multiply(gates[rows] @ effects).sum(axis=0) for rows in rows_of(z.shape[0], block)]
    size = np.asarray(sum(parts)).ravel()
    share = size / max(float(size.sum()), 1e-12)
    weighed = np.flatnonzero(share >= LEAST_SHARE)
    return weighed, share[weighed]


def _ratios(value: Floats, known: Marks, told: Floats, same: Marks, kept: Marks) -> _Ratios:
    """Return ρ of the criteria that are kept, where it is defined: both means are above 0.

    `value`, `known` and `told` (pair, candidate) are z, whether it was judged, and what it adds to the margin; `same`
    (candidate, candidate) says what repeats what.
    """
    rest = (told @ kept)[:, None] - told @ (same & kept[:, None])
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


def _outlier(found: _Ratios, common: Marks, share: Floats, gone: float) -> int | None:
    """Return the candidate that stands out most of those that stand out together; None where none do.

    `common` (candidate,) says which may, `share` (candidate,) is of what decides, `gone` of what is left out already.
    """
    order = np.argsort(-(found.value - found.error), kind="stable")
    order = order[common[found.place[order]]]
    best: tuple[float, int | None] = (SURE, None)
    for count in range(1, min(len(order), len(found.place) - 2) + 1):
        top, rest = order[:count], np.setdiff1d(np.arange(len(found.place)), order[:count])
        least, gone_then = top[-1], gone + float(share[found.place[top]].sum())
        if found.value[least] + LIKELY * found.error[least] < 1 or gone_then > MOST_SHARE:
            break
        mean, error = _mean(found, rest)
        above = (found.value[top] - mean) / np.hypot(found.error[top], error)
        together, of_both = _mean(found, top)
        sure = (together - mean) / np.hypot(of_both, error)
        if above[-1] >= LIKELY and sure >= best[0]:
            best = float(sure), int(found.place[top[above.argmax()]])
    return best[1]


def _mean(found: _Ratios, rows: Sequence[int] | Ints) -> tuple[float, float]:
    """Return the mean of some ρ by what is known of each, and its standard error."""
    weight = 1 / found.error[rows] ** 2
    return float((weight * found.value[rows]).sum() / weight.sum()), float(1 / np.sqrt(weight.sum()))
