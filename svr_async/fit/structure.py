"""Which structure the data want: groups of prompts or none, how many, how sparse, how much in common, how many rubrics.

Whether a rubric holds for every prompt alike or for each kind of prompt apart differs from data set to data set, and
so does how much there is to learn. Each candidate is fitted on three quarters of the training prompts and decides the
other quarter as a bank would: by the best rubrics of the whole bank for each prompt, of which those that were not
judged on a pair say nothing. A pair counts 1 where its margin is positive and half where it is 0. Of the candidates
that do as well as the best, but for a third of a standard error, the simplest is taken: fewer groups, then less of its
own, then fewer rubrics a prompt; others within a standard error are averaged with it.

One shrunken mean z a rubric (`fit.shrinkage`) is the simplest of all where pairs are few; of more it is taken only
where it is the best by itself. Where pairs come from several sources, sources are left out instead of prompts
(`fit.folds`), and count the same. One weight a rubric, in common to all sources (`fit.common`), is a candidate there,
and where a prompt gets many rubrics; it is taken among near-equals where sources are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.choices import Choice, LeftOut, Structure, Trial
from svr_async.fit.common import MOST_RUBRICS, RIDGES, Ridge, chosen_ridge, moments_of, weights
from svr_async.fit.evidence import FEW, Evidence
from svr_async.fit.folds import Folds, even_rows, folds_of
from svr_async.fit.group_count import ONE, parts_of, told_size
from svr_async.fit.grouping import Association, Size, View
from svr_async.fit.problems import Penalties, Problem, batch_of, solutions, sparse_gates
from svr_async.fit.shrinkage import one_weight
from svr_async.fit.threads import in_threads, rows_of
from svr_async.fit.trained_groups import TrainedGroups, association_of, trained_groups

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

MOST_RIDGE_PAIRS = 20_000  # λ is chosen on a sample of this many
FEW_PAIRS = 400  # below which one shrunken weight a rubric counts as the simplest structure
MOST_CELLS = 1 << 23  # pairs times rubrics that are looked at at a time
MOST_GATES = 4  # topics of a prompt that a solution sees
PENALTIES = ((0.3, 0.0), (0.1, 0.0), (0.6, 0.3), (1.0, 0.2))  # by topic and in common (0: nothing), in noise units
SURE, SURE_OF_SOURCES = 0.3, 1.0  # standard errors within which the simplest is taken; sources are few
NEAR = 1.0  # within which others are averaged with it
AVERAGED = 4  # structures at the most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """What words tell of the kinds of prompts: the size that tells most, and the folds that a choice leaves out.

    `told` is how words go with what was mined, in the view of the size, by fold where prompts are left out; else empty.
    """

    best: Size
    folds: Folds
    told: tuple[Association | None, ...] = ()


def kinds_of(evidence: Evidence, *, most: int, seed: int) -> Kinds:
    """Return what words tell, with up to `most` groups, of prompts that are left out as `choose` leaves them out."""
    folds = folds_of(evidence.prompt, evidence.source, np.random.default_rng([seed, 7]))
    prompts = np.unique(evidence.prompt)
    views = {name: view[prompts] for name, view in evidence.views.items()}
    fold = folds.by_prompt(prompts) if folds.source is None else None
    parts = parts_of(evidence.features[prompts], views, seed=seed, fold=fold)
    best = told_size(parts, most)
    told = () if fold is None else tuple(part.associations[best.view] for part in parts)
    return Kinds(best=best, folds=folds, told=told)


def choose(evidence: Evidence, top_ks: Sequence[int], *, kinds: Kinds, diversity: float, seed: int) -> Choice:
    """Return the structure to take; `top_ks` are the numbers of rubrics to try."""
    folds, used = kinds.folds, evidence.part(kinds.folds.used)
    parts = [_Fold(used, kinds, held, seed) for held in range(folds.count)]
    ridge = _ridge(evidence, folds, top_ks, seed)
    forms = [
        Structure(groups=size.groups, directions=size.directions, view=size.view, sparsity=own, common=common)
        for size in _sizes(kinds.best)
        for own, common in PENALTIES
    ]
    forms += [Structure(solver="shrunken", sparsity=0.0)] + ([] if ridge is None else [_common(ridge.taken)])
    points = np.zeros((len(forms), len(top_ks), len(folds.used)))
    for part, found in zip(parts, in_threads(lambda part: part.points(forms, top_ks, diversity), parts), strict=True):
        points[:, :, part.outside] = found
    structures = [replace(form, top_k=k) for form in forms for k in top_ks]
    few = len(folds.used) < FEW_PAIRS
    chosen = _chosen(structures, folds.averaged(points.reshape(len(structures), -1)), folds.left_out, few=few)
    return replace(chosen, ridges=_ridge_trials(ridge, max(top_ks)))


def _ridge(evidence: Evidence, folds: Folds, top_ks: Sequence[int], seed: int) -> Ridge | None:
    """Return how much to shrink one weight a rubric; None where it is no candidate."""
    if evidence.z.shape[1] > MOST_RUBRICS or (folds.source is None and min(top_ks) <= FEW):
        return None
    source, rng = evidence.source, np.random.default_rng([seed, 8])
    alike = np.zeros(len(evidence.prompt), np.int64) if source is None else source
    rows = even_rows(alike, MOST_RIDGE_PAIRS, rng)
    return chosen_ridge(evidence.z[rows], None if source is None else source[rows], evidence.prompt[rows], seed)


def _common(ridge: float, top_k: int = 6) -> Structure:
    return Structure(solver="moments", ridge=ridge, sparsity=0.0, top_k=top_k)


def _ridge_trials(ridge: Ridge | None, top_k: int) -> tuple[Trial, ...]:
    """Return what was tried to choose λ, with all rubrics at once."""
    found = () if ridge is None else zip(RIDGES, ridge.accuracy, ridge.error, strict=True)
    return tuple(Trial(structure=_common(value, top_k), accuracy=mean, error=error) for value, mean, error in found)


class _Fold:
    """One fold of the pairs that are tried: what was learned inside, and how candidates do outside."""

    def __init__(self, evidence: Evidence, kinds: Kinds, held: int, seed: int) -> None:
        self.inside, self.outside = kinds.folds.inside(held), kinds.folds.outside(held)
        self._evidence, self._seed = evidence, seed
        self._told = kinds.told[held : held + 1]
        self._prompts = np.unique(evidence.prompt[self.inside])

    def points(self, forms: Sequence[Structure], top_ks: Sequence[int], diversity: float) -> Floats:
        """Return the points of each form and number of rubrics on the pairs outside (form, k, pair)."""
        sizes = dict.fromkeys(form.size for form in forms)
        told = self._association(next((size.view for size in sizes if size.groups > 1), None))
        topics = {size.groups: self._trained(size, told if size.groups > 1 else None) for size in sizes}
        solved = self._solved([form for form in forms if form.solver == "margin"], topics, diversity)
        unseen = self._evidence.features[self._evidence.prompt[self.outside]]
        gates = {size: each.groups.gates(unseen) for size, each in topics.items()}
        outside = self._evidence.z[self.outside].tocsc()
        out = np.zeros((len(forms), len(top_ks), outside.shape[0]))
        for row, form in enumerate(forms):
            effects = next(solved) if form.solver == "margin" else self._one_weight(form)
            out[row] = self._decided(form, gates[form.groups], np.asarray(effects, np.float64), outside, top_ks)
        return out

    def _decided(self, form: Structure, gates: Floats, effects: Floats, z: Any, top_ks: Sequence[int]) -> Floats:
        """Return the points of one form (k, pair); criteria of several wordings are spread for each k apart."""
        criteria = self._evidence.criteria
        if form.solver != "margin" or criteria.count == z.shape[1]:
            return used_points(gates, effects, z, top_ks)
        return np.concatenate([used_points(gates, criteria.spread(effects, k), z, [k]) for k in top_ks])

    def _association(self, view: View | None) -> Association | None:
        """Return how words go with what was mined inside, in the one view of all sizes that have groups."""
        if view is None or self._told:
            return self._told[0] if view else None
        return association_of(self._evidence.features, self._evidence.views, self._prompts, view)

    def _trained(self, size: Size, found: Association | None) -> TrainedGroups:
        evidence, prompts = self._evidence, self._prompts
        return trained_groups(found, evidence.features, evidence.views, evidence.mined, prompts, size, self._seed)

    def _solved(self, forms: Sequence[Structure], topics: dict[int, TrainedGroups], diversity: float) -> Any:
        """Yield the effects by criterion of each form, all solved in one batch."""
        sizes, rows = list(topics), self.inside
        inside = self._evidence.merged[rows]
        held = [
            sparse_gates(each.likely[self._evidence.prompt[rows]], MOST_GATES, price=each.price)
            for each in topics.values()
        ]
        batch = batch_of(inside, held, alike=self._evidence.alike)
        problems = [
            Problem(gates=sizes.index(form.groups), penalties=penalties_of(form, diversity=diversity)) for form in forms
        ]
        return iter(solutions(batch, problems))

    def _one_weight(self, form: Structure) -> Floats:
        """Return the effects of one topic (1, rubric) that need no groups."""
        rows = self.inside
        if form.solver == "shrunken":
            return one_weight(self._evidence.z[rows])
        source = None if self._evidence.source is None else self._evidence.source[rows]
        return weights(moments_of(self._evidence.z[rows], source, self._evidence.prompt[rows]), [form.ridge])


def penalties_of(form: Structure, *, diversity: float) -> Penalties:
    """Return the penalties of a structure that is solved by the margin loss."""
    return Penalties(sparsity=form.sparsity, common=form.common, diversity=diversity)


def used_points(gates: Floats, effects: Floats, z: Any, top_ks: Sequence[int]) -> Floats:
    """Return 1, ½ or 0 by k and pair (k, pair): F of the best k of the whole bank, of which those not judged say 0.

    `gates` (pair, topic) with rows of sum 1, `effects` (topic, rubric), sparse `z` (pair, rubric).
    """
    some = np.flatnonzero(effects.any(axis=0))  # the others say 0
    if not len(some):
        return np.full((len(top_ks), z.shape[0]), 0.5)
    block = z.shape[0] if z.shape[0] * len(some) <= MOST_CELLS else max(1, MOST_CELLS // len(some))
    said, kept = z[:, some].tocsr(), effects[:, some]
    parts = [_points(gates[rows], kept, said[rows], top_ks) for rows in rows_of(z.shape[0], block)]
    return np.concatenate(parts, axis=1)


def _points(gates: Floats, effects: Floats, z: Any, top_ks: Sequence[int]) -> Floats:
    """Return the points (k, pair) of a few pairs, by effects that are not 0 for all topics."""
    most = min(max(top_ks), effects.shape[1])
    best, held = _ranked(gates[:1] if gates.shape[1] == 1 else gates, effects, most)
    said = np.take_along_axis(z.toarray(), np.broadcast_to(best, (z.shape[0], most)), axis=1)
    margins = (held * said).cumsum(axis=1)
    return np.stack([0.5 + 0.5 * np.sign(margins[:, min(top_k, most) - 1]) for top_k in top_ks])


def _ranked(gates: Floats, effects: Floats, most: int) -> tuple[Ints, Floats]:
    """Return which rubrics have the highest scores and what these are, (row, most) each, the highest first."""
    score = np.maximum(gates.astype(np.float32) @ effects.astype(np.float32), 0)
    best = np.argpartition(score, -most, axis=1)[:, -most:]
    held = np.take_along_axis(score, best, axis=1)
    order = np.argsort(-held, axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(held, order, axis=1)


def _chosen(structures: Sequence[Structure], points: Floats, left_out: LeftOut, *, few: bool) -> Choice:
    """Return the simplest structure as good as the best, by differences pair by pair (or source), and others."""
    mean, count = points.mean(axis=1), max(1, points.shape[1])
    best = int(mean.argmax())
    error = (points[best] - points).std(axis=1) / np.sqrt(count)
    behind = (mean[best] - mean) / np.maximum(error, 1e-12)
    sure = SURE if left_out == "prompts" else SURE_OF_SOURCES
    taken = _simplest(structures, mean, [*{best, *np.flatnonzero(behind <= sure).tolist()}], left_out, few=few)
    trials = tuple(
        Trial(structure=each, accuracy=float(mean[row]), error=float(points[row].std() / np.sqrt(count)))
        for row, each in enumerate(structures)
    )
    beside = _beside(structures, mean, behind, taken) if left_out == "prompts" else []
    return Choice(
        structure=structures[taken],
        beside=tuple(structures[row] for row in beside),
        trials=trials,
        left_out=left_out,
    )


def _beside(structures: Sequence[Structure], mean: Floats, behind: Floats, taken: int) -> list[int]:
    """Return what is averaged with the structure taken: the best others near the best, as many rubrics, same solver."""
    one = structures[taken]
    near = [
        row
        for row in np.flatnonzero(behind <= NEAR).tolist()
        if row != taken and (structures[row].top_k, structures[row].solver) == (one.top_k, "margin")
    ]
    return sorted(near, key=lambda row: -mean[row])[: AVERAGED - 1] if one.solver == "margin" else []


def _simplest(structures: Sequence[Structure], mean: Floats, near: list[int], left_out: LeftOut, *, few: bool) -> int:
    """Return the candidate to take: the fewest groups, then the solver, then what is shrunken most.

    The solver is that of the better candidate; where pairs are few, the shrunken mean; of those that left out sources
    do not tell apart, that which doubts where sources disagree.
    """
    least = min(structures[row].groups for row in near)
    rows = [row for row in near if structures[row].groups == least]
    found = {structures[row].solver for row in rows}
    wanted = "moments" if left_out == "sources" else "shrunken" if few else ""
    solver = wanted if wanted in found else structures[max(rows, key=lambda row: mean[row])].solver
    same = [row for row in rows if structures[row].solver == solver]
    return min(same, key=lambda row: (*_complexity(structures[row]), -mean[row]))


def _complexity(structure: Structure) -> tuple[float, ...]:
    return -structure.sparsity, -structure.ridge, structure.top_k


def _sizes(best: Size) -> list[Size]:
    """Return the sizes to try: no groups, as many as what was mined tells apart, and half of them."""
    half = replace(best, groups=best.groups // 2, directions=max(1, best.directions // 2))
    return [ONE, *([half] if half.groups > 1 else []), *([best] if best.groups > 1 else [])]
