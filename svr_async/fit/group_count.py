"""How many groups of prompts there are: as many as tell best what is mined from prompts that were left out.

    log-likelihood = Σ_prompts Σ_{r mined} log p_r(x) − Σ_r p_r(x),    p(x) = gates(x) · rate

No label and no judgement takes part, so the number says how many kinds of prompts the words tell apart, whether or not
knowing them helps to decide. A likelihood of every rubric as an event of its own (Poisson), with the rates of groups
shrunk to those of all prompts. Of numbers that do as well as the best, but for a standard error, the smallest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.grouping import Size, View, associate, likely_groups, marks_of, told_groups
from svr_async.fit.threads import in_threads

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
Views = Mapping[View, Any]  # of what was mined from each prompt, sparse (prompt, column)

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PROMPTS_A_GROUP = 20  # no more groups than this allows
PARTS = 4
SHRINKAGE = 20.0  # prompts
MOST_PROMPTS = 6000  # tried on a sample of this many
LEAST_RATE = 1e-6

ONE = Size(groups=1, directions=0)


def best_size(features: Any, views: Views, *, most: int, seed: int) -> Size:
    """Return the number of groups, up to `most`, directions and view that tell best what is mined from unseen prompts.

    `features` (prompt, feature) and each view (prompt, column) are sparse; without views there is one group.
    """
    return told_size(parts_of(features, views, seed=seed), most)


def parts_of(features: Any, views: Views, *, seed: int, fold: Ints | None = None) -> list[Part]:
    """Return what is learned where each part of the prompts is left out; nothing where there is too little.

    `fold` (prompt,) is the part of each prompt, from 0, and −1 where it is in none; None: parts are dealt at random.
    """
    if not views or features.shape[0] < 2 * PROMPTS_A_GROUP:
        return []
    order = np.random.default_rng([seed, 11]).permutation(features.shape[0])
    part = np.full(len(order), -1)
    part[order] = np.arange(len(order)) % PARTS if fold is None else fold[order]
    rows = order[part[order] >= 0][:MOST_PROMPTS]
    held = range(int(part.max()) + 1)
    return in_threads(lambda each: Part(features, views, rows, part[rows] == each, seed), held)


def told_size(parts: Sequence[Part], most: int) -> Size:
    """Return the number of groups, up to `most`, directions and view that tell best what each part's prompts gave."""
    if not parts:
        return ONE
    most = min(most, sum(part.unseen for part in parts) // PROMPTS_A_GROUP)
    tried = {ONE: _told(parts, ONE)}
    for view in parts[0].associations:
        tried |= _ladder(parts, view, most)
    return _smallest(tried)


def _ladder(parts: Sequence[Part], view: View, most: int) -> dict[Size, Floats]:
    """Try all numbers of groups by one view: where there are many kinds, few groups tell less than none.

    Each number has one direction less; the best of them is tried with half as many, too.
    """
    sizes = [Size(groups=count, directions=count - 1, view=view) for count in COUNTS if count <= most]
    tried = {size: _told(parts, size) for size in sizes}
    for size in _leading(tried):
        half = replace(size, directions=max(1, size.groups // 2))
        tried[half] = _told(parts, half)
    return tried


def _leading(tried: Mapping[Size, Floats]) -> list[Size]:
    """Return the size that tells most, and the smallest that tells as much but for a standard error."""
    return (
        list(dict.fromkeys([max(tried, key=lambda size: float(tried[size].sum())), _smallest(tried)])) if tried else []
    )


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


def _told(parts: Sequence[Part], size: Size) -> Floats:
    """Return the log-likelihood of what was mined from each prompt, when it was left out."""
    return np.concatenate(in_threads(lambda part: part.told(size), parts))


class Part:
    """One part of the prompts, and what the others tell of it: of all views, whichever the groups come from.

    `associations` are those that the others tell, by view.
    """

    def __init__(self, features: Any, views: Views, rows: Ints, held: npt.NDArray[np.bool_], seed: int) -> None:
        from scipy.sparse import hstack

        inside, outside = np.sort(rows[~held]), np.sort(rows[held])
        self._features, self._unseen, self._seed = features[inside], features[outside], seed
        self._views = {name: marks_of(view[inside]) for name, view in views.items()}
        self._mined = hstack(list(self._views.values())).tocsr()
        self._given = hstack([marks_of(view[outside]) for view in views.values()]).tocsr()
        self.associations = {name: associate(self._features, view) for name, view in self._views.items()}

    @property
    def unseen(self) -> int:
        """Number of prompts that are left out."""
        return int(self._unseen.shape[0])

    def told(self, size: Size) -> Floats:
        """Return the log-likelihood of what was mined from each prompt that was left out."""
        view = self._views[size.view]
        groups, gates = told_groups(self.associations[size.view], self._features, view, size, self._seed)
        rates = rates_of(likely_groups(gates, view), self._mined)
        return _likelihood(groups.gates(self._unseen), rates, self._given)


def _likelihood(gates: Floats, rates: Floats, given: Any) -> Floats:
    """Return the log-likelihood of what each prompt gave: an event of its own for each column, at gates · rates."""
    entries = given.tocoo()
    expected = (gates[entries.row] * rates.T[entries.col]).sum(axis=1)
    told = np.bincount(entries.row, weights=np.log(np.maximum(expected, LEAST_RATE)), minlength=len(gates))
    return cast("Floats", told - gates @ rates.sum(axis=1))
