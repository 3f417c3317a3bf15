"""The default selector, solved and not descended: groups of prompts, and the few rubrics that decide in each.

    gates(x) = softmax(Σ scores of the words of x + log share)   which words tell a group: `fit.grouping`
    V        = the sparse margin loss solved by group            `fit.sparse_margin`
    logits   = V · gates(x),  alpha = their positive part, scaled to sum 1

Rubrics that only go with the label are left aside first (`fit.correlates`). How many groups words tell apart is counted
on what was mined (`fit.group_count`). Whether there are so many, half of them or none, how sparse V is, what groups
have in common, and how many rubrics a prompt gets is chosen by cross-validation on the training prompts
(`fit.structure`), unless the settings name it. Where one weight a rubric does best that is common to all sources
(`fit.common`), there is one group and V is those weights.

Alpha is the sparsemax of the logits in units of their sum: of numbers that are 0 or more and sum to 1, the projection
onto the simplex is themselves. A sparsemax of the logits in any fixed unit would take from or add to all of them
alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays
from svr_async.fit.choices import Choice, Structure
from svr_async.fit.common import LEAST_SOURCES, large_sources, moments_of, weights
from svr_async.fit.config import FitConfig
from svr_async.fit.correlates import correlates
from svr_async.fit.folds import MOST_PAIRS as SOURCE_PAIRS
from svr_async.fit.folds import even_rows
from svr_async.fit.forward import Selector
from svr_async.fit.group_count import Views, best_size
from svr_async.fit.grouping import Groups, Size
from svr_async.fit.overlap import alike, repeats
from svr_async.fit.shrinkage import one_weight, shrunken
from svr_async.fit.sparse_margin import MOST_PAIRS, solve
from svr_async.fit.structure import FEW, MOST_GATES, Evidence, choose, penalties_of
from svr_async.fit.trained_groups import TrainedGroups, association_of, trained_groups
from svr_async.fit.wordings import criteria_of, each_its_own, judged_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

LEARNING_PROMPTS = 30_000  # the groups are learned on a sample of this many
FIRST_SPARSITY = 0.1  # of the solution that correlates are looked for in
DIVERSITY = 0.003  # δ of `fit.sparse_margin` for a `diversity` of 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """A selector of kind `topics`, and the structure that it has."""

    selector: Selector
    choice: Choice


def solve_topics(train: FitArrays, config: FitConfig) -> Solved:
    """Choose a structure where the settings name none, and return the selector that it gives."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):  # matrices here are small, and problems have threads of their own
        known = evidence_of(train, config)
        best = config.structure.size if config.structure else _best_size(known, config)
        aside = _correlates(known, best, config) if _asked(config) else []
        evidence = known.without(aside)
        choice = Choice(structure=config.structure) if config.structure else _choice(evidence, best, config)
        selector = _selector(train, evidence, (choice.structure, *choice.beside), config)
        return Solved(selector=selector, choice=replace(choice, aside=_wordings(known, aside)))


def evidence_of(train: FitArrays, config: FitConfig) -> Evidence:
    """Return what structures are learned from: the data set's own pairs, or a sample of them.

    Hard negatives are left out: they were written to fail, so they say nothing of how often a rubric decides.
    """
    rows = np.flatnonzero(train.originals)
    if len(rows) > MOST_PAIRS:
        rows = np.sort(np.random.default_rng([config.seed, 5]).choice(rows, MOST_PAIRS, replace=False))
    part = replace(train, negative_of=None).take_pairs(rows).without_weightless()
    z = _csr(part.z_indptr, part.z_rubric, part.weighted.astype(np.float64), part.n_rubrics)
    criteria = criteria_of(z) if _asked(config) else each_its_own(part.n_rubrics)
    merged, mined = criteria.merged(z), mined_of(train)
    return Evidence(
        z=z,
        merged=merged,
        criteria=criteria,
        prompt=part.pair_prompt,
        features=features_of(train),
        views=_views(criteria.mined(mined), worded_of(train, mined)),
        mined=criteria.mined(mined),
        alike=likeness_of(merged, judged_of(merged), config),
        source=part.pair_source,
    )


def features_of(train: FitArrays) -> Any:
    """Return the prompts' features, sparse (prompt, feature)."""
    return _csr(train.feature_indptr, train.feature_index, train.feature_value, train.n_features)


def mined_of(train: FitArrays) -> Any:
    """Return which rubrics were mined from which prompts, sparse (prompt, rubric); None where unknown."""
    if train.source_indptr is None or train.source_prompt is None or not len(train.source_prompt):
        return None
    marks = np.ones(len(train.source_prompt))
    return _csr(train.source_indptr, train.source_prompt, marks, train.n_prompts).T.tocsr()


def worded_of(train: FitArrays, mined: Any) -> Any:
    """Return the content words of `mined` (prompt, rubric) by prompt, sparse (prompt, word); None where unknown."""
    if mined is None or train.word_indptr is None or train.word_number is None:
        return None
    width = int(train.word_number.max(initial=0)) + 1
    return mined @ _csr(train.word_indptr, train.word_number, np.ones(len(train.word_number)), width)


def _views(mined: Any, worded: Any) -> Views:
    """Return what is known of the two views of what was mined."""
    known: Views = {"rubrics": mined, "words": worded}
    return {name: view for name, view in known.items() if view is not None}


def likeness_of(z: Any, judged: Any, config: FitConfig) -> Any:
    """Return S of the diversity term, sparse (rubric, rubric); None for no term.

    Where a prompt gets few rubrics a repeat takes another's place. Where it gets many, it only counts twice.
    """
    if config.diversity == 0:
        return None
    return repeats(z, judged) if min(config.top_ks) <= FEW else alike(z, judged)


def _asked(config: FitConfig) -> bool:
    """Whether rubrics are what a judge answers: checks that a program decides are what they say."""
    return config.by_answers and min(config.top_ks) <= FEW


def _best_size(evidence: Evidence, config: FitConfig) -> Size:
    prompts = np.unique(evidence.prompt)
    views: Views = {name: view[prompts] for name, view in evidence.views.items()}
    return best_size(evidence.features[prompts], views, most=config.hidden, seed=config.seed)


def _correlates(evidence: Evidence, size: Size, config: FitConfig) -> list[int]:
    """Return the criteria that only go with the label (`fit.correlates`), by a first solution of so many groups."""
    first = Structure(groups=size.groups, directions=size.directions, view=size.view, sparsity=FIRST_SPARSITY)
    trained = _trained(evidence, size, config)
    gates = _few(trained.likely)[evidence.prompt]
    effects = _solved(evidence, gates, trained.price, first, config)
    return correlates(evidence.merged, judged_of(evidence.merged), gates, effects, config.seed)


def _wordings(evidence: Evidence, criteria: Sequence[int]) -> tuple[int, ...]:
    """Return the rubrics that are wordings of some criteria."""
    return tuple(int(rubric) for rubric in np.flatnonzero(np.isin(evidence.criteria.of, list(criteria))))


def _choice(evidence: Evidence, best: Size, config: FitConfig) -> Choice:
    return choose(evidence, config.top_ks, best=best, diversity=DIVERSITY * config.diversity, seed=config.seed)


def _selector(train: FitArrays, evidence: Evidence, structures: Sequence[Structure], config: FitConfig) -> Selector:
    """Return the selector that averages some structures: their topics side by side, each structure as likely.

    One softmax runs over the topics of all. Where a prompt's words tell much, structures with groups get more of it.
    """
    parts = [_solution(evidence, each, config) for each in structures]
    words, effects = np.hstack([part[0].words for part in parts]), np.vstack([part[1] for part in parts])
    bias = np.concatenate([part[0].bias - _usual_mass(evidence.features, part[0]) for part in parts])
    return Selector(
        kind="topics",
        hidden=words.astype(np.float32),
        hidden_bias=bias.astype(np.float32),
        output=np.ascontiguousarray(effects.T, np.float32),
        output_bias=np.zeros(train.n_rubrics, np.float32),
        weight=np.full(train.n_rubrics, config.topic_weight, np.float32),
    )


def _usual_mass(features: Any, groups: Groups) -> float:
    """Return the mean over the prompts of log Σ_k exp(score_k)."""
    score = np.asarray(features @ groups.words) + groups.bias
    top = score.max(axis=1)
    return float((top + np.log(np.exp(score - top[:, None]).sum(axis=1))).mean())


def _solution(evidence: Evidence, structure: Structure, config: FitConfig) -> tuple[Groups, Floats]:
    """Return the groups and the effects (topic, rubric) of one structure, effects of mean sum 1."""
    trained = _trained(evidence, structure.size, config)
    gates = _few(trained.likely)[evidence.prompt]
    effects = _effects(evidence, gates, trained.price, structure, config)
    return trained.groups, effects / max(float((gates.mean(axis=0) @ effects).sum()), 1e-12)


def _trained(evidence: Evidence, size: Size, config: FitConfig) -> TrainedGroups:
    """Return the groups that the training prompts tell, or a sample of them."""
    prompts = _sample(np.unique(evidence.prompt), config.seed)
    features, views = evidence.features, evidence.views
    found = association_of(features, views, prompts, size.view) if size.groups > 1 else None
    return trained_groups(found, features, views, evidence.mined, prompts, size, config.seed)


def _effects(
    evidence: Evidence, gates: Floats, price: Floats | None, structure: Structure, config: FitConfig
) -> Floats:
    """Return the effects (topic, rubric) of a structure, by its solver; by the margin loss where that finds nothing."""
    found = np.zeros(0)
    if structure.solver == "moments":
        found = weights(moments_of(evidence.z, evidence.source, evidence.prompt), [structure.ridge])
    elif structure.solver == "shrunken":
        found = one_weight(evidence.z)
    return found if found.any() else _by_margin(evidence, gates, price, structure, config)


def _by_margin(
    evidence: Evidence, gates: Floats, price: Floats | None, structure: Structure, config: FitConfig
) -> Floats:
    """Return V (topic, rubric) of the margin loss."""
    by_criterion = _solved(evidence, gates, price, structure, config)
    return evidence.criteria.spread(by_criterion, structure.top_k)


def _solved(evidence: Evidence, gates: Floats, price: Floats | None, structure: Structure, config: FitConfig) -> Floats:
    """Return V (topic, criterion); sources that are large enough to be left out count the same."""
    rows = _solved_rows(evidence, config.seed)
    merged, gates = evidence.merged[rows], gates[rows]
    penalties = penalties_of(structure, diversity=DIVERSITY * config.diversity)
    start = np.maximum(shrunken(merged, gates), 0)
    return solve(merged, gates, start, penalties, alike=evidence.alike, price=price)


def _solved_rows(evidence: Evidence, seed: int) -> Ints:
    """Return the pairs to solve on: all, or as many of each source as the choice was made on."""
    if evidence.source is None or len(large_sources(evidence.source)) < LEAST_SOURCES:
        return np.arange(len(evidence.prompt))
    return even_rows(evidence.source, SOURCE_PAIRS, np.random.default_rng([seed, 7]))


def _few(gates: Floats) -> Floats:
    """Return the gates with all but the largest of each row 0, and rows of sum 1."""
    if gates.shape[1] <= MOST_GATES:
        return gates
    least = np.partition(gates, -MOST_GATES, axis=1)[:, -MOST_GATES, None]
    kept = np.where(gates >= least, gates, 0)
    return cast("Floats", kept / kept.sum(axis=1, keepdims=True))


def _sample(prompts: Ints, seed: int) -> Ints:
    """Return at most `LEARNING_PROMPTS` of the prompts, drawn by the seed, in order."""
    if len(prompts) <= LEARNING_PROMPTS:
        return prompts
    return np.sort(np.random.default_rng([seed, 3]).choice(prompts, LEARNING_PROMPTS, replace=False))


def _csr(indptr: npt.NDArray[np.integer], index: npt.NDArray[np.integer], value: npt.NDArray[Any], width: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((value, index, indptr), shape=(len(indptr) - 1, width))
