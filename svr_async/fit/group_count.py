"""How many groups of prompts there are: as many as tell best what is mined from prompts that were left out.

    log-likelihood = Σ_prompts Σ_{r mined} log p_r(x) − Σ_r p_r(x),    p(x) = gates(x) · rate

No label and no judgement takes part, so the number says how many kinds of prompts the words tell apart, whether or not
knowing them helps to decide. A likelihood of every rubric as an event of its own (Poisson), with the rates of groups
shrunk to those of all prompts. Of numbers that do as well as the best, but for a standard error, the smallest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.grouping import Association, Size, associate, groups_of, likely_groups, marks_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PROMPTS_A_GROUP = 20  # no more groups than this allows
PARTS = 4
SHRINKAGE = 20.0  # prompts
MOST_PROMPTS = 8000  # tried on a sample of this many
WORSE = 2  # so many larger numbers in a row that tell less end the search
LEAST_RATE = 1e-6
BLOCK = 2048  # prompts that are dense at a time

ONE = Size(groups=1, directions=0)


def best_size(features: Any, mined: Any, *, most: int, seed: int) -> Size:
    """Return the number of groups, up to `most`, and of directions that tell best what is mined from unseen prompts.

    `features` (prompt, feature) and `mined` (prompt, rubric) are sparse; without `mined` there is one group.
    """
    if mined is None or features.shape[0] < 2 * PROMPTS_A_GROUP:
        return ONE
    rng = np.random.default_rng([seed, 11])
    rows = rng.permutation(features.shape[0])[:MOST_PROMPTS]
    parts = [_Part(features, mined, rows, held, seed) for held in range(PARTS)]
    tried = {ONE: _told(parts, ONE)}
    for count in COUNTS:
        best = max(tried, key=lambda size: float(tried[size].sum()))
        later = [size for size in tried if size.groups > best.groups]
        if count > min(most, len(rows) // PROMPTS_A_GROUP) or len({size.groups for size in later}) == WORSE:
            break
        for directions in sorted({max(1, count // 2), count - 1}):
            size = Size(groups=count, directions=directions)
            tried[size] = _told(parts, size)
    return _smallest(tried)


def rates_of(gates: Floats, mined: Any) -> Floats:
    """Return how often each group's prompts give each rubric (group, rubric), shrunk to how often all prompts do."""
    usual = np.asarray(mined.sum(axis=0), np.float64).ravel() / max(1, mined.shape[0])
    given = np.asarray((mined.T @ gates).T)
    return cast("Floats", (given + SHRINKAGE * usual) / (gates.sum(axis=0)[:, None] + SHRINKAGE))


def _smallest(tried: Mapping[Size, Floats]) -> Size:
    """Return the fewest groups, with the directions that tell most, that are within a standard error of the best."""
    best = max(tried.values(), key=lambda told: float(told.sum()))
    near = {size: told for size, told in tried.items() if _mean(best - told) <= _error(best - told)}
    fewest = min(size.groups for size in near)
    return max((size for size in near if size.groups == fewest), key=lambda size: float(near[size].sum()))


def _mean(values: Floats) -> float:
    return float(values.mean())


def _error(values: Floats) -> float:
    return float(values.std() / np.sqrt(len(values)))


def _told(parts: Sequence[_Part], size: Size) -> Floats:
    """Return the log-likelihood of what was mined from each prompt, when it was left out."""
    return np.concatenate([part.told(size) for part in parts])


class _Part:
    """One part of the prompts, and what the others tell of it."""

    def __init__(self, features: Any, mined: Any, rows: Ints, held: int, seed: int) -> None:
        place = np.arange(len(rows)) % PARTS
        inside, outside = np.sort(rows[place != held]), np.sort(rows[place == held])
        self._features, self._mined = features[inside], marks_of(mined[inside])
        self._unseen, self._given, self._seed = features[outside], marks_of(mined[outside]), seed
        self._association: Association | None = associate(self._features, self._mined)

    def told(self, size: Size) -> Floats:
        """Return the log-likelihood of what was mined from each prompt that was left out."""
        groups = groups_of(self._association, self._features, self._mined, size, self._seed)
        rates = rates_of(likely_groups(groups.gates(self._features), self._mined), self._mined)
        gates = groups.gates(self._unseen)
        return np.concatenate(
            [
                _likelihood(gates[first : first + BLOCK] @ rates, self._given[first : first + BLOCK])
                for first in range(0, len(gates), BLOCK)
            ]
        )


def _likelihood(expected: Floats, given: Any) -> Floats:
    entries = given.tocoo()
    told = np.log(np.maximum(expected[entries.row, entries.col], LEAST_RATE))
    likelihood: Floats = np.bincount(entries.row, weights=told, minlength=len(expected)) - expected.sum(axis=1)
    return likelihood
