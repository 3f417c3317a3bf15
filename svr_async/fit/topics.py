"""The default selector, solved and not descended: clusters of prompts, and the few rubrics that decide in each.

    mixture(x) = softmax(Σ scores of the words of x + log share)   which words tell a cluster: `fit.prompt_clusters`
    V          = the sparse margin loss solved by cluster          `fit.margin_solver`
    logits     = V · mixture(x),  alpha = their positive part, scaled to sum 1

Rubrics that only go with the label are removed first (`fit.spurious_rubrics`). The number of clusters, how sparse V is,
what clusters share, and how many rubrics a prompt gets are chosen by cross-validation (`fit.structure`), unless the
settings name them.

Alpha is the sparsemax of the logits in units of their sum: numbers >= 0 that sum to 1 are their own projection onto the
simplex. A sparsemax of the logits in a fixed unit would subtract the same amount from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Choice, FitConfig, Structure
from svr_async.fit.evidence import Evidence, drawn, evidence_of, is_asked
from svr_async.fit.forward import Selector
from svr_async.fit.margin_solver import Problem, solve
from svr_async.fit.paraphrase_clusters import judged_of
from svr_async.fit.prompt_clusters import (
    Association,
    PromptClusters,
    Size,
    TrainedClusters,
    View,
    associate,
    train_clusters,
)
from svr_async.fit.spurious_rubrics import spurious_rubrics
from svr_async.fit.structure import (
    LEAST_SOURCES,
    MOST_PAIRS,
    PromptKinds,
    choose,
    even_rows,
    keep_largest,
    large_sources,
    prompt_kinds,
    shrunken_means,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

FIRST_PAIRS = 6000  # spurious rubrics are found on as many as a fold of the cross-validation learns from
FIRST_ENTRIES = 1_000_000  # and on this many judged entries
LEARNING_PROMPTS = 20_000  # clusters are learned on a sample of this many prompts
FIRST_SPARSITY = 0.1  # of the solution in which spurious rubrics are found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """A selector of kind `topics`, and its structure."""

    selector: Selector
    choice: Choice


def solve_topics(train: FitArrays, config: FitConfig) -> Solved:
    """Choose a structure unless the settings name one, and return the selector."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):  # matrices are small, and problems have threads of their own
        learner = _Learner(evidence_of(train, config), config)
        kinds = None if config.structure else prompt_kinds(learner.evidence, most=config.hidden, seed=config.seed)
        size = kinds.best if kinds else cast("Structure", config.structure).size
        evidence, choice = _choice(learner, kinds, size)
        return Solved(selector=_selector(evidence, learner, (choice.structure, *choice.averaged)), choice=choice)


class _Learner:
    """Clusters learned from the training prompts, or a sample of them; each size is learned once.

    Spurious rubrics stay part of what was mined, so clusters hold with and without them.
    """

    def __init__(self, evidence: Evidence, config: FitConfig) -> None:
        self.evidence, self.config = evidence, config
        prompts = np.unique(evidence.prompt)
        if len(prompts) > LEARNING_PROMPTS:
            rng = np.random.default_rng([config.seed, 3])
            prompts = np.sort(rng.choice(prompts, LEARNING_PROMPTS, replace=False))
        self._prompts = prompts
        self._associations: dict[View, Association | None] = {}
        self._trained: dict[Size, TrainedClusters] = {}

    def trained(self, size: Size) -> TrainedClusters:
        """Return the clusters of a size."""
        known, prompts, view = self.evidence, self._prompts, size.view
        if size.groups > 1 and view in known.views and view not in self._associations:
            self._associations[view] = associate(known.features[prompts], known.views[view][prompts])
        if size not in self._trained:
            found = self._associations.get(view) if size.groups > 1 else None
            parts = known.features, known.views, known.mined
            self._trained[size] = train_clusters(found, *parts, prompts, size, self.config.seed)
        return self._trained[size]


def _choice(learner: _Learner, kinds: PromptKinds | None, size: Size) -> tuple[Evidence, Choice]:
    """Return the evidence without spurious rubrics, and the structure chosen for it."""
    known, config = learner.evidence, learner.config
    spurious = _spurious(learner, size) if is_asked(config) else []
    evidence = known.without(spurious)
    choice = Choice(structure=cast("Structure", config.structure))
    if kinds:
        choice = choose(evidence, config.top_ks, kinds=kinds, seed=config.seed)
    rubrics = np.flatnonzero(np.isin(known.paraphrases.of, spurious))
    return evidence, replace(choice, spurious=tuple(rubrics.tolist()))


def _spurious(learner: _Learner, size: Size) -> list[int]:
    """Return the clusters of rubrics that only go with the label, by a first solution."""
    evidence, config = learner.evidence, learner.config
    first = Structure(groups=size.groups, view=size.view, sparsity=FIRST_SPARSITY)
    count = len(evidence.prompt)
    few = min(FIRST_PAIRS, max(1, FIRST_ENTRIES * count // max(1, evidence.z.nnz)))
    rows = drawn(count, few, config)
    merged, trained = evidence.merged[rows], learner.trained(size)
    mixture = keep_largest(trained.posterior[evidence.prompt[rows]])
    effects = _solved(merged, [mixture], [trained.price], [first])[0]
    return spurious_rubrics(merged, judged_of(merged), mixture, effects)


def _selector(evidence: Evidence, learner: _Learner, structures: Sequence[Structure]) -> Selector:
    """Return the selector that averages some structures: their topics side by side, each structure equally likely.

    One softmax runs over the topics of all. If a prompt's words tell much, structures with clusters get more of it.
    """
    trained = [learner.trained(each.size) for each in structures]
    mixtures = {id(each): keep_largest(each.posterior)[evidence.prompt] for each in trained}
    effects = _effects(evidence, [mixtures[id(each)] for each in trained], trained, structures, learner.config)
    usual = [float((mixtures[id(each)].mean(axis=0) @ own).sum()) for each, own in zip(trained, effects, strict=True)]
    scaled = [own / max(size, 1e-12) for own, size in zip(effects, usual, strict=True)]
    rubrics = evidence.z.shape[1]
    bias = [each.clusters.bias - _usual_mass(evidence.features, each.clusters) for each in trained]
    return Selector(
        kind="topics",
        hidden=np.hstack([each.clusters.words for each in trained]).astype(np.float32),
        hidden_bias=np.concatenate(bias).astype(np.float32),
        output=np.ascontiguousarray(np.vstack(scaled).T, np.float32),
        output_bias=np.zeros(rubrics, np.float32),
        weight=np.full(rubrics, learner.config.topic_weight, np.float32),
    )


def _usual_mass(features: Any, clusters: PromptClusters) -> float:
    """Return the mean over the prompts of log Σ_k exp(score_k)."""
    score = np.asarray(features @ clusters.words) + clusters.bias
    top = score.max(axis=1)
    return float((top + np.log(np.exp(score - top[:, None]).sum(axis=1))).mean())


def _effects(
    evidence: Evidence,
    mixtures: Sequence[Floats],
    trained: Sequence[TrainedClusters],
    structures: Sequence[Structure],
    config: FitConfig,
) -> list[Floats]:
    """Return the effects (topic, rubric) of each structure."""
    if structures[0].solver == "shrunken":
        one = shrunken_means(evidence.merged, np.ones((evidence.z.shape[0], 1)))
        if one.any():
            return [evidence.paraphrases.spread(one, structures[0].top_k)]
    rows = _solved_rows(evidence, config.seed)
    cut = {id(each): each[rows] for each in mixtures}
    own = [cut[id(each)] for each in mixtures]
    found = _solved(evidence.merged[rows], own, [each.price for each in trained], structures)
    return [evidence.paraphrases.spread(each, form.top_k) for each, form in zip(found, structures, strict=True)]


def _solved(
    z: Any, mixtures: Sequence[Floats], prices: Sequence[Floats | None], structures: Sequence[Structure]
) -> list[Floats]:
    """Return V (topic, cluster) of each structure; shrunken means if no effect survives the L1 terms."""
    problems = [
        Problem(mixture, form.sparsity, form.common, price)
        for mixture, price, form in zip(mixtures, prices, structures, strict=True)
    ]
    found = zip(solve(z, problems), mixtures, strict=True)
    return [own if np.isfinite(own).all() and own.any() else shrunken_means(z, mixture) for own, mixture in found]


def _solved_rows(evidence: Evidence, seed: int) -> Ints | slice:
    """Return the pairs to solve on: all, or as many of each source as the choice was made on."""
    if evidence.source is None or len(large_sources(evidence.source)) < LEAST_SOURCES:
        return slice(None)
    return even_rows(evidence.source, MOST_PAIRS, np.random.default_rng([seed, 7]))
