"""The objectives, selectors and regularisations that are compared, by name, on planted arrays and on judged pairs.

A variant is a function (train arrays, dev arrays, seed) that returns a function from prompts' features, sparse
(prompt, feature), to the importance of every rubric, (prompt, rubric). To try another one, write such a function and
add it to `VARIANTS`; nothing else needs to know. What the importance is good for is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse import csr_matrix

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, PAPER, FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.linear import fit_linear
from svr_async.fit.measure import importance_rows
from svr_async.fit.topics import IN_COMMON, effects, start_topics
from svr_async.fit.training import fit

Importance = Callable[[csr_matrix], np.ndarray]
Variant = Callable[[FitArrays, FitArrays, int], Importance]

KERNEL_POWER = 24.0
KERNEL_SAMPLE = 512  # training prompts whose median count is the kernel's shrinkage
BLOCK = 128  # prompts at a time


@dataclass(frozen=True, slots=True)
class _Rows:
    """Feature rows in the names that `fit.measure` reads them by."""

    feature_indptr: np.ndarray
    feature_index: np.ndarray
    feature_value: np.ndarray


def features_of(arrays: FitArrays) -> csr_matrix:
    """Return the features of the prompts, (prompt, feature)."""
    shape = (arrays.n_prompts, arrays.n_features)
    return csr_matrix((arrays.feature_value, arrays.feature_index, arrays.feature_indptr), shape=shape)


def entries_of(arrays: FitArrays) -> csr_matrix:
    """Return z, (pair, rubric); what was not judged is not stored."""
    return csr_matrix((arrays.z_delta, arrays.z_rubric, arrays.z_indptr), shape=(arrays.n_pairs, arrays.n_rubrics))


def selector_importance(selector: Selector) -> Importance:
    """Return alpha · weight of a fitted selector."""

    def importance(features: csr_matrix) -> np.ndarray:
        rows = _Rows(features.indptr, features.indices, features.data)
        return np.concatenate(list(importance_rows(selector, rows, np.arange(features.shape[0]))))

    return importance


def fitted(config: FitConfig, train: FitArrays, dev: FitArrays, seed: int) -> Importance:
    """Fit with the package's own fit."""
    return selector_importance(fit(train, dev, replace(config, seed=seed)).selector)


def shared_topics(train: FitArrays, dev: FitArrays, seed: int) -> Importance:
    """Return the closed-form start: shrunken means by topic, shared by rubrics that say the same; nothing is solved."""
    return solved({"sparsity": 0.0}, train, dev, seed)


def plain_topics(train: FitArrays, dev: FitArrays, seed: int) -> Importance:  # noqa: ARG001  (a variant's form)
    """Return the shrunken means by topic, before overlapping rubrics share their effects."""
    train = train.without_own()
    selector = start_topics(train, replace(DEFAULT, sparsity=0.0, seed=seed))
    features = features_of(train)

    def gates_of(prompts: np.ndarray) -> np.ndarray:
        before = features[prompts] @ selector.hidden.astype(np.float64) + selector.hidden_bias
        gates = np.exp(before - before.max(axis=1, keepdims=True))
        return gates / gates.sum(axis=1, keepdims=True)

    plain = replace(selector, output=np.ascontiguousarray(effects(train, gates_of).T, np.float32))
    return selector_importance(plain)


def by_words(train: FitArrays, dev: FitArrays, seed: int) -> Importance:
    """Return the default fit where nothing says what was mined from a prompt: words alone group prompts."""
    train = train.without_own()
    return solved({}, replace(train, source_indptr=None, source_prompt=None), dev, seed)


def solved(
    changes: dict[str, object],
    train: FitArrays,
    dev: FitArrays,  # noqa: ARG001  (a variant's form)
    seed: int,
) -> Importance:
    """Return the default's solution with some settings changed."""
    return selector_importance(start_topics(train.without_own(), replace(DEFAULT, seed=seed, **changes)))


def kernel(train: FitArrays, dev: FitArrays, seed: int) -> Importance:  # noqa: ARG001  (a variant's form)
    """Return the plain kernel regression of z on the cosine of prompts: no training, no groups."""
    train = train.without_own()
    features, z = features_of(train), entries_of(train)
    known = features[train.pair_prompt].T.tocsr()
    judged = csr_matrix((np.ones_like(z.data), z.indices, z.indptr), shape=z.shape)
    first = np.unique(train.pair_prompt)[:KERNEL_SAMPLE]
    shrinkage = np.median(_kernel(features[first], known) @ judged)

    def importance(asked: csr_matrix) -> np.ndarray:
        out = np.zeros((asked.shape[0], train.n_rubrics))
        for start in range(0, len(out), BLOCK):
            near = _kernel(asked[start : start + BLOCK], known)
            out[start : start + BLOCK] = (near @ z) / (near @ judged + shrinkage)
        return out

    return importance


def _kernel(asked: csr_matrix, known: csr_matrix) -> np.ndarray:
    return np.expm1(KERNEL_POWER * (asked @ known).toarray())


def linear(train: FitArrays, dev: FitArrays, seed: int) -> Importance:  # noqa: ARG001  (a variant's form)
    """Return one weight >= 0 a rubric, the same for all prompts: logistic regression on the judged pools."""
    return constant(fit_linear(train.without_own()))


def constant(weight: np.ndarray) -> Importance:
    """Return the same importance (rubric,) for every prompt."""
    return lambda features: np.tile(weight, (features.shape[0], 1))


COMMON = {"sparsity": DEFAULT.sparsity * IN_COMMON[0], "common_sparsity": DEFAULT.sparsity * IN_COMMON[1]}
LITERAL = "literal (paper)"
USUAL = "default: topics, sparse margin, diversity"
VARIANTS: dict[str, Variant] = {
    LITERAL: partial(fitted, PAPER),
    "pooled sparsemax": partial(fitted, replace(PAPER, pool="judged", use_own=False, top_k=6)),
    "kernel regression": kernel,
    "one weight a rubric": linear,
    "topics, effects only": plain_topics,
    "topics, overlap shared": shared_topics,
    "sparse margin, groups by words alone": by_words,
    "sparse margin, no diversity": partial(solved, {"diversity": 0.0}),
    "sparse margin, never a common part": partial(solved, {"cross_validate": False}),
    "sparse margin, always a common part": partial(solved, {**COMMON, "cross_validate": False}),
    USUAL: partial(fitted, DEFAULT),
}
