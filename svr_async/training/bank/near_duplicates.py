"""Near-duplicate rubrics: pairs of similar texts, the redundancy of the diversity loss, and the sweep that drops them.

`core.similarity` defines the measure: the larger of the Jaccard overlap of content tokens and difflib's ratio. Two
searches lose no pair. The letters in matching blocks form a common subsequence, so rapidfuzz's Indel similarity bounds
the ratio from above. With tokens sorted rarest first, sets that overlap enough share one of their first tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations
from math import ceil

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from svr_async.core.rubric import Rubric
from svr_async.core.similarity import REDUNDANCY_CUTOFF, content_tokens, jaccard, normalised
from svr_async.training.bank.distinct import checks_differ, differ, profile

try:
    from cdifflib import CSequenceMatcher as Matcher  # the same numbers, in C
except ImportError:
    Matcher = SequenceMatcher

BLOCK_ROWS = 512
SLACK = 1e-4  # bounds round otherwise than the similarity; rapidfuzz loses scores within 1e-9 of its cutoff


@dataclass(frozen=True, slots=True, eq=False)
class SimilarPairs:
    """Pairs first < second of positions with their similarity, in ascending order: a sparse matrix above a cutoff."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    similarity: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)

    def where(self, keep: NDArray[np.bool_]) -> SimilarPairs:
        """Return some of the pairs."""
        return SimilarPairs(self.first[keep], self.second[keep], self.similarity[keep])


def similar_pairs(texts: Sequence[str], cutoff: float) -> SimilarPairs:
    """Return every pair of texts with similarity >= cutoff, `cutoff` in (0, 1]; exact, as a double loop would be."""
    near = possible_pairs(texts, cutoff)
    places = zip(near.first.tolist(), near.second.tolist(), strict=True)
    exact = np.array([exact_similarity(texts[i], texts[j]) for i, j in places], dtype=np.float64)
    return SimilarPairs(near.first, near.second, exact).where(exact >= cutoff)


def possible_pairs(texts: Sequence[str], cutoff: float) -> SimilarPairs:
    """Return every pair that `similar_pairs` finds, and some more, with upper bounds in place of similarities."""
    if not 0 < cutoff <= 1:
        raise ValueError(f"cutoff must be > 0 and <= 1 (got {cutoff})")
    bounds = _pairs_by_tokens(texts, cutoff)
    for pair, ratio in _pairs_by_letters(texts, cutoff).items():
        bounds[pair] = max(ratio, bounds.get(pair, 0.0))
    ordered = sorted(bounds)
    places = np.array(ordered, dtype=np.int64).reshape(-1, 2)
    values = np.array([bounds[pair] for pair in ordered], dtype=np.float64)
    return SimilarPairs(places[:, 0], places[:, 1], values)


def exact_similarity(first: str, second: str) -> float:
    """Return `core.similarity.similarity` of two texts, by the faster matcher where it is installed."""
    if first == second:
        return 1.0
    shorter, longer = sorted((normalised(first), normalised(second)), key=lambda text: (len(text), text))
    overlap = jaccard(content_tokens(first), content_tokens(second))
    return max(overlap, Matcher(None, shorter, longer, autojunk=False).ratio()) if shorter else overlap


def _pairs_by_letters(texts: Sequence[str], cutoff: float) -> dict[tuple[int, int], float]:
    """Return the pairs whose Indel similarity reaches the cutoff, block by block of texts sorted by length."""
    plain = [normalised(text) for text in texts]
    order = sorted(range(len(plain)), key=lambda place: len(plain[place]))
    lengths = np.array([len(plain[place]) for place in order])
    found: dict[tuple[int, int], float] = {}
    for start in range(0, len(order), BLOCK_ROWS):
        rows = order[start : start + BLOCK_ROWS]
        longest = len(plain[rows[-1]]) * (2 - cutoff) / cutoff + 1  # 2·short / (short + long) >= cutoff
        columns = order[start : int(np.searchsorted(lengths, longest, side="right"))]
        ratios = cdist(
            [plain[place] for place in rows],
            [plain[place] for place in columns],
            scorer=Indel.normalized_similarity,
            score_cutoff=cutoff - SLACK,
            dtype=np.float64,
            workers=-1,
        )
        for row, column in zip(*(where.tolist() for where in np.nonzero(np.triu(ratios, 1))), strict=True):
            pair = min(rows[row], columns[column]), max(rows[row], columns[column])
            found[pair] = float(ratios[row, column]) + SLACK
    return found


def _pairs_by_tokens(texts: Sequence[str], cutoff: float) -> dict[tuple[int, int], float]:
    """Return the pairs whose content tokens overlap enough, looking only under each text's rarest tokens."""
    sets = [content_tokens(text) for text in texts]
    counts = Counter(token for tokens in sets for token in tokens)
    listed: dict[str, list[int]] = defaultdict(list)
    for place, tokens in enumerate(sets):
        least = max(1, ceil(cutoff * len(tokens) - SLACK))
        for token in sorted(tokens, key=lambda token: (counts[token], token))[: len(tokens) - least + 1]:
            listed[token].append(place)
    found: dict[tuple[int, int], float] = {}
    for pair in {pair for places in listed.values() for pair in combinations(places, 2)}:
        overlap = jaccard(sets[pair[0]], sets[pair[1]])
        if overlap >= cutoff:
            found[pair] = overlap
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RedundancyEdges:
    """The positive entries of the redundancy matrix above its diagonal: rubrics i < j, value in (0, 1]."""

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    value: NDArray[np.float32]


def redundancy_edges(texts: Sequence[str], cutoff: float = REDUNDANCY_CUTOFF) -> RedundancyEdges:
    """Return which rubrics of a bank repeat each other, and how much (paper `app:hparams`).

    redundancy_ij = max(0, similarity_ij − cutoff) / (1 − cutoff), zero diagonal; only positive entries, each once.
    After merging at 0.88 only texts that read alike and are different criteria are left above the cutoff, as "at most
    50 words" and "at most 100 words". The paper preset merges by text alone, so nothing is left and the term is 0.
    """
    if not 0 <= cutoff < 1:
        raise ValueError(f"cutoff must be >= 0 and < 1 (got {cutoff})")
    found = similar_pairs(texts, max(cutoff, np.finfo(np.float64).tiny))
    found = found.where(found.similarity > cutoff)
    values = (found.similarity - cutoff) / (1 - cutoff)
    return RedundancyEdges(found.first.astype(np.int32), found.second.astype(np.int32), values.astype(np.float32))


def drop_redundant(order: Sequence[int], similar: SimilarPairs, cutoff: float = REDUNDANCY_CUTOFF) -> list[int]:
    """Sweep positions, most relevant first, and return those similar to no kept one before (paper `sec:prune`)."""
    near: dict[int, set[int]] = defaultdict(set)
    close = similar.where(similar.similarity >= cutoff)
    for one, other in zip(close.first.tolist(), close.second.tolist(), strict=True):
        near[one].add(other)
        near[other].add(one)
    kept: dict[int, None] = {}
    for place in order:
        if near[place].isdisjoint(kept):
            kept[place] = None
    return list(kept)


def repeating_pairs(similar: SimilarPairs, rubrics: Sequence[Rubric]) -> SimilarPairs:
    """Return the pairs that ask for the same: neither `distinct.differ` nor their checks tell them apart."""
    profiles = {place: profile(rubrics[place].text) for place in {*similar.first.tolist(), *similar.second.tolist()}}
    pairs = zip(similar.first.tolist(), similar.second.tolist(), strict=True)
    keep = [
        not differ(profiles[i], profiles[j]) and not checks_differ(rubrics[i].check, rubrics[j].check) for i, j in pairs
    ]
    return similar.where(np.array(keep, dtype=bool))
