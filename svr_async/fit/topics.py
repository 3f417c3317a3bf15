"""A start without descent: group prompts, estimate each rubric's effect in each group, and keep the decisive ones.

    gates(x)  = softmax(W1 φ(x) + b1)                      learned from words and mined rubrics (`fit.grouping`)
    effect_ki = Σ gate_k z_i / (Σ gate_k + κ)

The sums run over the pairs that were judged on rubric i, so an entry that few pairs were judged on stays near 0.
Rubrics that say the same then share their effect (`fit.overlap`), and from there the margin loss is solved with an L1
term (`fit.sparse_margin`).
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
from svr_async.fit.overlap import without_overlap

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
GatesOf = Callable[[Ints], Floats]  # prompt rows to gates (prompt, topic)

LEARNING_PROMPTS = 30_000  # the groups are learned on a sample of this many
BLOCK = 65_536  # pairs at a time
PROMPTS_PER_TOPIC = 240  # fewer topics than configured where prompts are few
SHRINKAGE = 100.0  # κ, in judgements


def start_topics(train: FitArrays, config: FitConfig) -> Selector:
    """Return the closed-form selector of kind `topics`: gates, effects per topic, and one weight for all rubrics."""
    features = _csr(train.feature_indptr, train.feature_index, train.feature_value, train.n_features)
    used = _sample(np.unique(train.pair_prompt), config.seed)
    n_topics = max(1, min(config.hidden, len(used) // PROMPTS_PER_TOPIC))
    mined = _mined(train)
    words, log_share = learn_gates(
        features[used], n_topics, config.learning_sharpness, config.seed, mined=None if mined is None else mined[used]
    )
    words *= config.topic_sharpness / config.learning_sharpness

    def gates_of(prompts: Ints) -> Floats:
        return softmax(features[prompts] @ words + log_share)

    expected = without_overlap(train, effects(train, gates_of))
    if config.sparsity > 0:
        expected = _decisive(train, gates_of, expected, config)
    return Selector(
        kind="topics",
        hidden=words.astype(np.float32),
        hidden_bias=log_share.astype(np.float32),
        output=np.ascontiguousarray(expected.T, np.float32),
        output_bias=np.zeros(train.n_rubrics, np.float32),
        weight=np.full(train.n_rubrics, config.topic_weight, np.float32),
    )


def effects(train: FitArrays, gates_of: GatesOf) -> Floats:
    """Return the expected z of each rubric in each topic (topic, rubric), shrunk by the number of judgements.

    Hard negatives are left out: they were written to fail, so they say nothing of how often a rubric decides.
    Pairs go through in blocks, so that no array of pairs × topics is ever whole.
    """
    train = train.take_pairs(np.flatnonzero(train.originals))
    judged = _csr(train.z_indptr, train.z_rubric, np.ones(train.n_entries), train.n_rubrics)
    z = _csr(train.z_indptr, train.z_rubric, train.z_delta.astype(np.float64), train.n_rubrics)
    total, count = np.zeros(1), np.zeros(1)
    for first in range(0, train.n_pairs, BLOCK):
        rows = slice(first, first + BLOCK)
        gate = gates_of(train.pair_prompt[rows])
        total = total + np.asarray((z[rows].T @ gate).T)
        count = count + np.asarray((judged[rows].T @ gate).T)
    return total / (count + SHRINKAGE)


def _decisive(train: FitArrays, gates_of: GatesOf, start: Floats, config: FitConfig) -> Floats:
    """Return the effects (topic, rubric) that solve the sparse margin loss on the data set's own pairs."""
    rows = np.flatnonzero(train.originals)
    if len(rows) > sparse_margin.MOST_PAIRS:
        rows = np.sort(np.random.default_rng([config.seed, 5]).choice(rows, sparse_margin.MOST_PAIRS, replace=False))
    part = train.take_pairs(rows) if train.negative_of is None else _without_negatives(train, rows)
    z = _csr(part.z_indptr, part.z_rubric, part.z_delta.astype(np.float64), part.n_rubrics)
    return sparse_margin.solve(z, gates_of(part.pair_prompt), start, config.sparsity)


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
