"""The evidence that the default learns from, as sparse arrays: judgements, words of prompts, and what was mined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.paraphrase_clusters import ParaphraseClusters, cluster_paraphrases, one_each
from svr_async.fit.prompt_clusters import Views

Ints = npt.NDArray[np.integer]

FEW = 24  # most rubrics per prompt if judging costs
MOST_PAIRS = 100_000  # solved on a sample of this many pairs
MOST_ENTRIES = 12_000_000  # and of this many judged entries
CLUSTERING_PAIRS = 12_000  # paraphrases are found on a sample of this many pairs
CLUSTERING_ENTRIES = 1_500_000  # and of this many judged entries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """z (pair, rubric), the prompt row of each pair, prompts' words, and what was mined from each prompt.

    `merged` is z with a column per cluster of `paraphrases`. `z`, `features` (prompt, feature), `mined` (prompt,
    cluster) and the `views` (prompt, column), by which prompts are clustered, are sparse. `mined` is None and `views`
    is empty if nothing is known; `source` (pair,), the number of each pair's source, may be None.
    """

    z: Any
    merged: Any
    paraphrases: ParaphraseClusters
    prompt: Ints
    features: Any
    views: Views
    mined: Any
    source: Ints | None = None

    def part(self, rows: Ints) -> Evidence:
        """Return the evidence of some pairs and their prompts."""
        prompts, prompt = np.unique(self.prompt[rows], return_inverse=True)
        return replace(
            self,
            z=self.z[rows],
            merged=self.merged[rows],
            prompt=prompt,
            features=self.features[prompts],
            views={name: view[prompts] for name, view in self.views.items()},
            mined=None if self.mined is None else self.mined[prompts],
            source=None if self.source is None else self.source[rows],
        )

    def without(self, clusters: Sequence[int]) -> Evidence:
        """Return the evidence as if nothing had been judged on some clusters of rubrics."""
        if not clusters:
            return self
        kept = np.ones(self.paraphrases.count, bool)
        kept[list(clusters)] = False
        return replace(self, z=_columns(self.z, kept[self.paraphrases.of]), merged=_columns(self.merged, kept))


def evidence_of(train: FitArrays, config: FitConfig) -> Evidence:
    """Return the evidence of the data set's own pairs, or of a sample of them.

    Hard negatives are left out: they were written to fail, so they do not show how often a rubric decides.
    """
    rows = np.flatnonzero(train.originals)
    most = pairs_solved_on(train)
    prompts: Ints | slice = slice(None)
    if sampled := len(rows) > most:
        rows = np.sort(np.random.default_rng([config.seed, 5]).choice(rows, most, replace=False))
    part = replace(train, negative_of=None).take_pairs(rows).without_weightless()
    prompt = part.pair_prompt
    if sampled:  # prompts of other pairs may be many
        prompts, prompt = np.unique(prompt, return_inverse=True)
    z = judged_z(part)
    paraphrases = one_each(z.shape[1])
    if is_asked(config):
        few = min(CLUSTERING_PAIRS, _pairs_for(CLUSTERING_ENTRIES, part))
        paraphrases = cluster_paraphrases(z[drawn(len(rows), few, config)], train.criterion)
    mined = mined_of(train)
    mined = None if mined is None else mined[prompts]
    by_cluster = paraphrases.merge_mined(mined)
    views: dict[Any, Any] = {"rubrics": by_cluster, "words": worded_of(train, mined)}
    return Evidence(
        z=z,
        merged=paraphrases.merge(z),
        paraphrases=paraphrases,
        prompt=prompt,
        features=features_of(train)[prompts],
        views={name: view for name, view in views.items() if view is not None},
        mined=by_cluster,
        source=part.pair_source,
    )


def pairs_solved_on(train: FitArrays) -> int:
    """Return how many pairs the default is solved on at most."""
    return min(MOST_PAIRS, _pairs_for(MOST_ENTRIES, train))


def judged_z(arrays: FitArrays) -> Any:
    """Return z times the weight of its entry, sparse (pair, rubric), absent = not judged."""
    return _csr(arrays.z_indptr, arrays.z_rubric, arrays.weighted.astype(np.float64), arrays.n_rubrics)


def features_of(train: FitArrays) -> Any:
    """Return the prompts' features, sparse (prompt, feature)."""
    return _csr(train.feature_indptr, train.feature_index, train.feature_value, train.n_features)


def mined_of(train: FitArrays) -> Any:
    """Return which rubrics were mined from which prompts, sparse (prompt, rubric); None if unknown."""
    if train.source_indptr is None or train.source_prompt is None or not len(train.source_prompt):
        return None
    marks = np.ones(len(train.source_prompt))
    return _csr(train.source_indptr, train.source_prompt, marks, train.n_prompts).T.tocsr()


def worded_of(train: FitArrays, mined: Any) -> Any:
    """Return the content words of `mined` (prompt, rubric) by prompt, sparse (prompt, word); None if unknown."""
    if mined is None or train.word_indptr is None or train.word_number is None:
        return None
    width = int(train.word_number.max(initial=0)) + 1
    return mined @ _csr(train.word_indptr, train.word_number, np.ones(len(train.word_number)), width)


def is_asked(config: FitConfig) -> bool:
    """Whether a judge answers the rubrics; checks of a program are exactly what they say."""
    return config.by_answers and min(config.top_ks) <= FEW


def drawn(count: int, most: int, config: FitConfig) -> Ints:
    """Return the numbers of at most `most` of `count` rows, drawn by the seed, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng([config.seed, 13]).choice(count, most, replace=False))


def _pairs_for(entries: int, arrays: FitArrays) -> int:
    """Return how many pairs have about this many judged entries."""
    return max(1, entries * arrays.n_pairs // max(1, arrays.n_entries))


def _columns(z: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return sparse z without the entries in columns that are not kept."""
    entries = z.tocoo()
    held = kept[entries.col]
    return type(entries)((entries.data[held], (entries.row[held], entries.col[held])), shape=z.shape).tocsr()


def _csr(indptr: npt.NDArray[np.integer], index: npt.NDArray[np.integer], value: npt.NDArray[Any], width: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((value, index, indptr), shape=(len(indptr) - 1, width))
