"""What the default is learned from, as sparse arrays: judgements, words of prompts, and what each prompt gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.group_count import Views
from svr_async.fit.overlap import alike, repeats
from svr_async.fit.sparse_margin import MOST_PAIRS
from svr_async.fit.paraphrase_clusters import ParaphraseClusters, cluster_paraphrases, judged_of, one_each

Ints = npt.NDArray[np.integer]

FEW = 24  # rubrics a prompt, at most, where judging costs
WORDING_PAIRS = 12_000  # wordings are found on a sample of this many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What a structure is chosen on: z (pair, rubric), the prompt row of each pair, prompts' words and what was mined.

    `merged` is z with a column a criterion, of `criteria`; `alike` (criterion, criterion) says which repeat each other.
    `z`, `features` (prompt, feature), `mined` (prompt, criterion) and the `views` of what was mined (prompt, column),
    by which prompts are grouped, are sparse. `mined` is None and there are no views where nothing is known; `source`
    (pair,), the number of each pair's source, may be None.
    """

    z: Any
    merged: Any
    criteria: ParaphraseClusters
    prompt: Ints
    features: Any
    views: Views
    mined: Any
    alike: Any
    source: Ints | None = None

    def part(self, rows: Ints) -> Evidence:
        """Return the evidence of some pairs: theirs, and their prompts in the order in which they were."""
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

    def without(self, criteria: Sequence[int]) -> Evidence:
        """Return the evidence as if nothing had been judged on some criteria."""
        if not criteria:
            return self
        kept = np.ones(self.criteria.count, bool)
        kept[list(criteria)] = False
        return replace(self, z=_columns(self.z, kept[self.criteria.of]), merged=_columns(self.merged, kept))


def evidence_of(train: FitArrays, config: FitConfig) -> Evidence:
    """Return what structures are learned from: the data set's own pairs, or a sample of them."""
    bare = bare_evidence(train, config)
    return replace(bare, alike=likeness_of(bare.merged, judged_of(bare.merged), config))


def bare_evidence(train: FitArrays, config: FitConfig) -> Evidence:
    """Return the evidence without the likeness of criteria.

    Hard negatives are left out: they were written to fail, so they say nothing of how often a rubric decides.
    """
    rows = np.flatnonzero(train.originals)
    prompts: Ints | slice = slice(None)
    if sampled := len(rows) > MOST_PAIRS:
        rows = np.sort(np.random.default_rng([config.seed, 5]).choice(rows, MOST_PAIRS, replace=False))
    part = replace(train, negative_of=None).take_pairs(rows).without_weightless()
    prompt = part.pair_prompt
    if sampled:  # of the others nothing is asked, and there may be many
        prompts, prompt = np.unique(prompt, return_inverse=True)
    z = judged_z(part)
    criteria = _clusters(z, train, config) if is_asked(config) else one_each(z.shape[1])
    merged, mined = criteria.merge(z), mined_of(train)
    mined = None if mined is None else mined[prompts]
    return Evidence(
        z=z,
        merged=merged,
        criteria=criteria,
        prompt=prompt,
        features=features_of(train)[prompts],
        views=_views(criteria.merge_mined(mined), worded_of(train, mined)),
        mined=criteria.merge_mined(mined),
        alike=None,
        source=part.pair_source,
    )


def _clusters(z: Any, train: FitArrays, config: FitConfig) -> ParaphraseClusters:
    return cluster_paraphrases(z[drawn(z.shape[0], WORDING_PAIRS, config)], train.criterion)


def judged_z(arrays: FitArrays) -> Any:
    """Return z times the weight of its entry, sparse (pair, rubric), absent = not judged."""
    return _csr(arrays.z_indptr, arrays.z_rubric, arrays.weighted.astype(np.float64), arrays.n_rubrics)


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


def is_asked(config: FitConfig) -> bool:
    """Whether rubrics are what a judge answers: checks that a program decides are what they say."""
    return config.by_answers and min(config.top_ks) <= FEW


def drawn(count: int, most: int, config: FitConfig) -> Ints:
    """Return the numbers of at most `most` of `count` rows, drawn by the seed, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng([config.seed, 13]).choice(count, most, replace=False))


def _columns(z: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return sparse z with nothing in the columns that are not kept."""
    entries = z.tocoo()
    held = kept[entries.col]
    return type(entries)((entries.data[held], (entries.row[held], entries.col[held])), shape=z.shape).tocsr()


def _csr(indptr: npt.NDArray[np.integer], index: npt.NDArray[np.integer], value: npt.NDArray[Any], width: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((value, index, indptr), shape=(len(indptr) - 1, width))
