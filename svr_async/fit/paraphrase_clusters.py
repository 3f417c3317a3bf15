"""Paraphrase clusters: which rubrics are wordings of one criterion, by the author's grouping and by answers.

    r_ij = correlation of z_i and z_j over the pairs judged on both, each minus its own mean there

Two good criteria both favour the chosen response, which is their means. Only what remains after the means shows whether
the judge answers one as it answers the other. Two rubrics are joined if r is at least 0.3 and four standard errors
(Fisher) above 0, unless known answers of their clusters disagree.

Clusters start from the author's criteria if these are known. Authors err: one wrong link puts two criteria with all
their wordings into one. So each criterion is split where answers make two likelier than one.

Wordings stay separate rubrics: each is judged with its own errors, so two decide better than one. The mean of m
wordings has reliability m r / (1 + (m − 1) r), so wording m + 1 explains (1 − r) / ((1 + m r) (1 + (m − 1) r)) of the
variance that the first does. Places go to the wordings with the largest effect · √(that share), and the criterion's
effect is shared evenly among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

JOIN = 0.3  # r from which rubrics are joined
SURE = 4.0  # standard errors, for joining
TRUST = 3.0  # log odds that wordings are one criterion if the author says so: 19 to 1
DISAGREE = 0.1  # r below which answers disagree
FEWEST = 8  # pairs judged on both
USUAL = 0.5  # r between wordings, if nothing is known
PRIOR_PAIRS = 50.0  # weight of the usual r, in pairs judged on both
DENSE = 0.02  # share of judged entries from which a dense product is faster


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParaphraseClusters:
    """`of` (rubric,) is each rubric's cluster, numbered from 0 in the order of first rubrics.

    `agreement` (cluster,) is the mean r between wordings, 1 for a cluster of one.
    """

    of: Ints
    agreement: Floats

    @property
    def count(self) -> int:
        """Number of clusters."""
        return len(self.agreement)

    def merge(self, z: Any) -> Any:
        """Return z with a column per cluster: the mean over the wordings that each pair was judged on."""
        if self.count == z.shape[1]:
            return z
        home = self._membership()
        total, judged = (z @ home).tocsr(), (judged_of(z) @ home).tocsr()
        rows = np.repeat(np.arange(judged.shape[0]), np.diff(judged.indptr))
        merged = judged.copy()
        merged.data = np.asarray(total[rows, judged.indices], np.float64).ravel() / judged.data
        return merged

    def merge_mined(self, mined: Any) -> Any:
        """Return which clusters were mined from which prompts (prompt, cluster), given the rubrics; None stays None."""
        return mined if mined is None or self.count == mined.shape[1] else judged_of(mined @ self._membership())

    def spread(self, effects: Floats, places: int) -> Floats:
        """Return effects by rubric (topic, rubric) of those by cluster (topic, cluster), for `places` per prompt."""
        if self.count == len(self.of):
            return effects
        worth = effects[:, self.of] * self._worth()
        rank = min(places, worth.shape[1]) - 1
        least = -np.partition(-worth, rank, axis=1)[:, rank, None]
        taken = (worth > 0) & ((worth >= least) | (self._rank() == 0))
        shared = taken @ self._membership()
        return cast("Floats", np.where(taken, effects[:, self.of] / np.maximum(shared[:, self.of], 1), 0.0))

    def _membership(self) -> Any:
        from scipy.sparse import csr_matrix

        return csr_matrix((np.ones(len(self.of)), self.of, np.arange(len(self.of) + 1)), (len(self.of), self.count))

    def _rank(self) -> Ints:
        """Return the place of each rubric among the wordings of its cluster (rubric,)."""
        order = np.argsort(self.of, kind="stable")
        first = np.searchsorted(self.of[order], np.arange(self.count))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - first[self.of[order]]
        return rank

    def _worth(self) -> Floats:
        """Return what each rubric is worth relative to the first wording of its cluster (rubric,)."""
        rank, agreement = self._rank(), self.agreement[self.of]
        further = (1 - agreement) / (1 + rank * agreement) / (1 + np.maximum(rank - 1, 0) * agreement)
        return cast("Floats", np.where(rank == 0, 1.0, np.sqrt(further)))


class JointAnswers(NamedTuple):
    """Pairs of rubrics i < j that enough pairs were judged on, how many, and r; (n,) each."""

    i: Ints
    j: Ints
    n: Floats
    r: Floats

    def only(self, rows: Any) -> JointAnswers:
        """Return the chosen rows."""
        return JointAnswers(*(column[rows] for column in self))


def one_each(count: int) -> ParaphraseClusters:
    """Return clusters of one rubric each."""
    return ParaphraseClusters(of=np.arange(count), agreement=np.ones(count))


def cluster_paraphrases(z: Any, criteria: Ints | None = None) -> ParaphraseClusters:
    """Return the clusters of sparse z (pair, rubric), where an absent entry was not judged.

    `criteria` (rubric,) is the author's grouping, one criterion number per rubric; None if unknown.
    """
    answers = joint_answers(z)
    start = np.arange(z.shape[1]) if criteria is None else _split_by_answers(np.asarray(criteria), answers)
    of = _joined(start, answers)
    return ParaphraseClusters(of=of, agreement=_mean_agreement(of, answers))


def joint_answers(z: Any) -> JointAnswers:
    """Return how the answers of every two rubrics correlate that at least `FEWEST` pairs were judged on."""
    judged = judged_of(z)
    count = _cross(judged, judged).tocoo()
    known = (count.row < count.col) & (count.data >= FEWEST)
    i, j, n = count.row[known], count.col[known], count.data[known]
    if not len(i):
        return JointAnswers(i, j, n, np.zeros(0))
    sums, squares, products = (_cross(a, b) for a, b in ((z, judged), (z.multiply(z), judged), (z, z)))
    mean_i, mean_j = _at(sums, i, j) / n, _at(sums, j, i) / n
    spread = (_at(squares, i, j) / n - mean_i**2) * (_at(squares, j, i) / n - mean_j**2)
    r = (_at(products, i, j) / n - mean_i * mean_j) / np.sqrt(np.maximum(spread, 1e-9))
    return JointAnswers(i, j, n, np.clip(r, -0.99, 0.99))


def judged_of(z: Any) -> Any:
    """Return 1 at each entry of sparse z."""
    marks = z.tocsr().copy()
    marks.data = np.ones_like(marks.data)
    return marks


def _cross(one: Any, other: Any) -> Any:
    """Return oneᵀ other, sparse; by a dense product if most pairs are judged on many rubrics."""
    from scipy.sparse import csr_matrix

    if one.nnz < DENSE * one.shape[0] * one.shape[1]:
        return (one.T @ other).tocsr()
    return csr_matrix(np.asarray(one.toarray(), np.float64).T @ np.asarray(other.toarray(), np.float64))


def _at(matrix: Any, i: Ints, j: Ints) -> Floats:
    return np.asarray(matrix[i, j], np.float64).ravel()


def _split_by_answers(criteria: Ints, answers: JointAnswers) -> Ints:
    """Return the author's criteria, split where answers say that some wordings are another criterion.

    log odds of one criterion = ln(19) + Σ_pairs (n − 3) (μ₁ − μ₀) (arctanh r − (μ₁ + μ₀) / 2)
    μ₁ and μ₀ are arctanh of the mean r within and across the author's criteria.
    """
    _, of = np.unique(criteria, return_inverse=True)
    within = of[answers.i] == of[answers.j]
    same = answers.only(within)
    alike, unlike = (np.arctanh(mean) for mean in (max(_usual(same), DISAGREE), _usual(answers.only(~within), 0.0)))
    odds = (same.n - 3) * (alike - unlike) * (np.arctanh(same.r) - (alike + unlike) / 2)
    out, count = of.copy(), len(of)
    order = np.argsort(of[same.i], kind="stable")
    borders = np.flatnonzero(np.diff(of[same.i][order]))
    for rows in np.split(order, borders + 1):
        members, places = np.unique([same.i[rows], same.j[rows]], return_inverse=True)
        i, j = places.reshape(2, -1)
        for part in _likely_parts(len(members), i, j, odds[rows])[1:]:
            out[members[part]] = count
            count += 1
    return out


def _likely_parts(count: int, i: Ints, j: Ints, odds: Floats) -> list[list[int]]:
    """Return parts of `count` wordings, the largest first: the likeliest are joined while the log odds are above 0."""
    between = np.zeros((count, count))
    between[i, j] = between[j, i] = odds
    np.fill_diagonal(between, -np.inf)
    parts = [[place] for place in range(count)]
    while count and between.max() > -TRUST:
        one, other = sorted(divmod(int(between.argmax()), count))
        parts[one] += parts[other]
        parts[other] = []
        for both in (between, between.T):
            both[one] += between[other]
            both[other] = -np.inf
        between[one, one] = -np.inf
    return sorted(filter(None, parts), key=len, reverse=True)


def _joined(start: Ints, answers: JointAnswers) -> Ints:
    """Return the cluster of each rubric after joining clusters, the surest answers first."""
    sure = np.arctanh(answers.r) * np.sqrt(answers.n - 3)
    found = np.flatnonzero((answers.r >= JOIN) & (sure >= SURE))
    found = found[np.argsort(-sure[found], kind="stable")]
    _, leader = np.unique(start, return_inverse=True)
    involved = np.unique(leader[np.concatenate([answers.i[found], answers.j[found]])])
    place = np.full(int(leader.max(initial=0)) + 1, -1)
    place[involved] = np.arange(len(involved))
    apart = _disagreeing(place[leader], len(involved), answers)
    merged = np.arange(len(involved))
    for one, other in zip(place[leader[answers.i[found]]], place[leader[answers.j[found]]], strict=True):
        first, second = sorted((merged[one], merged[other]))
        if first == second or apart[first, second]:
            continue
        merged[merged == second] = first
        apart[first] |= apart[second]
        apart[:, first] |= apart[:, second]
    joined = np.arange(len(place))
    joined[involved] = involved[merged]
    return _numbered(joined[leader])


def _disagreeing(place: Ints, count: int, answers: JointAnswers) -> npt.NDArray[np.bool_]:
    """Return which of the clusters involved have members that answer differently (count, count)."""
    out = np.zeros((count, count), bool)
    one, other = place[answers.i], place[answers.j]
    apart = (answers.r < DISAGREE) & (one >= 0) & (other >= 0) & (one != other)
    out[one[apart], other[apart]] = out[other[apart], one[apart]] = True
    return out


def _numbered(labels: Ints) -> Ints:
    """Return labels renumbered from 0 in the order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return cast("Ints", rank[inverse])


def _mean_agreement(of: Ints, answers: JointAnswers) -> Floats:
    """Return the mean r between the wordings of each cluster, shrunk towards that of all clusters."""
    count, size = int(of.max(initial=-1)) + 1, np.bincount(of)
    same = answers.only(of[answers.i] == of[answers.j])
    total = np.bincount(of[same.i], same.r * same.n, count) + PRIOR_PAIRS * _usual(same)
    known = np.bincount(of[same.i], same.n, count) + PRIOR_PAIRS
    return np.where(size > 1, np.clip(total / known, 0, 1), 1.0)


def _usual(answers: JointAnswers, unknown: float = USUAL) -> float:
    """Return the mean r, by the number of pairs judged on both; `unknown` without any."""
    return float(answers.r @ answers.n / answers.n.sum()) if len(answers.i) else unknown
