"""Grouping prompts: a mixture over what a prompt says and over what was mined from it, applied by its words alone.

    log p(k | x, mined) = log π_k + s · Σ_words φ_w log(share_kw / share_w) + Σ_rubrics m_r log(share_kr / share_r) + …

Words alone group prompts by phrasing as readily as by task. Which rubrics were mined from a prompt says what mattered
there, so while groups are learned both speak; in use only the words are known, and gates(x) keeps their part. Prompts
without mined rubrics, or a bank that was not mined, leave the words.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

EM_ROUNDS = 30
RISING_ROUNDS = 15  # in which EM's sharpness rises to its final value
COMPONENTS = 64  # of the decomposition that the grouping starts from
MINED_COMPONENTS = 24
SMOOTHING = 0.05  # of the corpus's own word shares, times the vocabulary, added to each group
MINED_SMOOTHING = 0.5  # the same for rubrics: fewer of them, and fewer a prompt
LEAST_SOURCES = 3  # a rubric mined from fewer prompts says nothing about groups
LEAST_MINED = 0.5  # mined rubrics a prompt, below which words alone group


def learn_gates(
    features: Any, n_topics: int, sharpness: float, seed: int, *, mined: Any = None
) -> tuple[Floats, Floats]:
    """Return W1 (feature, topic) and b1 (topic,) of a mixture over the prompts' words, and rubrics where given.

    `features` and `mined` are sparse with a row a prompt; `mined` (prompt, rubric) marks what was mined from each.
    EM with a sharpness that rises to its final value; W1 holds sharpness · log(share in topic / share in corpus).
    """
    informative = _informative(mined)
    corpus = _shares(features)
    held = _first_groups(features if informative is None else informative, n_topics, seed, words=informative is None)
    for step in range(EM_ROUNDS):
        log_share = np.log(held.mean(axis=0) + 1e-6)
        rise = min(sharpness, 1 + step * sharpness / RISING_ROUNDS)
        words = _log_ratio(features, held, corpus, SMOOTHING).T * rise
        evidence = features @ words + log_share
        if informative is not None:
            evidence = evidence + informative @ _log_ratio(informative, held, _shares(informative), MINED_SMOOTHING).T
        held = softmax(evidence)
    return words, log_share


def softmax(values: Floats) -> Floats:
    """Return each row's softmax."""
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return cast("Floats", raised / raised.sum(axis=1, keepdims=True))


def _informative(mined: Any) -> Any:
    """Return the columns of rubrics mined from enough prompts; None where they are too few to group by."""
    if mined is None:
        return None
    kept = mined[:, np.asarray((mined > 0).sum(axis=0)).ravel() >= LEAST_SOURCES].tocsr()
    return kept if kept.shape[1] >= 2 and kept.nnz >= LEAST_MINED * kept.shape[0] else None


def _shares(view: Any) -> Floats:
    total = np.asarray(view.sum(axis=0), np.float64).ravel() + 1e-6
    return cast("Floats", total / total.sum())


def _log_ratio(view: Any, held: Floats, corpus: Floats, smoothing: float) -> Floats:
    """Return log(share in topic / share in corpus), (topic, column), smoothed towards the corpus."""
    counts = np.asarray((view.T @ held).T) + smoothing * len(corpus) * corpus
    return cast("Floats", np.log(counts / counts.sum(axis=1, keepdims=True) / corpus))


def _first_groups(view: Any, n_topics: int, seed: int, *, words: bool) -> Floats:
    """Return hard groups (prompt, topic) from k-means on the leading components of one view."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415  (slow to import)
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415

    size = min(COMPONENTS if words else MINED_COMPONENTS, min(view.shape) - 1)
    if n_topics == 1 or size < 2 or not view.nnz:
        return cast("Floats", np.eye(n_topics)[np.arange(view.shape[0]) % n_topics])
    if not words:  # rare rubrics tell more; tf-idf rows are weighted already
        seen = np.maximum(1, np.asarray((view > 0).sum(axis=0)).ravel())
        view = view.multiply(np.log(1 + view.shape[0] / seen)).tocsr()
    found = TruncatedSVD(size, n_iter=4, random_state=seed).fit_transform(view)
    found = found[:, 1:] if words else found
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    groups = MiniBatchKMeans(n_topics, batch_size=2048, n_init=3, random_state=seed).fit_predict(found)
    return cast("Floats", np.eye(n_topics)[groups])
