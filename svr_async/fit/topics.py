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
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays
from svr_async.fit.choices import Choice, Structure
from svr_async.fit.common import LEAST_SOURCES, large_sources, moments_of, weights
from svr_async.fit.config import FitConfig
from svr_async.fit.correlates import correlates
from svr_async.fit.evidence import Evidence, bare_evidence, drawn, is_asked, likeness_of
from svr_async.fit.folds import MOST_PAIRS as SOURCE_PAIRS
from svr_async.fit.folds import even_rows
from svr_async.fit.forward import Selector
from svr_async.fit.grouping import Association, Groups, Size, View
from svr_async.fit.problems import compile_ahead
from svr_async.fit.shrinkage import one_weight, shrunken
from svr_async.fit.sparse_margin import Wanted, solve
from svr_async.fit.structure import MOST_GATES, Kinds, choose, kinds_of, penalties_of
from svr_async.fit.threads import in_threads, side_by_side
from svr_async.fit.trained_groups import TrainedGroups, association_of, trained_groups
from svr_async.fit.paraphrase_clusters import judged_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

FIRST_PAIRS = 6000  # correlates on as many as a fold of the cross-validation learns from
LEARNING_PROMPTS = 20_000  # the groups are learned on a sample of this many
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
        learner, kinds = _begun(train, config)
        size = kinds.best if kinds else cast("Structure", config.structure).size
        ahead = partial(_compiled, learner.evidence, size, config)
        chosen, _ = side_by_side(partial(_chosen, learner, kinds, size), ahead)
        evidence, choice = chosen
        parts = _solutions(evidence, learner, (choice.structure, *choice.beside))
        return Solved(selector=_selector(evidence, config, parts), choice=choice)


def solve_each(train: FitArrays, configs: Sequence[FitConfig]) -> list[Solved]:
    """Return what `solve_topics` does of each of several settings, those that differ by their structure in one batch.

    They share the evidence and what is learned of groups; their margin problems are one batch of the compiled program.
    Where a structure is to be chosen, each is solved by itself.
    """
    from threadpoolctl import threadpool_limits

    found: dict[FitConfig, Solved] = {}
    with threadpool_limits(1):
        for same in _alike_but_structure(configs):
            found |= _together(train, same)
    return [found.get(config) or solve_topics(train, config) for config in configs]


def _alike_but_structure(configs: Sequence[FitConfig]) -> list[list[FitConfig]]:
    """Return the settings that name a structure, by all that they are beside it; each once."""
    found: dict[FitConfig, dict[FitConfig, None]] = {}
    for config in configs:
        if config.structure is not None:
            found.setdefault(replace(config, structure=None), {})[config] = None
    return [list(same) for same in found.values()]


def _together(train: FitArrays, configs: Sequence[FitConfig]) -> dict[FitConfig, Solved]:
    """Return the solutions of settings that differ by their structure alone."""
    learner, _ = _begun(train, configs[0])
    sizes = list(dict.fromkeys(cast("Structure", config.structure).size for config in configs))
    asides = {size: _correlates(learner, size) if is_asked(configs[0]) else [] for size in sizes}
    batches: dict[tuple[Any, ...], list[FitConfig]] = {}
    for number, config in enumerate(configs):
        form = cast("Structure", config.structure)
        alone = () if form.solver == "margin" else (number,)
        batches.setdefault((tuple(asides[form.size]), *alone), []).append(config)
    found: dict[FitConfig, Solved] = {}
    for (aside, *_), same in batches.items():
        evidence, forms = learner.evidence.without(aside), [cast("Structure", config.structure) for config in same]
        for config, form, part in zip(same, forms, _solutions(evidence, learner, forms), strict=True):
            choice = Choice(structure=form, aside=_wordings(learner.evidence, aside))
            found[config] = Solved(selector=_selector(evidence, config, [part]), choice=choice)
    return found


def _begun(train: FitArrays, config: FitConfig) -> tuple[_Learner, Kinds | None]:
    """Return who learns groups of the evidence, and the kinds of prompts that words tell."""
    bare = bare_evidence(train, config)
    judged = judged_of(bare.merged)
    kinds, alike = side_by_side(partial(_kinds, bare, config), partial(likeness_of, bare.merged, judged, config))
    return _Learner(replace(bare, alike=alike), config), kinds


class _Learner:
    """Groups of prompts that the training prompts tell, or a sample of them; each is learned once.

    What is left aside for its answers stays part of what was mined, so groups hold whether or not it is.
    """

    def __init__(self, evidence: Evidence, config: FitConfig) -> None:
        self.evidence, self.config = evidence, config
        self._prompts = _sample(np.unique(evidence.prompt), config.seed)
        self._told: dict[View, Association | None] = {}
        self._trained: dict[Size, TrainedGroups] = {}

    def trained(self, sizes: Sequence[Size]) -> list[TrainedGroups]:
        """Return the groups of each size."""
        for size in sizes:
            if size.groups > 1 and size.view not in self._told:
                features, views = self.evidence.features, self.evidence.views
                self._told[size.view] = association_of(features, views, self._prompts, size.view)
        missing = [size for size in dict.fromkeys(sizes) if size not in self._trained]
        self._trained |= zip(missing, in_threads(self._learned, missing), strict=True)
        return [self._trained[size] for size in sizes]

    def _learned(self, size: Size) -> TrainedGroups:
        told = self._told[size.view] if size.groups > 1 else None
        known = self.evidence
        return trained_groups(told, known.features, known.views, known.mined, self._prompts, size, self.config.seed)


def _kinds(evidence: Evidence, config: FitConfig) -> Kinds | None:
    """Return the kinds of prompts that words tell; None where the settings name the structure."""
    return None if config.structure else kinds_of(evidence, most=config.hidden, seed=config.seed)


def _chosen(learner: _Learner, kinds: Kinds | None, size: Size) -> tuple[Evidence, Choice]:
    """Return the evidence without what only goes with the label, and the structure that it tells."""
    known, config = learner.evidence, learner.config
    aside = _correlates(learner, size) if is_asked(config) else []
    evidence = known.without(aside)
    choice = _choice(evidence, kinds, config) if kinds else Choice(structure=cast("Structure", config.structure))
    return evidence, replace(choice, aside=_wordings(known, aside))


def _compiled(evidence: Evidence, best: Size, config: FitConfig) -> None:
    """Have the program of the last solution compiled meanwhile, where it is another than the first and will be used.

    Of checks that a program decides, one weight a rubric is taken more often than not.
    """
    if config.structure is None and is_asked(config) and len(evidence.prompt) > FIRST_PAIRS:
        rows = _solved_rows(evidence, config.seed)
        compile_ahead(evidence.merged[rows], best.groups, alike=evidence.alike)


def _correlates(learner: _Learner, size: Size) -> list[int]:
    """Return the criteria that only go with the label (`fit.correlates`), by a first solution of so many groups."""
    evidence, config = learner.evidence, learner.config
    first = Structure(groups=size.groups, directions=size.directions, view=size.view, sparsity=FIRST_SPARSITY)
    rows = drawn(len(evidence.prompt), FIRST_PAIRS, config)
    part = replace(evidence.part(rows), source=None)
    trained = learner.trained([size])[0]
    gates = _few(trained.likely[evidence.prompt[rows]])
    effects = _solved(part, [gates], [trained.price], [first], config)[0]
    return correlates(part.merged, judged_of(part.merged), gates, effects)


def _wordings(evidence: Evidence, criteria: Sequence[int]) -> tuple[int, ...]:
    """Return the rubrics that are wordings of some criteria."""
    return tuple(int(rubric) for rubric in np.flatnonzero(np.isin(evidence.criteria.of, list(criteria))))


def _choice(evidence: Evidence, kinds: Kinds, config: FitConfig) -> Choice:
    return choose(evidence, config.top_ks, kinds=kinds, diversity=DIVERSITY * config.diversity, seed=config.seed)


def _selector(evidence: Evidence, config: FitConfig, parts: Sequence[tuple[Groups, Floats]]) -> Selector:
    """Return the selector that averages some structures: their topics side by side, each structure as likely.

    One softmax runs over the topics of all. Where a prompt's words tell much, structures with groups get more of it.
    """
    rubrics = evidence.z.shape[1]
    words, effects = np.hstack([part[0].words for part in parts]), np.vstack([part[1] for part in parts])
    bias = np.concatenate([part[0].bias - _usual_mass(evidence.features, part[0]) for part in parts])
    return Selector(
        kind="topics",
        hidden=words.astype(np.float32),
        hidden_bias=bias.astype(np.float32),
        output=np.ascontiguousarray(effects.T, np.float32),
        output_bias=np.zeros(rubrics, np.float32),
        weight=np.full(rubrics, config.topic_weight, np.float32),
    )


def _usual_mass(features: Any, groups: Groups) -> float:
    """Return the mean over the prompts of log Σ_k exp(score_k)."""
    score = np.asarray(features @ groups.words) + groups.bias
    top = score.max(axis=1)
    return float((top + np.log(np.exp(score - top[:, None]).sum(axis=1))).mean())


def _solutions(evidence: Evidence, learner: _Learner, structures: Sequence[Structure]) -> list[tuple[Groups, Floats]]:
    """Return the groups and the effects (topic, rubric) of each structure, effects of mean sum 1."""
    trained = learner.trained([each.size for each in structures])
    of_size = {id(each): _few(each.likely)[evidence.prompt] for each in trained}
    gates = [of_size[id(each)] for each in trained]
    effects = _effects(evidence, gates, [each.price for each in trained], structures, learner.config)
    usual = [float((each.mean(axis=0) @ found).sum()) for each, found in zip(gates, effects, strict=True)]
    return [(each.groups, found / max(size, 1e-12)) for each, found, size in zip(trained, effects, usual, strict=True)]


def _effects(
    evidence: Evidence,
    gates: Sequence[Floats],
    prices: Sequence[Floats | None],
    structures: Sequence[Structure],
    config: FitConfig,
) -> list[Floats]:
    """Return the effects (topic, rubric) of each structure; one weight a rubric is a structure by itself.

    Where one weight a rubric is 0 for all, they are those of the margin loss.
    """
    one = np.zeros(0)
    if structures[0].solver == "moments":
        one = weights(moments_of(evidence.z, evidence.source, evidence.prompt), [structures[0].ridge])
    elif structures[0].solver == "shrunken":
        one = one_weight(evidence.z)
    if one.any():
        return [one]
    found = _solved(evidence, gates, prices, structures, config)
    return [evidence.criteria.spread(each, form.top_k) for each, form in zip(found, structures, strict=True)]


def _solved(
    evidence: Evidence,
    gates: Sequence[Floats],
    prices: Sequence[Floats | None],
    structures: Sequence[Structure],
    config: FitConfig,
) -> list[Floats]:
    """Return V (topic, criterion) of each structure; sources that are large enough to be left out count the same."""
    rows, diversity = _solved_rows(evidence, config.seed), DIVERSITY * config.diversity
    merged = evidence.merged[rows]
    cut = {id(each): each[rows] for each in gates}
    wanted = [
        Wanted(
            gates=cut[id(each)],
            start=partial(_means, merged, cut[id(each)]),
            penalties=penalties_of(form, diversity=diversity),
            price=price,
        )
        for each, price, form in zip(gates, prices, structures, strict=True)
    ]
    return solve(merged, wanted, alike=evidence.alike)


def _means(z: Any, gates: Floats) -> Floats:
    return np.maximum(shrunken(z, gates), 0)


def _solved_rows(evidence: Evidence, seed: int) -> Ints | slice:
    """Return the pairs to solve on: all, or as many of each source as the choice was made on."""
    if evidence.source is None or len(large_sources(evidence.source)) < LEAST_SOURCES:
        return slice(None)
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
