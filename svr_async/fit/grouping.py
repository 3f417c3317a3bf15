"""Groups of prompts: words that go with the same mined rubrics are words of one kind of prompt.

    Z_fr  = (n_fr − n_f n_r / n) / √(n_f (1 − n_f / n) · n_r (1 − n_r / n) / n)  n_fr prompts with word f gave rubric r
    Z     = U S Vᵀ;   U_q S_q are the words' leading directions, as many as stand out of the noise √words + √rubrics
    score_fk = |U_f S| / √n_f  where the direction of word f is in cluster k, else 0;    gates(x) = softmax(Σ_f score_f)

What was mined from a prompt says what sets its responses apart; what a prompt says is all that is known in use. A word
that has nothing to do with what was mined stays out, however often it occurs: words grouped among themselves follow
phrasing as readily as tasks. Nothing is fitted to single prompts, so the gates of a training prompt are what they would
be had it not been seen, but for its share in the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

LEAST_PROMPTS = 3  # that hold a word, or gave a rubric; of rarer ones nothing is known
STANDS_OUT = 1.1  # times the noise's own largest singular value
TOLD = 2.5  # times the squared length that a word's direction has by chance
MOST_DIRECTIONS = 128
MOST_COLUMNS = 4096  # words, and rubrics, the most frequent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Association:
    """Which words go with which rubrics: `direction` (word, q) scaled by strength, strongest first, of `words` (word,).

    `frequency` (word,) counts prompts, `strength` (q,) are singular values, `found` of which stand out of the noise.
    """

    words: Ints
    frequency: Floats
    direction: Floats
    strength: Floats
    found: int


def associate(features: Any, mined: Any) -> Association | None:
    """Return how words and mined rubrics go together; None where one of them is missing.

    `features` (prompt, word) and `mined` (prompt, rubric) are sparse; only where an entry is not 0 counts.
    """
    if mined is None:
        return None
    words, rubrics = _frequent(features), _frequent(mined)
    if len(words) < 2 or len(rubrics) < 2:
        return None
    said, gave = _marks(features[:, words]), _marks(mined[:, rubrics])
    count, n_said, n_gave = features.shape[0], _sums(said), _sums(gave)
    expected = np.outer(n_said, n_gave) / count
    spread = np.sqrt(np.outer(n_said * (1 - n_said / count), n_gave * (1 - n_gave / count) / count))
    scores = (np.asarray((said.T @ gave).todense()) - expected) / np.maximum(spread, 1e-9)
    direction, strength = _leading(scores)
    noise = np.sqrt(len(words)) + np.sqrt(len(rubrics))
    found = int((strength > STANDS_OUT * noise).sum())
    return Association(words=words, frequency=n_said, direction=direction, strength=strength, found=found)


def word_scores(association: Association, features: Any, groups: int, seed: int) -> Floats:
    """Return W1 (feature, group) for a number of groups >= 2, to be applied to rows like those of `features`.

    A feature's score is what it says where it has its usual value.
    """
    told, cluster, score = _clustered(association, groups, seed)
    words = association.words[told]
    usual = _sums(features[:, words]) / association.frequency[told]
    out = np.zeros((features.shape[1], groups))
    out[words, cluster] = score / np.maximum(usual, 1e-9)
    return out


def softmax(values: Floats) -> Floats:
    """Return each row's softmax."""
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return cast("Floats", raised / raised.sum(axis=1, keepdims=True))


def likely_groups(gates: Floats, mined: Any) -> Floats:
    """Return the gates (prompt, group) that what was mined from each prompt leaves, one step of EM from the words' own.

        log p(k | x, mined) = log gate_k + Σ_rubrics log(share_kr / share_r) + …

    For training prompts only: in use nothing is mined.
    """
    if mined is None or gates.shape[1] == 1:
        return gates
    total = _sums(mined) + 1e-6
    share = total / total.sum()
    smooth = np.asarray(mined.T @ gates) + (0.5 * len(share) * share)[:, None]
    told = mined @ np.log(smooth / smooth.sum(axis=0) / share[:, None])
    return softmax(np.log(np.maximum(gates, 1e-12)) + told)


def _clustered(association: Association, groups: int, seed: int) -> tuple[Ints, Ints, Floats]:
    """Return the words that tell (word,), the group of each, and how much it says for that group."""
    from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

    size = max(1, min(groups - 1, association.direction.shape[1], max(association.found, groups // 2)))
    direction = association.direction[:, :size]
    length = np.linalg.norm(direction, axis=1)
    told = np.flatnonzero(length**2 > TOLD * size)
    if len(told) < 2 * groups:
        told = np.sort(np.argsort(-length, kind="stable")[: 2 * groups])
    unit = direction[told] / np.maximum(length[told], 1e-12)[:, None]
    distinct = len(np.unique(unit.round(6), axis=0))
    found = KMeans(min(groups, distinct), n_init=5, random_state=seed).fit(unit, sample_weight=length[told])
    return told, found.labels_, length[told] / np.sqrt(association.frequency[told])


def _leading(scores: Floats) -> tuple[Floats, Floats]:
    """Return the leading left singular vectors times their values (row, q), and the values (q,), largest first."""
    wide = scores.shape[1] > scores.shape[0]
    gram = scores @ scores.T if wide else scores.T @ scores
    value, vector = np.linalg.eigh(gram)
    order = np.argsort(-value, kind="stable")[:MOST_DIRECTIONS]
    strength = np.sqrt(np.maximum(value[order], 0))
    return (vector[:, order] * strength if wide else scores @ vector[:, order]), strength


def _frequent(view: Any) -> Ints:
    """Return the columns of a sparse view that enough rows have and not all, the most frequent if they are many."""
    rows = _sums(_marks(view))
    kept = np.flatnonzero((rows >= LEAST_PROMPTS) & (rows < view.shape[0]))
    return np.sort(kept[np.argsort(-rows[kept], kind="stable")[:MOST_COLUMNS]])


def _marks(view: Any) -> Any:
    marked = view.tocsr().astype(np.float64)
    marked.data = (marked.data > 0).astype(np.float64)
    return marked


def _sums(view: Any) -> Floats:
    return np.asarray(view.sum(axis=0), np.float64).ravel()
