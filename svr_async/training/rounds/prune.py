"""The four-criterion prune: relevance by weight, activation or support, then no near-duplicates (paper `sec:prune`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.prune_redundant import drop_redundant, same_criterion
from svr_async.training.bank.similarity_join import SimilarPairs, similar_pairs
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.ledger import Ledger
from svr_async.training.rounds.session import Growth

MOST_RATED, SAMPLE = 100_000, 20_000  # prompts: of more than that many, rates are counted on a sample


def prune(
    config: TrainConfig,
    bank: Sequence[Candidate],
    selector: Selector,
    activation: NDArray[np.float64],
    support: Mapping[str, int],
    judged: NDArray[np.floating],
    *,
    last: bool,
) -> list[int]:
    """Return the places kept: relevant by weight, activation or support, and repeating no more relevant one.

    Relevance is activation times weight, which the paper leaves open. A bank is never left empty: where nothing is
    relevant, the most relevant rubric stays. Before the `last` round a rubric that several prompts gave is kept until
    it has been `judged` often enough to be told apart from chance: what is pruned does not come back. That patience,
    and that weight counts only where a rubric is ever active, are ours, since the default's selector begins with equal
    weights; `config.PAPER` has neither, and repeats are found there by similarity alone.
    """
    relevance = activation * selector.weight
    covered = np.array([support.get(candidate.rubric.id, 0) > 0 for candidate in bank])
    relevant = selector.weight >= config.min_weight
    if not config.idle_weight_counts:
        relevant &= activation > 0
    relevant |= (activation >= config.min_activation) | covered
    if not last:
        several = np.array([candidate.observed_count >= config.several for candidate in bank])
        relevant |= several & (judged < config.enough_judged)
    order = np.lexsort((np.arange(len(bank)), -relevance))
    wanted = [int(place) for place in order if relevant[place]] or [int(order[0])]
    return sorted(drop_redundant(wanted, _repeats(bank, config), config.redundancy_cutoff))


def _repeats(bank: Sequence[Candidate], config: TrainConfig) -> SimilarPairs:
    """Return which rubrics repeat each other by their texts; without different criteria, unless texts alone decide."""
    rubrics = [candidate.rubric for candidate in bank]
    similar = similar_pairs([rubric.text for rubric in rubrics], config.redundancy_cutoff)
    return similar if config.by_text_alone else same_criterion(similar, rubrics)


def activation_rates(selector: Selector, train: FitArrays) -> NDArray[np.float64]:
    """Return the mean alpha of each rubric over the training prompts, or a sample of them, shape (n_rubrics,)."""
    rows = np.unique(train.pair_prompt)
    rows = rows[rated(len(rows))]
    total = np.zeros(selector.n_rubrics)
    for row in rows.tolist():
        total += alpha_numpy(selector, *train.features(row))
    return total / max(1, len(rows))


def rated(count: int) -> NDArray[np.int64]:
    """Return the places of the training prompts on which rates are counted: all, or `SAMPLE` at even distances."""
    return np.arange(count) if count <= MOST_RATED else np.arange(SAMPLE) * count // SAMPLE


def support_counts(growth: Growth, ledger: Ledger, index: Mapping[str, int]) -> dict[str, int]:
    """Count, for each rubric, the support pairs and hard negatives on which it clearly favours the chosen response.

    The pairs are those that the round was fitted with, found at the end of the one before. The paper's "support-pair
    coverage" has neither a definition nor a threshold: here one such pair is enough.
    """
    counts: Counter[int] = Counter()
    for pair_id in (*growth.support, *(negative.pair.id for negative in growth.negatives)):
        rubric, z = ledger.entries(pair_id, index)
        counts.update(int(place) for place in rubric[z > 0.5])
    ids = list(index)
    return {ids[place]: count for place, count in counts.items()}
