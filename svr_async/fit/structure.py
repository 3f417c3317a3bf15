"""Choose the default's structure by cross-validation: clusters of prompts, sparsity, and rubrics per prompt.

Whether a rubric matters for all prompts or for one kind differs between data sets, and so does how much can be learned.
Each candidate is fitted on three quarters of the training prompts and decides the other quarter as a bank would: by the
best rubrics of the whole bank for each prompt, where those not judged on a pair say nothing. A pair counts 1 if its
margin is positive and half if it is 0. Of candidates within a third of a standard error of the best, the simplest is
taken: fewer clusters, then sparser, then fewer rubrics per prompt. Others within a standard error are averaged with it.

One shrunken mean z per rubric is the simplest candidate if pairs are few; otherwise it has to be the best by itself. It
is not tried where pairs were judged on few of a criterion's wordings: the others say nothing there, so effects on all
of them look better than effects on the best.
If a large share of entries is judged, or judging is free, candidates include one weight per rubric without an L1 term
(nonnegative logistic regression) and larger numbers of rubrics, up to all.

If pairs come from several sources, sources are left out instead of prompts and count the same: a bank is then mostly
asked about other sources. A prompt of a left-out source is not learned from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.config import Choice, LeftOut, Structure, Trial
from svr_async.fit.evidence import FEW, Evidence
from svr_async.fit.margin_solver import Problem, solve
from svr_async.fit.paraphrase_clusters import judged_of
from svr_async.fit.prompt_clusters import (
    ONE,
    Association,
    Size,
    TrainedClusters,
    associate,
    held_out_parts,
    most_likely_size,
    train_clusters,
)
from svr_async.fit.ragged import in_threads, rows_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

FOLDS = 4  # more sources than that are left out several at a time
MOST_PAIRS = 8000  # tried on a sample of this many pairs
MOST_ENTRIES = 1_000_000  # and of this many judged entries
FEW_PAIRS = 400  # below which one shrunken weight per rubric counts as the simplest structure
MOST_CELLS = 1 << 23  # pairs times rubrics processed at a time
MOST_TOPICS = 4  # topics per prompt that a solution sees
LEAST_MIXTURE = 0.02  # of a prompt's largest mixture weight; smaller ones are dropped
PENALTIES = ((0.3, 0.0), (0.1, 0.0), (0.6, 0.3), (1.0, 0.2))  # by topic and in common (0: none), in noise units
SURE, SURE_OF_SOURCES = 0.3, 1.0  # standard errors within which the simplest is taken; sources are few
NEAR = 1.0  # standard errors within which others are averaged with it
AVERAGED = 4  # structures at most
OPEN_SHARE = 0.8  # share of judged entries from which more rubrics per prompt are tried; pools stay below
WORDINGS_JUDGED = 0.5  # share of the wordings of judged criteria, below which shrunken means are not tried
LEAST_PAIRS = 30  # of a source that is left out
LEAST_SOURCES = 3  # fewer do not show what sources have in common
SHRINKAGE = 100.0  # of mean z, in judgements


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folds:
    """The rows of the evidence that are tried (pair,), the prompt and source of each, and the fold that leaves it out.

    A fold of −1 is never left out. `source` is None if prompts are left out.
    """

    used: Ints
    prompt: Ints
    source: Ints | None
    fold: Ints

    @property
    def count(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @property
    def left_out(self) -> LeftOut:
        """Return whether prompts or sources are left out."""
        return "prompts" if self.source is None else "sources"

    def inside(self, held: int) -> Ints:
        """Return the places of the pairs to learn from, without prompts that are left out."""
        kept = self.fold != held
        if self.source is not None:
            kept &= ~np.isin(self.prompt, self.prompt[~kept])
        return np.flatnonzero(kept)

    def by_prompt(self, prompts: Ints) -> Ints:
        """Return the fold that leaves out each of some prompts, or −1."""
        fold = np.full(int(prompts.max(initial=0)) + 1, -1)
        fold[self.prompt] = self.fold
        return cast("Ints", fold[prompts])

    def averaged(self, points: Floats) -> Floats:
        """Return the points (candidate, pair) as they count: by pair, or the mean of each left-out source."""
        if self.source is None:
            return points
        names = np.unique(self.source[self.fold >= 0])
        return np.stack([points[:, self.source == name].mean(axis=1) for name in names], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptKinds:
    """The size of clusters that predicts best, and the folds that the choice leaves out.

    `associations` has one for each fold if prompts are left out; else it is empty.
    """

    best: Size
    folds: Folds
    associations: tuple[Association | None, ...] = ()


def prompt_kinds(evidence: Evidence, *, most: int, seed: int) -> PromptKinds:
    """Return what words tell about held-out prompts, with up to `most` clusters."""
    pairs = min(MOST_PAIRS, max(1, MOST_ENTRIES * len(evidence.prompt) // max(1, evidence.z.nnz)))
    folds = folds_of(evidence.prompt, evidence.source, np.random.default_rng([seed, 7]), pairs)
    prompts = np.unique(evidence.prompt)
    views = {name: view[prompts] for name, view in evidence.views.items()}
    fold = folds.by_prompt(prompts) if folds.source is None else None
    parts = held_out_parts(evidence.features[prompts], views, seed=seed, fold=fold)
    best = most_likely_size(parts, most)
    associations = () if fold is None else tuple(part.associations[best.view] for part in parts)
    return PromptKinds(best=best, folds=folds, associations=associations)


def choose(evidence: Evidence, top_ks: Sequence[int], *, kinds: PromptKinds, seed: int) -> Choice:
    """Return the structure to take; `top_ks` are the numbers of rubrics per prompt to try."""
    folds, used = kinds.folds, evidence.part(kinds.folds.used)
    top_ks = top_k_steps(evidence, top_ks)
    forms = [
        Structure(groups=size.groups, view=size.view, sparsity=own, common=common)
        for size in _sizes(kinds.best)
        for own, common in PENALTIES
    ]
    few, possible = len(folds.used) < FEW_PAIRS, np.bincount(used.paraphrases.of)[used.merged.indices].sum()
    if few or used.z.nnz > WORDINGS_JUDGED * possible:
        forms.append(Structure(solver="shrunken", sparsity=0.0))
    if max(top_ks) > FEW or folds.source is not None:
        forms.append(Structure(sparsity=0.0))
    points = np.zeros((len(forms), len(top_ks), len(folds.used)))
    parts = [_Fold(used, kinds, held, seed) for held in range(folds.count)]
    for part, found in zip(parts, in_threads(lambda part: part.points(forms, top_ks), parts), strict=True):
        points[:, :, part.outside] = found
    structures = [replace(form, top_k=k) for form in forms for k in top_ks]
    counted = folds.averaged(points.reshape(len(structures), -1))
    return _chosen(structures, counted, folds.left_out, few=few)


def top_k_steps(evidence: Evidence, top_ks: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of rubrics per prompt to try; several double up to all if entries are dense."""
    pairs, rubrics = evidence.z.shape
    steps = [*top_ks]
    if len(steps) > 1 and evidence.z.nnz >= OPEN_SHARE * pairs * rubrics:
        while steps[-1] < rubrics:
            steps.append(min(2 * steps[-1], rubrics))
    return tuple(steps)


def keep_largest(mixture: Floats) -> Floats:
    """Return the `MOST_TOPICS` largest mixture weights of each row that matter, scaled to sum 1, the others 0."""
    kept = np.where(mixture >= LEAST_MIXTURE * mixture.max(axis=1, keepdims=True), mixture, 0)
    if kept.shape[1] > MOST_TOPICS:
        least = np.partition(kept, -MOST_TOPICS, axis=1)[:, -MOST_TOPICS, None]
        kept = np.where(kept >= least, kept, 0)
    return cast("Floats", kept / kept.sum(axis=1, keepdims=True))


def shrunken_means(z: Any, mixture: Floats) -> Floats:
    """Return the means of z by topic (topic, rubric) where positive: Σ mixture · z / (Σ mixture · judged + κ)."""
    means = np.asarray((z.T @ mixture).T) / (np.asarray((judged_of(z).T @ mixture).T) + SHRINKAGE)
    return cast("Floats", np.maximum(means, 0))


def used_points(mixture: Floats, effects: Floats, z: Any, top_ks: Sequence[int]) -> Floats:
    """Return 1, ½ or 0 (k, pair): F of the best k rubrics of the whole bank, where those not judged count 0.

    `mixture` (pair, topic) has rows of sum 1, `effects` is (topic, rubric), `z` sparse (pair, rubric).
    """
    some = np.flatnonzero(effects.any(axis=0))
    if not len(some):
        return np.full((len(top_ks), z.shape[0]), 0.5)
    block = max(1, min(z.shape[0], MOST_CELLS // len(some)))
    said, kept = z[:, some].tocsr(), effects[:, some]
    parts = [_points(mixture[rows], kept, said[rows], top_ks) for rows in rows_of(z.shape[0], block)]
    return np.concatenate(parts, axis=1)


def folds_of(prompt: Ints, source: Ints | None, rng: np.random.Generator, most: int = MOST_PAIRS) -> Folds:
    """Return folds of a sample of the pairs: by sources if `LEAST_SOURCES` are large enough, else by prompts."""
    count, large = len(prompt), large_sources(source)
    if source is not None and len(large) >= LEAST_SOURCES:
        used = even_rows(source, most, rng)
        return Folds(used=used, prompt=prompt[used], source=source[used], fold=_dealt(source[used], large))
    used = np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
    prompts = np.unique(prompt[used])
    fold = np.full(int(prompt.max(initial=0)) + 1, -1)
    fold[prompts] = rng.permutation(np.arange(len(prompts)) % FOLDS)
    return Folds(used=used, prompt=prompt[used], source=None, fold=fold[prompt[used]])


def large_sources(source: Ints | None) -> Ints:
    """Return the numbers of the sources with at least `LEAST_PAIRS` pairs; empty if sources are unknown."""
    if source is None:
        return np.zeros(0, np.int64)
    names, count = np.unique(source, return_counts=True)
    return names[count >= LEAST_PAIRS]


def even_rows(source: Ints, most: int, rng: np.random.Generator) -> Ints:
    """Return a sample of at most `most` pairs in which sources have equal shares, as far as they have the pairs."""
    rows = [np.flatnonzero(source == name) for name in np.unique(source)]
    room, share = most, 1
    for place, size in enumerate(sorted(map(len, rows))):
        share = max(1, room // (len(rows) - place))
        room -= min(size, share)
    drawn = [part if len(part) <= share else rng.choice(part, share, replace=False) for part in rows]
    return np.sort(np.concatenate(drawn))


def _dealt(source: Ints, large: Ints) -> Ints:
    """Return the fold of each pair: sources are dealt, the largest first, to the fold with the fewest pairs."""
    sizes = np.array([int((source == name).sum()) for name in large])
    held = np.zeros(min(FOLDS, len(large)), np.int64)
    out = np.full(len(source), -1)
    for place in np.argsort(-sizes, kind="stable"):
        fold = int(held.argmin())
        out[source == large[place]] = fold
        held[fold] += sizes[place]
    return out


class _Fold:
    """One fold: the candidates fitted inside, and how they decide outside."""

    def __init__(self, evidence: Evidence, kinds: PromptKinds, held: int, seed: int) -> None:
        self.inside, self.outside = kinds.folds.inside(held), np.flatnonzero(kinds.folds.fold == held)
        self._evidence, self._seed = evidence, seed
        self._known = kinds.associations[held : held + 1]
        self._prompts = np.unique(evidence.prompt[self.inside])

    def points(self, forms: Sequence[Structure], top_ks: Sequence[int]) -> Floats:
        """Return the points of each form and number of rubrics on the pairs outside (form, k, pair)."""
        evidence = self._evidence
        clusters = self._clusters(list(dict.fromkeys(form.size for form in forms)))
        solved = iter(self._solved([form for form in forms if form.solver == "margin"], clusters))
        unseen = evidence.features[evidence.prompt[self.outside]]
        mixtures = {size: each.clusters.mixture_weights(unseen) for size, each in clusters.items()}
        z = evidence.z[self.outside].tocsc()
        out = np.zeros((len(forms), len(top_ks), z.shape[0]))
        for row, form in enumerate(forms):
            if form.solver == "shrunken":
                effects = shrunken_means(evidence.merged[self.inside], np.ones((len(self.inside), 1)))
            else:
                effects = next(solved)
            out[row] = self._decided(mixtures[form.size], effects, z, top_ks)
        return out

    def _decided(self, mixture: Floats, effects: Floats, z: Any, top_ks: Sequence[int]) -> Floats:
        """Return the points (k, pair) of effects by cluster; wordings share places differently for each k."""
        spread = self._evidence.paraphrases.spread
        if effects.shape[1] == z.shape[1]:
            return used_points(mixture, effects, z, top_ks)
        return np.concatenate([used_points(mixture, spread(effects, k), z, [k]) for k in top_ks])

    def _clusters(self, sizes: Sequence[Size]) -> dict[Size, TrainedClusters]:
        """Return the clusters of each size, learned inside."""
        evidence, prompts = self._evidence, self._prompts
        views, features = evidence.views, evidence.features
        view = max(sizes, key=lambda size: size.groups).view  # one for all that have several clusters
        found = None
        if view in views:
            found = self._known[0] if self._known else associate(features[prompts], views[view][prompts])
        return {
            size: train_clusters(found, features, views, evidence.mined, prompts, size, self._seed) for size in sizes
        }

    def _solved(self, forms: Sequence[Structure], clusters: dict[Size, TrainedClusters]) -> list[Floats]:
        """Return the effects by cluster of rubrics (topic, cluster) of each form, all solved in one batch."""
        rows = self._evidence.prompt[self.inside]
        mixture = {size: keep_largest(each.posterior[rows]) for size, each in clusters.items()}
        problems = [
            Problem(mixture[form.size], form.sparsity, form.common, clusters[form.size].price) for form in forms
        ]
        return solve(self._evidence.merged[self.inside], problems)


def _points(mixture: Floats, effects: Floats, z: Any, top_ks: Sequence[int]) -> Floats:
    """Return the points (k, pair) of a few pairs, given effects that are not 0 for all topics."""
    most = min(max(top_ks), effects.shape[1])
    best, held = _ranked(mixture[:1] if mixture.shape[1] == 1 else mixture, effects, most)
    said = np.take_along_axis(z.toarray(), np.broadcast_to(best, (z.shape[0], most)), axis=1)
    margins = (held * said).cumsum(axis=1)
    return np.stack([0.5 + 0.5 * np.sign(margins[:, min(top_k, most) - 1]) for top_k in top_ks])


def _ranked(mixture: Floats, effects: Floats, most: int) -> tuple[Ints, Floats]:
    """Return the rubrics with the highest scores and these scores, (row, most) each, the highest first."""
    score = np.maximum(mixture.astype(np.float32) @ effects.astype(np.float32), 0)
    best = np.argpartition(score, -most, axis=1)[:, -most:]
    held = np.take_along_axis(score, best, axis=1)
    order = np.argsort(-held, axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(held, order, axis=1)


def _chosen(structures: Sequence[Structure], points: Floats, left_out: LeftOut, *, few: bool) -> Choice:
    """Return the simplest structure as good as the best, by differences per pair (or source), and others."""
    mean, count = points.mean(axis=1), max(1, points.shape[1])
    best = int(mean.argmax())
    error = (points[best] - points).std(axis=1) / np.sqrt(count)
    behind = (mean[best] - mean) / np.maximum(error, 1e-12)
    sure = SURE if left_out == "prompts" else SURE_OF_SOURCES
    taken = _simplest(structures, mean, [*{best, *np.flatnonzero(behind <= sure).tolist()}], few=few)
    trials = tuple(
        Trial(structure=each, accuracy=float(mean[row]), error=float(points[row].std() / np.sqrt(count)))
        for row, each in enumerate(structures)
    )
    averaged = _averaged(structures, mean, behind, taken) if left_out == "prompts" else []
    return Choice(
        structure=structures[taken],
        averaged=tuple(structures[row] for row in averaged),
        trials=trials,
        left_out=left_out,
    )


def _averaged(structures: Sequence[Structure], mean: Floats, behind: Floats, taken: int) -> list[int]:
    """Return the structures averaged with the one taken: the best others near the best, same top_k and solver."""
    one = structures[taken]
    near = [
        row
        for row in np.flatnonzero(behind <= NEAR).tolist()
        if row != taken and (structures[row].top_k, structures[row].solver) == (one.top_k, "margin")
    ]
    return sorted(near, key=lambda row: -mean[row])[: AVERAGED - 1] if one.solver == "margin" else []


def _simplest(structures: Sequence[Structure], mean: Floats, near: list[int], *, few: bool) -> int:
    """Return the candidate to take: the fewest clusters, then the solver, then the sparsest, then the lowest top_k.

    The solver is that of the better candidate, or the shrunken mean if pairs are few.
    """
    least = min(structures[row].groups for row in near)
    rows = [row for row in near if structures[row].groups == least]
    solvers = {structures[row].solver for row in rows}
    best = structures[max(rows, key=lambda row: mean[row])].solver
    solver = "shrunken" if few and "shrunken" in solvers else best
    same = [row for row in rows if structures[row].solver == solver]
    return min(same, key=lambda row: (-structures[row].sparsity, structures[row].top_k, -mean[row]))


def _sizes(best: Size) -> list[Size]:
    """Return the sizes to try: one cluster, as many as predict best, and half of them."""
    half = replace(best, groups=best.groups // 2)
    return [ONE, *(size for size in (half, best) if size.groups > 1)]
