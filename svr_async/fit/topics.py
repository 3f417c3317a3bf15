"""A start without descent: group prompts, estimate each rubric's effect in each group, and keep the decisive ones.

    gates(x)  = softmax(W1 φ(x) + b1)                      learned from words and mined rubrics (`fit.grouping`)
    effect_ki = Σ gate_k z_i / (Σ gate_k + κ)

The sums run over the pairs that were judged on rubric i, so an entry that few pairs were judged on stays near 0.
From there the margin loss is solved with L1 terms and a term against rubrics that say the same (`fit.sparse_margin`),
with or without a part that topics have in common, as cross-validation prefers (`fit.penalties`). With a sparsity of 0
nothing is solved: rubrics that say the same then share their effect (`fit.overlap`).

EM ends in another grouping for another seed, and where two kinds of prompts fall into one group both are decided worse.
Where topics are few, up to three groupings are made, and one softmax runs over the topics of all. They are solved
together, so that what one grouping explains by a rubric the next does not explain again by another that says the same.
A topic then holds one part in so many of its pairs, and the L1 term is less by the root of that: with the root in
`fit.sparse_margin`, in proportion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit import sparse_margin
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.grouping import learn_gates, softmax
from svr_async.fit.overlap import alike, repeats, without_overlap
from svr_async.fit.penalties import ENOUGH, MOST_WORK, choose
from svr_async.fit.sparse_margin import Penalties

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
GatesOf = Callable[[Ints], Floats]  # prompt rows to gates (prompt, topic)

LEARNING_PROMPTS = 30_000  # the groups are learned on a sample of this many
BLOCK = 65_536  # pairs at a time
PROMPTS_PER_TOPIC = 160  # fewer topics than configured where prompts are few
GROUPINGS = 3  # of the same prompts, as far as `hidden` topics allow
SHRINKAGE = 100.0  # κ, in judgements
FEW = 24  # rubrics a prompt
DIVERSITY = 0.003  # δ of `fit.sparse_margin` for a `diversity` of 1
IN_COMMON = (5 / 6, 1 / 3)  # of the sparsity, by topic and for the common part, where topics have one


def start_topics(train: FitArrays, config: FitConfig) -> Selector:
    """Return the closed-form selector of kind `topics`: gates, effects per topic, and one weight for all rubrics."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # noqa: PLC0415 (scikit-learn's)

    with threadpool_limits(1):  # matrices here are small, and blocks of rows have threads of their own
        return _start(train, config)


def _start(train: FitArrays, config: FitConfig) -> Selector:
    features = _csr(train.feature_indptr, train.feature_index, train.feature_value, train.n_features)
    words, log_share, groupings = _grouped(train, features, config)

    def gates_of(prompts: Ints) -> Floats:
        return softmax(features[prompts] @ words + log_share)

    if config.sparsity > 0:
        expected = _decisive(train, gates_of, replace(config, sparsity=config.sparsity / groupings**0.5))
    else:
        expected = without_overlap(train, effects(train, gates_of))
    return Selector(
        kind="topics",
        hidden=words.astype(np.float32),
        hidden_bias=log_share.astype(np.float32),
        output=np.ascontiguousarray(expected.T, np.float32),
        output_bias=np.zeros(train.n_rubrics, np.float32),
        weight=np.full(train.n_rubrics, config.topic_weight, np.float32),
    )


def _grouped(train: FitArrays, features: Any, config: FitConfig) -> tuple[Floats, Floats, int]:
    """Return W1 (feature, topic) and b1 (topic,) over the topics of all groupings, and how many groupings there are."""
    used = _sample(np.unique(train.pair_prompt), config.seed)
    n_topics = max(1, min(config.hidden, len(used) // PROMPTS_PER_TOPIC))
    room = min(config.hidden, MOST_WORK // ENOUGH)  # with more topics no common part would be tried
    groupings = max(1, min(GROUPINGS, room // n_topics)) if n_topics > 1 else 1
    mined = _mined(train)
    found = [
        learn_gates(
            features[used],
            n_topics,
            config.learning_sharpness,
            config.seed * GROUPINGS + number,
            mined=None if mined is None else mined[used],
            in_use=config.topic_sharpness,
        )
        for number in range(groupings)
    ]
    return np.hstack([words for words, _ in found]), np.hstack([log_share for _, log_share in found]), groupings


def effects(train: FitArrays, gates_of: GatesOf) -> Floats:
    """Return the expected z of each rubric in each topic (topic, rubric), shrunk by the number of judgements.

    Hard negatives are left out: they were written to fail, so they say nothing of how often a rubric decides.
    Pairs go through in blocks, so that no array of pairs × topics is ever whole.
    """
    train = train.take_pairs(np.flatnonzero(train.originals))
    z, judged = _entries(train)
    judged.data = train.entry_weights.astype(np.float64)
    total, count = np.zeros(1), np.zeros(1)
    for first in range(0, train.n_pairs, BLOCK):
        rows = slice(first, first + BLOCK)
        gate = gates_of(train.pair_prompt[rows])
        total = total + np.asarray((z[rows].T @ gate).T)
        count = count + np.asarray((judged[rows].T @ gate).T)
    return total / (count + SHRINKAGE)


def _decisive(train: FitArrays, gates_of: GatesOf, config: FitConfig) -> Floats:
    """Return the effects (topic, rubric) that solve the sparse margin loss on the data set's own pairs."""
    rows = np.flatnonzero(train.originals)
    if len(rows) > sparse_margin.MOST_PAIRS:
        rows = np.sort(np.random.default_rng([config.seed, 5]).choice(rows, sparse_margin.MOST_PAIRS, replace=False))
    part = train.take_pairs(rows) if train.negative_of is None else _without_negatives(train, rows)
    z, judged = _entries(part)
    gates, likeness = gates_of(part.pair_prompt), likeness_of(z, judged, config)
    choices = _choices(config)
    penalties = choices[0]
    if len(choices) > 1:
        prompts = part.pair_prompt
        penalties = choose(choices, z, gates, prompts, _shrunken, alike=likeness, seed=config.seed)
    return sparse_margin.solve(z, gates, _shrunken(z, gates), penalties, alike=likeness)


def likeness_of(z: Any, judged: Any, config: FitConfig) -> Any:
    """Return S of the diversity term, sparse (rubric, rubric); None for no term.

    Where a prompt gets few rubrics a repeat takes another's place. Where it gets many, it only counts twice.
    """
    if config.diversity == 0:
        return None
    return repeats(z, judged) if config.top_k is not None and config.top_k <= FEW else alike(z, judged)


def _choices(config: FitConfig) -> list[Penalties]:
    """Return the penalties that cross-validation chooses from, the usual ones first."""
    diversity = DIVERSITY * config.diversity
    usual = Penalties(sparsity=config.sparsity, common=config.common_sparsity, diversity=diversity)
    own, common = (config.sparsity * part for part in IN_COMMON)
    in_common = Penalties(sparsity=own, common=common, diversity=diversity)
    return [usual, in_common] if config.cross_validate else [usual]


def _shrunken(z: Any, gates: Floats) -> Floats:
    """Return the means of z by topic (topic, rubric), shrunk by the number of judgements; z is never stored as 0."""
    judged = z.copy()
    judged.data = np.ones_like(judged.data)
    return np.asarray((z.T @ gates).T) / (np.asarray((judged.T @ gates).T) + SHRINKAGE)


def _entries(train: FitArrays) -> tuple[Any, Any]:
    """Return z · weight and the mask of what was judged, both sparse (pair, rubric)."""
    z = _csr(train.z_indptr, train.z_rubric, train.weighted.astype(np.float64), train.n_rubrics)
    return z, _csr(train.z_indptr, train.z_rubric, np.ones(train.n_entries), train.n_rubrics)


def _without_negatives(train: FitArrays, rows: Ints) -> FitArrays:
    return replace(train, negative_of=None).take_pairs(rows)


def _mined(train: FitArrays) -> Any:
    """Return which rubrics were mined from which prompts, sparse (prompt, rubric); None where unknown."""
    if train.source_indptr is None or train.source_prompt is None or not len(train.source_prompt):
        return None
    marks = np.ones(len(train.source_prompt))
    return _csr(train.source_indptr, train.source_prompt, marks, train.n_prompts).T.tocsr()


def _sample(prompts: Ints, seed: int) -> Ints:
    """Return at most `LEARNING_PROMPTS` of the prompts, drawn by the seed, in order."""
    if len(prompts) <= LEARNING_PROMPTS:
        return prompts
    return np.sort(np.random.default_rng([seed, 3]).choice(prompts, LEARNING_PROMPTS, replace=False))


def _csr(indptr: npt.NDArray[np.integer], index: npt.NDArray[np.integer], value: npt.NDArray[Any], width: int) -> Any:
    from scipy.sparse import csr_matrix  # noqa: PLC0415  (comes with scikit-learn; slow)

    return csr_matrix((value, index, indptr), shape=(len(indptr) - 1, width))
