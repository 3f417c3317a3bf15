"""Which structure the data want: groups of prompts or none, how many, how sparse, how much in common, how many rubrics.

Whether a rubric holds for every prompt alike or for each kind of prompt apart differs from data set to data set, and so
does how much there is to learn. Each candidate is fitted on three quarters of the training prompts and decides the other
quarter as a bank would: by the best rubrics of the whole bank for each prompt, of which those that were not judged on a
pair say nothing. A pair counts 1 where its margin is positive and half where it is 0. The simplest candidate within one
standard error of the best is taken: fewer groups, then less of its own, then fewer rubrics a prompt.

Where pairs come from several sources, sources are left out instead of prompts (`fit.folds`), and count the same. One
weight a rubric, in common to all sources (`fit.common`), is a candidate there, and where a prompt gets many rubrics. It
is taken among near-equals where sources are left out; else, of equally many groups, the solver that does better is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.choices import Choice, LeftOut, Structure, Trial
from svr_async.fit.common import MOST_RUBRICS, RIDGES, Ridge, chosen_ridge, moments_of, weights
from svr_async.fit.folds import Folds, even_rows, folds_of
from svr_async.fit.grouping import associate, softmax, word_scores
from svr_async.fit.problems import Penalties, Problem, batch_of, solutions, sparse_gates

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

MOST_RIDGE_PAIRS = 20_000  # λ is chosen on a sample of this many
FEW = 24  # rubrics a prompt, at most, where judging costs
MOST_GATES = 4  # topics of a prompt that a solution sees
PROMPTS_A_GROUP = 40  # no more groups than this allows
GROUPS = (1, 2, 4, 8, 16, 32, 64)
PENALTIES = ((0.3, 0.0), (0.1, 0.0), (0.6, 0.3), (1.0, 0.2))  # by topic and in common (0: nothing), in noise units
SURE = 1.0  # standard errors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What a structure is chosen on: z (pair, rubric), the prompt row of each pair, prompts' words and mined rubrics.

    `z`, `features` (prompt, feature) and `mined` (prompt, rubric) are sparse; `mined` is None where nothing is known,
    and so is `source` (pair,), the number of each pair's source.
    """

    z: Any
    prompt: Ints
    features: Any
    mined: Any
    alike: Any
    source: Ints | None = None


def choose(evidence: Evidence, top_ks: Sequence[int], *, most_groups: int, diversity: float, seed: int) -> Choice:
    """Return the structure to take; `most_groups` bounds the groups, `top_ks` are the numbers of rubrics to choose from."""
    folds = folds_of(evidence.prompt, evidence.source, np.random.default_rng([seed, 7]))
    parts = [_Fold(evidence, folds, held, seed) for held in range(folds.count)]
    sizes = _sizes(parts[0].found, len(np.unique(folds.prompt)), most_groups)
    grid = [(size, *penalty) for size in sizes for penalty in PENALTIES]
    ridge = _ridge(evidence, folds, top_ks, seed)
    points = np.zeros((len(grid) + (ridge is not None), len(top_ks), len(folds.used)))
    for part in parts:
        points[: len(grid), :, part.outside] = part.points(grid, top_ks, diversity)
        if ridge is not None:
            points[-1, :, part.outside] = part.common_points(ridge.taken, top_ks).T
    structures = [
        Structure(groups=size, sparsity=own, common=common, top_k=k) for size, own, common in grid for k in top_ks
    ] + [_common(ridge.taken, k) for k in top_ks if ridge is not None]
    chosen = _chosen(structures, folds.averaged(points.reshape(len(structures), -1)), folds.left_out)
    return replace(chosen, ridges=_ridge_trials(ridge, max(top_ks)))


def _ridge(evidence: Evidence, folds: Folds, top_ks: Sequence[int], seed: int) -> Ridge | None:
    """Return how much to shrink one weight a rubric; None where it is no candidate."""
    if evidence.z.shape[1] > MOST_RUBRICS or (folds.source is None and min(top_ks) <= FEW):
        return None
    source, rng = evidence.source, np.random.default_rng([seed, 8])
    alike = np.zeros(len(evidence.prompt), np.int64) if source is None else source
    rows = even_rows(alike, MOST_RIDGE_PAIRS, rng)
    return chosen_ridge(evidence.z[rows], None if source is None else source[rows], evidence.prompt[rows], seed)


def _common(ridge: float, top_k: int) -> Structure:
    return Structure(solver="moments", ridge=ridge, sparsity=0.0, top_k=top_k)


def _ridge_trials(ridge: Ridge | None, top_k: int) -> tuple[Trial, ...]:
    """Return what was tried to choose λ, with all rubrics at once."""
    found = () if ridge is None else zip(RIDGES, ridge.accuracy, ridge.error, strict=True)
    return tuple(Trial(structure=_common(value, top_k), accuracy=mean, error=error) for value, mean, error in found)


class _Fold:
    """One fold: what was learned inside, and how candidates do outside."""

    def __init__(self, evidence: Evidence, folds: Folds, held: int, seed: int) -> None:
        self.inside, self.outside = folds.inside(held), folds.outside(held)
        self._evidence, self._used, self._seed = evidence, folds.used, seed
        prompts = np.unique(folds.prompt[self.inside])
        self._features = evidence.features[prompts]
        mined = None if evidence.mined is None else evidence.mined[prompts]
        self._association = associate(self._features, mined)
        self.found = self._association.found if self._association else 0

    def gates(self, groups: int) -> Floats:
        """Return the gates of all used pairs by groups that were found inside."""
        rows = self._evidence.prompt[self._used]
        if groups == 1 or self._association is None:
            return np.ones((len(rows), 1))
        return softmax(
            self._evidence.features[rows] @ word_scores(self._association, self._features, groups, self._seed)
        )

    def points(self, grid: Sequence[tuple[int, float, float]], top_ks: Sequence[int], diversity: float) -> Floats:
        """Return the points of each candidate and number of rubrics on the pairs outside (candidate, k, pair)."""
        sizes = list(dict.fromkeys(size for size, _, _ in grid))
        gates = [self.gates(size) for size in sizes]
        z = self._evidence.z[self._used]
        batch = batch_of(
            z[self.inside], [sparse_gates(each[self.inside], MOST_GATES) for each in gates], alike=self._evidence.alike
        )
        problems = [
            Problem(gates=sizes.index(size), penalties=Penalties(sparsity=own, common=common, diversity=diversity))
            for size, own, common in grid
        ]
        outside = z[self.outside].toarray()
        return np.stack(
            [
                used_points(gates[problem.gates][self.outside], effects, outside, top_ks)
                for problem, effects in zip(problems, solutions(batch, problems), strict=True)
            ]
        )

    def common_points(self, ridge: float, top_ks: Sequence[int]) -> Floats:
        """Return the points of one weight a rubric for each number of rubrics (k, pair)."""
        rows = self._used[self.inside]
        source = None if self._evidence.source is None else self._evidence.source[rows]
        moments = moments_of(self._evidence.z[rows], source, self._evidence.prompt[rows])
        outside = self._evidence.z[self._used[self.outside]].toarray()
        return used_points(np.ones((len(outside), 1)), weights(moments, [ridge]), outside, top_ks)


def used_points(gates: Floats, effects: npt.NDArray[np.floating], z: Floats, top_ks: Sequence[int]) -> Floats:
    """Return 1, ½ or 0 for each number of rubrics and pair (k, pair): F of the best k of the whole bank; not judged: 0.

    `gates` (pair, topic), `effects` (topic, rubric), `z` (pair, rubric).
    """
    score = gates @ effects
    most = min(max(top_ks), score.shape[1])
    best = np.argpartition(-score, most - 1, axis=1)[:, :most]
    order = np.argsort(-np.take_along_axis(score, best, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, axis=1)
    margins = np.cumsum(np.take_along_axis(score, best, axis=1) * np.take_along_axis(z, best, axis=1), axis=1)
    return np.stack([0.5 + 0.5 * np.sign(margins[:, min(k, most) - 1]) for k in top_ks])


def _chosen(structures: Sequence[Structure], points: Floats, left_out: LeftOut) -> Choice:
    """Return the simplest structure within a standard error of the best, by differences pair by pair (or source)."""
    mean, count = points.mean(axis=1), max(1, points.shape[1])
    best = int(mean.argmax())
    lost = points[best] - points
    error = lost.std(axis=1) / np.sqrt(count)
    near = np.flatnonzero(mean[best] - mean <= SURE * error)
    taken = _simplest(structures, mean, near, left_out)
    trials = tuple(
        Trial(structure=each, accuracy=float(mean[row]), error=float(points[row].std() / np.sqrt(count)))
        for row, each in enumerate(structures)
    )
    return Choice(structure=structures[taken], trials=trials, left_out=left_out)


def _simplest(structures: Sequence[Structure], mean: Floats, near: Ints, left_out: LeftOut) -> int:
    """Return the candidate to take: the fewest groups, then the solver, then what is shrunken most.

    The solver is that of the better candidate; of those that left out sources do not tell apart, that which doubts
    where sources disagree.
    """
    least = min(structures[row].groups for row in near)
    rows = [int(row) for row in near if structures[row].groups == least]
    found = {structures[row].solver for row in rows}
    doubting = left_out == "sources" and "moments" in found
    solver = "moments" if doubting else structures[max(rows, key=lambda row: mean[row])].solver
    same = [row for row in rows if structures[row].solver == solver]
    return min(same, key=lambda row: (*_complexity(structures[row]), -mean[row]))


def _complexity(structure: Structure) -> tuple[float, ...]:
    return -structure.sparsity, -structure.ridge, structure.top_k


def _sizes(found: int, prompts: int, most: int) -> list[int]:
    """Return the numbers of groups to try: powers of two, and one more than the directions that stand out."""
    room = max(1, min(most, prompts // PROMPTS_A_GROUP))
    wanted = {*GROUPS, found + 1, (found + 1) * 2 // 3} if found else {1, 2, 4}
    return sorted({size for size in wanted if 1 <= size <= min(room, max(2, 2 * (found + 1)))})
