"""Groups of prompts: words that go with the same mined rubrics are words of one kind of prompt.

    Z_fr  = (n_fr − n_f n_r / n) / √(n_f (1 − n_f / n) · n_r (1 − n_r / n) / n)  n_fr prompts with word f gave rubric r
    Z     = U S Vᵀ;   U_q S_q are the words' leading directions
    score_fk = |U_f S| / √n_f  where the direction of word f is in cluster k, else 0
    gates(x) = softmax(Σ_f score_f + log share)                                   share_k: of the prompts

What was mined from a prompt says what sets its responses apart; what a prompt says is all that is known in use. A word
that has nothing to do with what was mined stays out, however often it occurs: words grouped among themselves follow
phrasing as readily as tasks. Nothing is fitted to single prompts, so the gates of a training prompt are what they would
be had it not been seen, but for its share in the counts. How many groups and directions there are is chosen by what
they tell of prompts that were left out (`fit.group_count`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.threads import rows_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
View = Literal["rubrics", "words"]

LEAST_PROMPTS = 3  # that hold a word, or gave a rubric; of rarer ones nothing is known
TOLD = 2.5  # times the squared length that a word's direction has by chance
MOST_DIRECTIONS = 64
MOST_COLUMNS = 2048  # words, and rubrics, the most frequent
MOST_CLUSTERED = 1024  # words, those that tell most
BLOCK = 64  # words that are gone through at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many groups, by how many of the directions of words, and beside which view of what was mined.

    A view is `rubrics`, or the `words` of rubrics: a language model seldom writes a rubric twice in the same words.
    """

    groups: int
    directions: int
    view: View = "rubrics"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """`words` (feature, group) are scores, `bias` (group,) is the log share of each group."""

    words: Floats
    bias: Floats

    def gates(self, features: Any) -> Floats:
        """Return how likely each group is (prompt, group), for rows of features."""
        return softmax(np.asarray(features @ self.words) + self.bias)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Association:
    """Which words go with which rubrics: `direction` (word, q) scaled by strength, strongest first, of `words` (word,).

    `frequency` (word,) counts prompts.
    """

    words: Ints
    frequency: Floats
    direction: Floats


def one_group(n_features: int) -> Groups:
    """Return the one group of all prompts."""
    return Groups(words=np.zeros((n_features, 1)), bias=np.zeros(1))


def associate(features: Any, mined: Any) -> Association | None:
    """Return how words and mined rubrics go together; None where one of them is missing.

    `features` (prompt, word) and `mined` (prompt, rubric) are sparse; only where an entry is not 0 counts.
    """
    if mined is None:
        return None
    words, rubrics = _frequent(features), _frequent(mined)
    if len(words) < 2 or len(rubrics) < 2:
        return None
    said, gave = marks_of(features[:, words]), marks_of(mined[:, rubrics])
    count, n_said, n_gave = features.shape[0], _sums(said), _sums(gave)
    scores = (said.T.astype(np.float32) @ gave.astype(np.float32)).toarray(order="C")
    word, rubric = n_said.astype(np.float32), (n_gave / count).astype(np.float32)
    by_word, by_rubric = (_inverse_spread(n, count) for n in (n_said, n_gave))
    for rows in rows_of(len(words), BLOCK):
        scores[rows] -= np.outer(word[rows], rubric)
        scores[rows] *= np.outer(by_word[rows] * np.float32(count**0.5), by_rubric)
    return Association(words=words, frequency=n_said, direction=_leading(scores))


def groups_of(association: Association | None, features: Any, mined: Any, size: Size, seed: int) -> Groups:
    """Return the groups of prompts that the words tell, to be applied to rows like those of `features`.

    A feature's score is what it says where it has its usual value.
    """
    return told_groups(association, features, mined, size, seed)[0]


def told_groups(
    association: Association | None, features: Any, mined: Any, size: Size, seed: int
) -> tuple[Groups, Floats]:
    """Return the groups of prompts that the words tell, and their gates (prompt, group) for the rows of `features`."""
    if association is None or size.groups < 2:
        groups = one_group(features.shape[1])
        return groups, groups.gates(features)
    told, cluster, score = _clustered(association, size, seed)
    words = association.words[told]
    usual = _sums(features[:, words]) / association.frequency[told]
    scores = np.zeros((features.shape[1], size.groups))
    scores[words, cluster] = score / np.maximum(usual, 1e-9)
    said = np.asarray(features @ scores)
    share = likely_groups(softmax(said), mined).mean(axis=0)
    bias = np.log(np.maximum(share, 1 / features.shape[0]))
    return Groups(words=scores, bias=bias), softmax(said + bias)


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


def marks_of(view: Any) -> Any:
    """Return 1 where a sparse view has an entry above 0."""
    marked = view.tocsr().astype(np.float64)
    marked.data = (marked.data > 0).astype(np.float64)
    return marked


def _clustered(association: Association, size: Size, seed: int) -> tuple[Ints, Ints, Floats]:
    """Return the words that tell (word,), the group of each, and how much it says for that group."""
    from sklearn.cluster import KMeans

    direction = association.direction[:, : size.directions]
    length = np.linalg.norm(direction, axis=1)
    enough = int((length**2 > TOLD * direction.shape[1]).sum())
    kept = min(max(enough, 2 * size.groups), MOST_CLUSTERED)
    told = np.sort(np.argsort(-length, kind="stable")[:kept])
    unit = direction[told] / np.maximum(length[told], 1e-12)[:, None]
    distinct = len(np.unique(unit.round(3), axis=0))
    means = KMeans(min(size.groups, distinct), n_init=1, random_state=seed)
    found = means.fit(unit, sample_weight=length[told])
    return told, found.labels_, length[told] / np.sqrt(association.frequency[told])


def _inverse_spread(counts: Floats, of: int) -> npt.NDArray[np.float32]:
    """Return 1 / √(n (1 − n / of)) of counts n, of which none is 0 or all."""
    return (1 / np.sqrt(counts * (1 - counts / of))).astype(np.float32)


def _leading(scores: npt.NDArray[np.float32]) -> Floats:
    """Return the leading left singular vectors times their values (row, q), largest first."""
    from scipy.linalg import eigh

    wide = scores.shape[1] > scores.shape[0]
    gram = scores @ scores.T if wide else scores.T @ scores
    size = len(gram)
    value, vector = eigh(gram, subset_by_index=(max(0, size - MOST_DIRECTIONS), size - 1))
    value, vector = value[::-1], vector[:, ::-1]
    led = vector * np.sqrt(np.maximum(value, 0)) if wide else scores @ vector
    return cast("Floats", led.astype(np.float64))


def _frequent(view: Any) -> Ints:
    """Return the columns of a sparse view that enough rows have and not all, the most frequent if they are many."""
    rows = _sums(marks_of(view))
    kept = np.flatnonzero((rows >= LEAST_PROMPTS) & (rows < view.shape[0]))
    return np.sort(kept[np.argsort(-rows[kept], kind="stable")[:MOST_COLUMNS]])


def _sums(view: Any) -> Floats:
    return np.asarray(view.sum(axis=0), np.float64).ravel()
