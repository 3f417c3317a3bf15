"""Clusters of prompts: words that go with the same mined rubrics are words of one kind of prompt.

    Z_fr  = (n_fr − n_f n_r / n) / √(n_f (1 − n_f / n) · n_r (1 − n_r / n) / n)  n_fr prompts with word f gave rubric r
    Z     = U S Vᵀ;   U_q S_q are the words' leading directions
    score_fk = |U_f S| / √n_f  if the direction of word f is in cluster k, else 0
    mixture_weights(x) = softmax(Σ_f score_f + log share)                         share_k: of the prompts

The rubrics mined from a prompt show what sets its responses apart; in use only its words are known. A word unrelated to
what was mined stays out, however frequent. Nothing is fitted to single prompts, so the weights of a training prompt are
nearly what they would be without it.

The number of clusters maximises the likelihood of what was mined from held-out prompts, each rubric a Poisson event:

    log-likelihood = Σ_prompts Σ_{r mined} log p_r(x) − Σ_r p_r(x),    p(x) = mixture_weights(x) · rate

No label or judgement takes part. Of sizes within a standard error of the best, the smallest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.ragged import in_threads, rows_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
View = Literal["rubrics", "words"]
Views = Mapping[View, Any]  # of what was mined from each prompt, sparse (prompt, column)

LEAST_PROMPTS = 3  # that hold a word, or gave a rubric
INFORMATIVE = 2.5  # times the squared length that a word's direction has by chance
MOST_DIRECTIONS = 64
POWER = 4  # iterations that sharpen the leading directions: a quarter of the time of exact ones
MOST_COLUMNS = 2048  # words, and rubrics, the most frequent
MOST_CLUSTERED = 1024  # words, the most informative
BLOCK = 64  # words processed at a time
MOST_ITERATIONS = 20  # of k-means

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PROMPTS_PER_CLUSTER = 20  # no more clusters than this allows
PARTS = 4
SHRINKAGE = 20.0  # prompts
MOST_PROMPTS = 6000  # in the sample on which sizes are tried
LEAST_RATE = 1e-6

USUAL_PRICE = 0.5  # of a criterion that is mined as often as is typical
LEAST_PRICE, MOST_PRICE = 0.1, 10.0
PRICE_SHRINKAGE = 5.0  # prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Number of clusters, and the view of what was mined that they are learned from.

    A view is `rubrics`, or the `words` of rubrics: a language model rarely writes a rubric twice in the same words.
    """

    groups: int
    view: View = "rubrics"


ONE = Size(groups=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptClusters:
    """`words` (feature, cluster) are scores, `bias` (cluster,) is the log share of each cluster."""

    words: Floats
    bias: Floats

    def mixture_weights(self, features: Any) -> Floats:
        """Return the probability of each cluster (prompt, cluster), for sparse rows of features."""
        return softmax(np.asarray(features @ self.words) + self.bias)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Association:
    """Which words go with which rubrics: `direction` (word, q) scaled by strength, strongest first, of `words` (word,).

    `frequency` (word,) counts prompts.
    """

    words: Ints
    frequency: Floats
    direction: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedClusters:
    """Clusters, their posterior for all prompts (prompt, cluster), and the prices of effects (cluster, criterion)."""

    clusters: PromptClusters
    posterior: Floats
    price: Floats | None


def softmax(values: Floats) -> Floats:
    """Return each row's softmax."""
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return cast("Floats", raised / raised.sum(axis=1, keepdims=True))


def marks_of(view: Any) -> Any:
    """Return 1 where a sparse view has an entry above 0."""
    marked = view.tocsr().astype(np.float64)
    marked.data = (marked.data > 0).astype(np.float64)
    return marked


# ── learning clusters ───────────────────────────────────────────────────────────────────────────────────────────────


def associate(features: Any, mined: Any) -> Association | None:
    """Return how words and mined rubrics go together; None if there are too few of either.

    `features` (prompt, word) and `mined` (prompt, rubric) are sparse; only whether an entry is 0 counts.
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
    by_word, by_rubric = ((1 / np.sqrt(n * (1 - n / count))).astype(np.float32) for n in (n_said, n_gave))
    for rows in rows_of(len(words), BLOCK):
        scores[rows] -= np.outer(word[rows], rubric)
        scores[rows] *= np.outer(by_word[rows] * np.float32(count**0.5), by_rubric)
    return Association(words=words, frequency=n_said, direction=_leading_directions(scores))


def learn_clusters(
    association: Association | None, features: Any, mined: Any, size: Size, seed: int
) -> tuple[PromptClusters, Floats]:
    """Return clusters of the given size and their mixture weights (prompt, cluster) for the rows of `features`."""
    if association is None or size.groups < 2:
        clusters = PromptClusters(words=np.zeros((features.shape[1], 1)), bias=np.zeros(1))
        return clusters, clusters.mixture_weights(features)
    informative, cluster, score = _clustered(association, size, seed)
    words = association.words[informative]
    usual = _sums(features[:, words]) / association.frequency[informative]  # a score is for the word's usual value
    scores = np.zeros((features.shape[1], size.groups))
    scores[words, cluster] = score / np.maximum(usual, 1e-9)
    said = np.asarray(features @ scores)
    share = posterior(softmax(said), mined).mean(axis=0)
    bias = np.log(np.maximum(share, 1 / features.shape[0]))
    return PromptClusters(words=scores, bias=bias), softmax(said + bias)


def posterior(weights: Floats, mined: Any) -> Floats:
    """Return the mixture weights (prompt, cluster) given also what was mined from each prompt, by one step of EM.

        log p(k | x, mined) = log weight_k + Σ_rubrics log(share_kr / share_r) + …

    For training prompts only: in use nothing is mined.
    """
    if mined is None or weights.shape[1] == 1:
        return weights
    total = _sums(mined) + 1e-6
    share = total / total.sum()
    smooth = np.asarray(mined.T @ weights) + (0.5 * len(share) * share)[:, None]
    evidence = mined @ np.log(smooth / smooth.sum(axis=0) / share[:, None])
    return softmax(np.log(np.maximum(weights, 1e-12)) + evidence)


def train_clusters(
    association: Association | None, features: Any, views: Views, mined: Any, prompts: Ints, size: Size, seed: int
) -> TrainedClusters:
    """Return clusters learned from some `prompts`; of all others only the words are known.

    `features` (prompt, feature), `views` (prompt, column) and `mined` (prompt, criterion; or None) cover all prompts.
    """
    view = views[size.view][prompts] if views else None
    clusters, weights = learn_clusters(association, features[prompts], view, size, seed)
    known = posterior(weights, view)
    everywhere = clusters.mixture_weights(features)
    everywhere[prompts] = known
    price = prices(known, None if mined is None else mined[prompts])
    return TrainedClusters(clusters=clusters, posterior=everywhere, price=price)


def prices(weights: Floats, mined: Any) -> Floats | None:
    """Return the L1 price of each effect (cluster, criterion); None if nothing is known to be mined.

        price_kc = ½ typical_k / rate_kc        rate_kc: of cluster k's prompts, the share that gave criterion c
        typical_k = Σ_c rate² / Σ_c rate        the rate of usual criteria there

    A criterion mined repeatedly from a kind of prompts sets their responses apart. With few pairs that says as much as
    the judgements do (adaptive lasso: Zou 2006, Journal of the American Statistical Association 101:1418-1429).
    """
    if mined is None or not mined.nnz:
        return None
    given = np.asarray((mined.T @ weights).T)
    rate = given / (weights.sum(axis=0)[:, None] + PRICE_SHRINKAGE)
    typical = (rate**2).sum(axis=1) / np.maximum(rate.sum(axis=1), 1e-12)
    return cast("Floats", np.clip(USUAL_PRICE * typical[:, None] / np.maximum(rate, 1e-9), LEAST_PRICE, MOST_PRICE))


def _clustered(association: Association, size: Size, seed: int) -> tuple[Ints, Ints, Floats]:
    """Return the informative words (word,), the cluster of each, and its score for that cluster."""
    from sklearn.cluster import KMeans

    direction = association.direction[:, : size.groups - 1]
    length = np.linalg.norm(direction, axis=1)
    enough = int((length**2 > INFORMATIVE * direction.shape[1]).sum())
    kept = min(max(enough, 2 * size.groups), MOST_CLUSTERED)
    chosen = np.sort(np.argsort(-length, kind="stable")[:kept])
    unit = direction[chosen] / np.maximum(length[chosen], 1e-12)[:, None]
    distinct = len(np.unique(unit.round(3), axis=0))
    means = KMeans(min(size.groups, distinct), n_init=1, max_iter=MOST_ITERATIONS, random_state=seed)
    labels = means.fit(unit, sample_weight=length[chosen]).labels_
    return chosen, labels, length[chosen] / np.sqrt(association.frequency[chosen])


def _leading_directions(scores: npt.NDArray[np.float32]) -> Floats:
    """Return the leading left singular vectors times their values (row, q), largest first."""
    from sklearn.utils.extmath import randomized_svd

    vector, value, _ = randomized_svd(scores, min(MOST_DIRECTIONS, *scores.shape), n_iter=POWER, random_state=0)
    return cast("Floats", (vector * value).astype(np.float64))


def _frequent(view: Any) -> Ints:
    """Return the columns of a sparse view that enough rows have and not all, the most frequent if they are many."""
    rows = _sums(marks_of(view))
    kept = np.flatnonzero((rows >= LEAST_PROMPTS) & (rows < view.shape[0]))
    return np.sort(kept[np.argsort(-rows[kept], kind="stable")[:MOST_COLUMNS]])


def _sums(view: Any) -> Floats:
    return np.asarray(view.sum(axis=0), np.float64).ravel()


# ── how many clusters ───────────────────────────────────────────────────────────────────────────────────────────────


def best_size(features: Any, views: Views, *, most: int, seed: int) -> Size:
    """Return the size, of up to `most` clusters, that best predicts the rubrics mined from held-out prompts.

    `features` (prompt, feature) and each view (prompt, column) are sparse; without views there is one cluster.
    """
    return most_likely_size(held_out_parts(features, views, seed=seed), most)


def held_out_parts(features: Any, views: Views, *, seed: int, fold: Ints | None = None) -> list[HeldOutPart]:
    """Return the clusters learned with each part of the prompts held out; an empty list if there are too few.

    `fold` (prompt,) numbers the part of each prompt from 0 (−1: no part); None: parts are random.
    """
    if not views or features.shape[0] < 2 * PROMPTS_PER_CLUSTER:
        return []
    order = np.random.default_rng([seed, 11]).permutation(features.shape[0])
    part = np.full(len(order), -1)
    part[order] = np.arange(len(order)) % PARTS if fold is None else fold[order]
    rows = order[part[order] >= 0][:MOST_PROMPTS]
    numbers = range(int(part.max()) + 1)
    return in_threads(lambda each: HeldOutPart(features, views, rows, part[rows] == each, seed), numbers)


def most_likely_size(parts: Sequence[HeldOutPart], most: int) -> Size:
    """Return the smallest size, of up to `most` clusters, within a standard error of the most likely one."""
    if not parts:
        return ONE
    most = min(most, sum(part.unseen.shape[0] for part in parts) // PROMPTS_PER_CLUSTER)
    views = parts[0].associations
    counts = [count for count in COUNTS if count <= most]  # all: few clusters may predict worse than one

    tried: dict[Size, Floats] = {}
    for size in (ONE, *(Size(groups=count, view=view) for view in views for count in counts)):
        tried[size] = np.concatenate(in_threads(methodcaller("likelihood", size), parts))
    best = max(tried.values(), key=lambda each: float(each.sum()))
    behind = {size: best - each for size, each in tried.items()}
    near = [size for size, each in behind.items() if each.mean() <= each.std() / np.sqrt(len(each))]
    fewest = min(size.groups for size in near)
    return max((size for size in near if size.groups == fewest), key=lambda size: float(tried[size].sum()))


def rubric_rates(weights: Floats, mined: Any) -> Floats:
    """Return how often each cluster's prompts give each rubric (cluster, rubric), shrunk to the rate of all prompts."""
    usual = np.asarray(mined.sum(axis=0), np.float64).ravel() / max(1, mined.shape[0])
    given = np.asarray((mined.T @ weights).T)
    return cast("Floats", (given + SHRINKAGE * usual) / (weights.sum(axis=0)[:, None] + SHRINKAGE))


class HeldOutPart:
    """One part of the prompts, and what the others predict of it in all views; `associations` by view."""

    def __init__(self, features: Any, views: Views, rows: Ints, held: npt.NDArray[np.bool_], seed: int) -> None:
        from scipy.sparse import hstack

        inside, outside = np.sort(rows[~held]), np.sort(rows[held])
        self._features, self.unseen, self._seed = features[inside], features[outside], seed
        self._views = {name: marks_of(view[inside]) for name, view in views.items()}
        self._mined = hstack(list(self._views.values())).tocsr()
        self._given = hstack([marks_of(view[outside]) for view in views.values()]).tocsr()
        self.associations = {name: associate(self._features, view) for name, view in self._views.items()}

    def likelihood(self, size: Size) -> Floats:
        """Return the log-likelihood of what was mined from each held-out prompt (prompt,)."""
        view = self._views[size.view]
        clusters, weights = learn_clusters(self.associations[size.view], self._features, view, size, self._seed)
        rates = rubric_rates(posterior(weights, view), self._mined)
        unseen, entries = clusters.mixture_weights(self.unseen), self._given.tocoo()
        expected = (unseen[entries.row] * rates.T[entries.col]).sum(axis=1)
        logs = np.bincount(entries.row, weights=np.log(np.maximum(expected, LEAST_RATE)), minlength=len(unseen))
        return cast("Floats", logs - unseen @ rates.sum(axis=1))
