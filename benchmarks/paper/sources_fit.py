"""The package's own fit as a learner: its default preset on all checks, prompts grouped by their words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
from judged import say
from sources_data import Judged

from svr_async.fit.arrays import FitArrays
from svr_async.fit.choices import Choice
from svr_async.fit.forward import Selector, importance
from svr_async.fit.tfidf import Vocabulary, learn, transform
from svr_async.fit.training import fit
from svr_async.judges.rules.registry import grid_rubrics
from svr_async.training.bank.near_duplicates import redundancy_edges
from svr_async.training.rounds.config import FitTerms, config_of

CONFIG = config_of(FitTerms(free=True)).fit  # that of `svr train` with a judge that costs nothing


def default_fit(sources: Sequence[Judged]) -> Callable[[Judged], np.ndarray]:
    """Return the margins that a default fit on at most `MOST_PAIRS` pairs of the sources, drawn at random, gives."""
    vocabulary, selector, top_k = fitted(sources)
    return lambda judged: margins(vocabulary, selector, top_k, judged)


def fitted(sources: Sequence[Judged]) -> tuple[Vocabulary, Selector, int]:
    """Return the words, the selector and the rubrics a prompt of a default fit on all pairs, with their sources.

    There are no dev pairs: all choices are made inside training.
    """
    texts = [text for source in sources for text in source.texts]
    vocabulary = learn(list(dict.fromkeys(texts)), pairs_of_words=CONFIG.pairs_of_words)
    z = np.concatenate([source.z for source in sources])
    result = fit(arrays_of(vocabulary, texts, z, [len(source.z) for source in sources]), None, CONFIG)
    choice = cast("Choice", result.choice)
    say(f"  {choice.structure.in_words()}; {choice.left_out} left out")
    return vocabulary, result.selector, choice.structure.top_k


def arrays_of(vocabulary: Vocabulary, texts: Sequence[str], z: np.ndarray, sizes: Sequence[int]) -> FitArrays:
    """Return what the fit reads from z (pair, check), 0 where the judge abstained or saw no difference.

    The pairs of a source stand together, as many as `sizes` says.
    """
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
        pair_source=np.repeat(np.arange(len(sizes)), sizes) if len(sizes) > 1 else None,
        redundancy_i=edges.i,
        redundancy_j=edges.j,
        redundancy_value=edges.value,
    )


def margins(vocabulary: Vocabulary, selector: Selector, top_k: int, asked: Judged) -> np.ndarray:
    """Return F of each pair from the `top_k` most important checks of its prompt."""
    row = {text: place for place, text in enumerate(dict.fromkeys(asked.texts))}
    indptr, index, value = transform(vocabulary, list(row))
    used = np.stack(
        [
            largest(importance(selector, index[start:stop], value[start:stop]), top_k)
            for start, stop in pairwise(indptr.tolist())
        ]
    )
    return np.einsum("pc,pc->p", used[[row[text] for text in asked.texts]], asked.z)


def largest(values: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` largest values in their places, and 0 in the others."""
    kept = np.argsort(-values, kind="stable")[:count]
    return np.where(np.isin(np.arange(len(values)), kept), values, 0)
