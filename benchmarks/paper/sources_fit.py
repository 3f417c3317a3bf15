"""The package's own fit as a learner: its default preset on all checks, prompts grouped by their words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from importances import selector_importance, sparse_rows
from sources_data import Judged

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import PRESETS
from svr_async.fit.forward import Selector
from svr_async.fit.tfidf import Vocabulary, learn, transform
from svr_async.fit.training import fit
from svr_async.judges.rules.registry import grid_rubrics
from svr_async.training.prune_redundant import redundancy_edges

MOST_PAIRS = 4_000  # a fit on all pairs takes minutes for each source that is left out


def default_fit(sources: Sequence[Judged]) -> Callable[[Judged], np.ndarray]:
    """Return the margins that a default fit on at most `MOST_PAIRS` pairs of the sources, drawn at random, gives."""
    vocabulary, selector = fitted(sources)
    return lambda judged: margins(vocabulary, selector, judged)


def fitted(sources: Sequence[Judged], seed: int = 0) -> tuple[Vocabulary, Selector]:
    """Return the words and the selector of a default fit; no dev pairs, since its choices are made inside training."""
    texts = [text for source in sources for text in source.texts]
    z = np.concatenate([source.z for source in sources])
    kept = np.sort(np.random.default_rng(seed).permutation(len(z))[:MOST_PAIRS])
    texts, z = [texts[row] for row in kept], z[kept]
    vocabulary = learn(list(dict.fromkeys(texts)))
    return vocabulary, fit(arrays_of(vocabulary, texts, z), None, PRESETS["default"]).selector


def arrays_of(vocabulary: Vocabulary, texts: Sequence[str], z: np.ndarray) -> FitArrays:
    """Return what the fit reads from z (pair, check), 0 where the judge abstained or saw no difference."""
    row = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    indptr, index, value = transform(vocabulary, list(row))
    judged = z != 0
    edges = redundancy_edges([rubric.text for rubric in grid_rubrics()])
    return FitArrays(
        n_rubrics=z.shape[1],
        n_features=len(vocabulary.terms),
        feature_indptr=indptr,
        feature_index=index,
        feature_value=value,
        pair_prompt=np.array([row[text] for text in texts]),
        z_indptr=np.concatenate([[0], np.cumsum(judged.sum(axis=1))]).astype(np.int64),
        z_rubric=np.nonzero(judged)[1].astype(np.int32),
        z_delta=z[judged],
        redundancy_i=edges.i,
        redundancy_j=edges.j,
        redundancy_value=edges.value,
    )


def margins(vocabulary: Vocabulary, selector: Selector, asked: Judged) -> np.ndarray:
    """Return F of each pair from all checks of positive importance."""
    row = {text: place for place, text in enumerate(dict.fromkeys(asked.texts))}
    prompts = sparse_rows(*transform(vocabulary, list(row)), len(vocabulary.terms))
    importance = selector_importance(selector)(prompts)
    return np.einsum("pc,pc->p", importance[[row[text] for text in asked.texts]], asked.z)
