"""Which structure the data want: groups of prompts or none, how many, how sparse, how much in common, how many rubrics.

Whether a rubric holds for every prompt alike or for each kind of prompt apart differs from data set to data set, and so
does how much there is to learn. Each candidate is fitted on three quarters of the training prompts and decides the other
quarter as a bank would: by the best rubrics of the whole bank for each prompt, of which those that were not judged on a
pair say nothing. A pair counts 1 where its margin is positive and half where it is 0. The simplest candidate within one
standard error of the best is taken: fewer groups, then less of its own, then fewer rubrics a prompt. Of few pairs the
simplest is one shrunken mean z a rubric for every prompt; of more it is taken only where it is the best by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.grouping import associate, softmax, word_scores
from svr_async.fit.choices import Choice, Structure, Trial
from svr_async.fit.problems import Penalties, Problem, batch_of, solutions, sparse_gates
from svr_async.fit.shrinkage import one_weight

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

FOLDS = 4
MOST_PAIRS = 8000  # tried on a sample of this many
MOST_GATES = 4  # topics of a prompt that a solution sees
PROMPTS_A_GROUP = 40  # no more groups than this allows
GROUPS = (1, 2, 4, 8, 16, 32, 64)
PENALTIES = ((0.3, 0.0), (0.1, 0.0), (0.6, 0.3), (1.0, 0.2))  # by topic and in common (0: nothing), in noise units
SURE = 1.0  # standard errors
FEW_PAIRS = 400  # below which one shrunken weight a rubric counts as the simplest structure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What a structure is chosen on: z (pair, rubric), the prompt row of each pair, prompts' words and mined rubrics.

    `z`, `features` (prompt, feature) and `mined` (prompt, rubric) are sparse; `mined` is None where nothing is known.
    """

    z: Any
    prompt: Ints
    features: Any
    mined: Any
    alike: Any


def choose(evidence: Evidence, top_ks: Sequence[int], *, most_groups: int, diversity: float, seed: int) -> Choice:
    """Return the structure to take; `most_groups` bounds the groups, `top_ks` are the numbers of rubrics to choose from."""
    rng = np.random.default_rng([seed, 7])
    used = _sample(rng, len(evidence.prompt))
    prompts = np.unique(evidence.prompt[used])
    fold = np.full(evidence.features.shape[0], -1)
    fold[prompts] = rng.permutation(np.arange(len(prompts)) % FOLDS)
    folds = [_Fold(evidence, used, fold[evidence.prompt[used]], held, seed) for held in range(FOLDS)]
    sizes = _sizes(folds[0].found, len(prompts), most_groups)
    grid = [(size, *penalty) for size in sizes for penalty in PENALTIES]
    points = np.zeros((1 + len(grid), len(top_ks), len(used)))
    for held, part in enumerate(folds):
        points[:, :, part.outside] = part.points(grid, top_ks, diversity)
        folds[held] = part
    structures = [Structure(sparsity=0.0, top_k=k, shrunken=True) for k in top_ks]
    structures += [
        Structure(groups=size, sparsity=own, common=common, top_k=k) for size, own, common in grid for k in top_ks
    ]
    return _chosen(structures, points.reshape(len(structures), -1))


class _Fold:
    """One fold: what was learned inside, and how candidates do outside."""

    def __init__(self, evidence: Evidence, used: Ints, fold: Ints, held: int, seed: int) -> None:
        self.inside, self.outside = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        self._evidence, self._used, self._seed = evidence, used, seed
        prompts = np.unique(evidence.prompt[used[self.inside]])
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
        """Return points on the pairs outside (1 + candidate, k, pair); row 0 is one shrunken weight a rubric."""
        sizes = list(dict.fromkeys(size for size, _, _ in grid))
        gates = [self.gates(size) for size in sizes]
        z = self._evidence.z[self._used]
        batch = batch_of(z[self.inside], [sparse_gates(each[self.inside], MOST_GATES) for each in gates], alike=self._evidence.alike)
        problems = [
            Problem(gates=sizes.index(size), penalties=Penalties(sparsity=own, common=common, diversity=diversity))
            for size, own, common in grid
        ]
        outside = z[self.outside].toarray()
        simplest = used_points(np.ones((len(outside), 1)), one_weight(z[self.inside]), outside, top_ks)
        solved = [
            used_points(gates[problem.gates][self.outside], effects, outside, top_ks)
            for problem, effects in zip(problems, solutions(batch, problems), strict=True)
        ]
        return np.stack([simplest, *solved])


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


def _chosen(structures: Sequence[Structure], points: Floats) -> Choice:
    """Return the simplest structure that is within a standard error of the best, by differences pair by pair."""
    mean, count = points.mean(axis=1), max(1, points.shape[1])
    best = int(mean.argmax())
    lost = points[best] - points
    error = lost.std(axis=1) / np.sqrt(count)
    near = np.flatnonzero(mean[best] - mean <= SURE * error).tolist()
    taken = min(near, key=lambda row: _complexity(structures[row], mean[row], few=count < FEW_PAIRS))
    trials = tuple(
        Trial(structure=each, accuracy=float(mean[row]), error=float(points[row].std() / np.sqrt(count)))
        for row, each in enumerate(structures)
    )
    return Choice(structure=structures[taken], trials=trials)


def _complexity(structure: Structure, accuracy: float, *, few: bool) -> tuple[float, ...]:
    return structure.groups, structure.shrunken != few, -structure.sparsity, structure.top_k, -accuracy


def _sizes(found: int, prompts: int, most: int) -> list[int]:
    """Return the numbers of groups to try: powers of two, and one more than the directions that stand out."""
    room = max(1, min(most, prompts // PROMPTS_A_GROUP))
    wanted = {*GROUPS, found + 1, (found + 1) * 2 // 3} if found else {1, 2, 4}
    return sorted({size for size in wanted if 1 <= size <= min(room, max(2, 2 * (found + 1)))})


def _sample(rng: np.random.Generator, count: int) -> Ints:
    return np.arange(count) if count <= MOST_PAIRS else np.sort(rng.choice(count, MOST_PAIRS, replace=False))
