"""Which rubrics are wordings of one criterion: answers decide, whatever the texts say.

    r_ij = correlation of z_i and z_j over the pairs that were judged on both, each less its own mean there

Two good criteria both favour the chosen response; their means say that. Only what is left after the means tells whether
the judge answers one as it answers the other. Two rubrics are one where r is at least 0.3 and four standard errors
(Fisher) above 0, and where no known answers of the groups that they belong to speak against it.

A criterion's wordings are judged with errors of their own: asked in two wordings, it is decided better than in one.
What a further wording is worth falls with r, (1 − r) / (1 + r) of the first; places go to the wordings that are worth
most, and a criterion's effect is shared out evenly among those that get one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.overlap import entries_at

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

LEAST = 0.3  # r
SURE = 4.0  # standard errors
AGAINST = 0.1  # an r below this between members of two groups keeps them apart
FEWEST = 8  # pairs judged on both


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Criteria:
    """`of` (rubric,) is the criterion of each rubric, numbered from 0 in the order of their first rubrics.

    `agreement` (criterion,) is the mean r between its wordings, 1 where it has one.
    """

    of: Ints
    agreement: Floats

    @property
    def count(self) -> int:
        """Number of criteria."""
        return len(self.agreement)

    def merged(self, z: Any) -> Any:
        """Return z with a column a criterion: the mean over the wordings that each pair was judged on."""
        if self.count == z.shape[1]:
            return z
        home = _home(self.of, self.count)
        total, judged = (z @ home).tocsr(), (judged_of(z) @ home).tocsr()
        return _like(judged, _at(total, judged) / judged.data)

    def mined(self, mined: Any) -> Any:
        """Return which criteria were mined from which prompts (prompt, criterion), of which rubrics were."""
        if mined is None or self.count == mined.shape[1]:
            return mined
        return judged_of(mined @ _home(self.of, self.count))

    def spread(self, effects: Floats, places: int) -> Floats:
        """Return effects by rubric (topic, rubric) of those by criterion (topic, criterion), for so many places."""
        if self.count == len(self.of):
            return effects
        worth = effects[:, self.of] * self._worth()
        least = -np.partition(-worth, min(places, worth.shape[1]) - 1, axis=1)[:, min(places, worth.shape[1]) - 1, None]
        first = self._rank() == 0
        taken = (worth > 0) & ((worth >= least) | first)
        shared = taken @ _home(self.of, self.count)
        return cast("Floats", np.where(taken, effects[:, self.of] / np.maximum(shared[:, self.of], 1), 0.0))

    def _rank(self) -> Ints:
        """Return the place of each rubric among the wordings of its criterion (rubric,)."""
        order = np.argsort(self.of, kind="stable")
        first = np.searchsorted(self.of[order], np.arange(self.count))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - first[self.of[order]]
        return rank

    def _worth(self) -> Floats:
        """Return what each rubric's place is worth beside the first wording of its criterion (rubric,)."""
        rank, agreement = self._rank(), self.agreement[self.of]
        further = (1 - agreement) / (1 + agreement) / np.maximum(rank, 1)
        return cast("Floats", np.where(rank == 0, 1.0, further))


def each_its_own(count: int) -> Criteria:
    """Return criteria of one wording each."""
    return Criteria(of=np.arange(count), agreement=np.ones(count))


def criteria_of(z: Any) -> Criteria:
    """Return the criteria of sparse z (pair, rubric), absent = not judged; earlier rubrics lead."""
    pairs, agreement = _alike(z)
    if not len(pairs):
        return each_its_own(z.shape[1])
    groups = _joined(z.shape[1], pairs, agreement)
    leaders = sorted(set(groups))
    number = {leader: place for place, leader in enumerate(leaders)}
    of = np.array([number[leader] for leader in groups])
    return Criteria(of=of, agreement=_mean_agreement(of, len(leaders), agreement))


def _alike(z: Any) -> tuple[list[tuple[int, int]], dict[tuple[int, int], float]]:
    """Return the pairs of rubrics that are one, the surest first, and r of all pairs with enough answers."""
    judged = judged_of(z)
    count = (judged.T @ judged).tocoo()
    known = (count.row < count.col) & (count.data >= FEWEST)
    i, j, n = count.row[known], count.col[known], count.data[known]
    if not len(i):
        return [], {}
    sums = (z.T @ judged).tocsr()
    squares, products = (z.multiply(z).T @ judged).tocsr(), (z.T @ z).tocsr()
    mean_i, mean_j = entries_at(sums, i, j) / n, entries_at(sums, j, i) / n
    spread = (entries_at(squares, i, j) / n - mean_i**2) * (entries_at(squares, j, i) / n - mean_j**2)
    r = np.clip((entries_at(products, i, j) / n - mean_i * mean_j) / np.sqrt(np.maximum(spread, 1e-9)), -0.99, 0.99)
    sure = np.arctanh(r) * np.sqrt(n - 3)
    found = np.flatnonzero((r >= LEAST) & (sure >= SURE))
    found = found[np.argsort(-sure[found], kind="stable")]
    pairs = list(zip(i[found].tolist(), j[found].tolist(), strict=True))
    return pairs, dict(zip(zip(i.tolist(), j.tolist(), strict=True), r.tolist(), strict=True))


def _joined(count: int, pairs: list[tuple[int, int]], agreement: dict[tuple[int, int], float]) -> list[int]:
    """Return the first member of each rubric's group, after joining groups pair by pair."""
    members = {rubric: [rubric] for rubric in range(count)}
    leader = list(range(count))
    for one, other in pairs:
        first, second = sorted((leader[one], leader[other]))
        if first == second or _spoken_against(members[first], members[second], agreement):
            continue
        members[first] += members.pop(second)
        for rubric in members[first]:
            leader[rubric] = first
    return leader


def _spoken_against(ours: list[int], theirs: list[int], agreement: dict[tuple[int, int], float]) -> bool:
    return any(agreement.get((min(a, b), max(a, b)), 1.0) < AGAINST for a in ours for b in theirs)


def _mean_agreement(of: Ints, count: int, agreement: dict[tuple[int, int], float]) -> Floats:
    total, known = np.zeros(count), np.zeros(count)
    for (i, j), r in agreement.items():
        if of[i] == of[j]:
            total[of[i]] += r
            known[of[i]] += 1
    return np.where(known > 0, total / np.maximum(known, 1), 1.0)


def judged_of(z: Any) -> Any:
    """Return 1 where sparse z has an entry."""
    marks = z.tocsr().copy()
    marks.data = np.ones_like(marks.data)
    return marks


def _home(of: Ints, count: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(len(of)), of, np.arange(len(of) + 1)), shape=(len(of), count))


def _at(values: Any, pattern: Any) -> Floats:
    """Return the values at the entries of a pattern, in its order; a sum that cancelled out is 0."""
    return np.asarray(values[_rows(pattern), pattern.indices], np.float64).ravel()


def _rows(matrix: Any) -> Ints:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _like(pattern: Any, data: Floats) -> Any:
    out = pattern.copy()
    out.data = data
    return out
