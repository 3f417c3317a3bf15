"""Grouping prompts: a mixture over what a prompt says and over what was mined from it, applied by its words alone.

    log p(k | x, mined) = log π_k + s · Σ_words φ_w log(share_kw / share_w) + Σ_rubrics m_r log(share_kr / share_r) + …

Words alone group prompts by phrasing as readily as by task. Which rubrics were mined from a prompt says what mattered
there, so while groups are learned both speak; in use only the words are known, and gates(x) keeps their part. Prompts
without mined rubrics, or a bank that was not mined, leave the words.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.leading import leading_components
from svr_async.fit.threads import in_threads, rows_of
from svr_async.fit.word_gates import gates_by_words

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]
Scalar = TypeVar("Scalar", np.float32, np.float64)

BLOCK = 4096  # prompts at a time, so that their part of every array stays in the processor's cache

EM_ROUNDS = 30
RISING_ROUNDS = 15  # in which EM's sharpness rises to its final value
COMPONENTS = 64  # of the decomposition that the grouping starts from
MINED_COMPONENTS = 24
SMOOTHING = 0.05  # of the corpus's own word shares, times the vocabulary, added to each group
MINED_SMOOTHING = 0.5  # the same for rubrics: fewer of them, and fewer a prompt
LEAST_SOURCES = 3  # a rubric mined from fewer prompts says nothing about groups
LEAST_MINED = 0.5  # mined rubrics a prompt, below which words alone group


def learn_gates(
    features: Any, n_topics: int, sharpness: float, seed: int, *, mined: Any = None, in_use: float | None = None
) -> tuple[Floats, Floats]:
    """Return W1 (feature, topic) and b1 (topic,) of a mixture over the prompts' words, and rubrics where given.

    `features` and `mined` are sparse with a row a prompt; `mined` (prompt, rubric) marks what was mined from each.
    EM with a sharpness that rises to its final value; W1 holds in_use · log(share in topic / share in corpus), where
    `in_use` is the sharpness if it is not given. With mined rubrics W1 is fitted to the groups (`fit.word_gates`).
    Prompts go through in blocks, in threads and single precision; sums over all of them are double.
    """
    informative = _informative(mined)
    views = [features] if informative is None else [features, informative]
    groups = _first_groups(views[-1], n_topics, seed, words=informative is None)
    parts = rows_of(features.shape[0], BLOCK)
    blocks = [[view[part].astype(np.float32) for view in views] for part in parts]
    corpora = [_shares(view) for view in views]
    first = np.eye(n_topics, dtype=np.float32)
    counts = _summed(in_threads(lambda at: _counts(blocks[at], first[groups[parts[at]]]), range(len(parts))))
    for step in range(EM_ROUNDS):
        log_share = np.log(counts[0] / features.shape[0] + 1e-6)
        rise = min(sharpness, 1 + step * sharpness / RISING_ROUNDS)
        words = _log_ratio(counts[1], corpora[0], SMOOTHING) * rise
        mined_words = [_log_ratio(count, corpora[1], MINED_SMOOTHING) for count in counts[2:]]
        tables = [table.astype(np.float32) for table in (words, *mined_words, log_share)]
        counts = _summed(in_threads(lambda block: _expected(block, tables), blocks))  # noqa: B023  (used at once)
    words *= (sharpness if in_use is None else in_use) / sharpness
    if informative is None:
        return words, log_share
    held = np.concatenate(in_threads(lambda block: softmax(_evidence(block, tables)), blocks))
    return gates_by_words(features, held, words, log_share)


def _expected(block: list[Any], tables: list[Singles]) -> list[Singles]:
    """Return the counts of one block by the groups that its prompts are expected in; the last table is log π."""
    return _counts(block, softmax(_evidence(block, tables)))


def _evidence(block: list[Any], tables: list[Singles]) -> Singles:
    """Return log p(topic, what was seen) of the prompts of one block but for a constant, (prompt, topic)."""
    return cast("Singles", tables[-1] + sum(view @ table for view, table in zip(block, tables, strict=False)))


def _counts(block: list[Any], held: Singles) -> list[Singles]:
    """Return how much each group holds (topic,), and of each view's columns (column, topic)."""
    return [held.sum(axis=0), *(np.asarray(view.T @ held) for view in block)]


def _summed(counts: list[list[Singles]]) -> list[Floats]:
    return [np.sum(same, axis=0, dtype=np.float64) for same in zip(*counts, strict=True)]


def softmax(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return each row's softmax."""
    raised = np.subtract(values, values.max(axis=1, keepdims=True))
    np.exp(raised, out=raised)
    raised /= raised.sum(axis=1, keepdims=True)
    return cast("npt.NDArray[Scalar]", raised)


def _informative(mined: Any) -> Any:
    """Return the columns of rubrics mined from enough prompts; None where they are too few to group by."""
    if mined is None:
        return None
    kept = mined[:, np.asarray((mined > 0).sum(axis=0)).ravel() >= LEAST_SOURCES].tocsr()
    return kept if kept.shape[1] >= 2 and kept.nnz >= LEAST_MINED * kept.shape[0] else None


def _shares(view: Any) -> Floats:
    total = np.asarray(view.sum(axis=0), np.float64).ravel() + 1e-6
    return cast("Floats", total / total.sum())


def _log_ratio(counts: Floats, corpus: Floats, smoothing: float) -> Floats:
    """Return log(share in topic / share in corpus), (column, topic), smoothed towards the corpus."""
    smooth = counts + (smoothing * len(corpus) * corpus)[:, None]
    return cast("Floats", np.log(smooth / smooth.sum(axis=0) / corpus[:, None]))


def _first_groups(view: Any, n_topics: int, seed: int, *, words: bool) -> Ints:
    """Return the group of each prompt (prompt,) from k-means on the leading components of one view."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415  (slow to import)

    size = min(COMPONENTS if words else MINED_COMPONENTS, min(view.shape) - 1)
    if n_topics == 1 or size < 2 or not view.nnz:
        return np.arange(view.shape[0]) % n_topics
    if not words:  # rare rubrics tell more; tf-idf rows are weighted already
        seen = np.maximum(1, np.asarray((view > 0).sum(axis=0)).ravel())
        view = view.multiply(np.log(1 + view.shape[0] / seen)).tocsr()
    found = leading_components(view, size, seed).astype(view.dtype)
    found = found[:, 1:] if words else found
    if not found.shape[1]:  # every prompt says the same
        return np.arange(view.shape[0]) % n_topics
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    groups = MiniBatchKMeans(n_topics, batch_size=2048, n_init=3, random_state=seed).fit_predict(found)
    return cast("Ints", groups)
