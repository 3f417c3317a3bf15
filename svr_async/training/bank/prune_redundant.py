"""Near-duplicates in a bank: the sparse redundancy of the diversity loss, and the sweep that drops them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svr_async.core.rubric import Rubric
from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.training.bank.distinct import checks_differ, differ, profile
from svr_async.training.bank.similarity_join import SimilarPairs, similar_pairs


@dataclass(frozen=True, slots=True, eq=False)
class RedundancyEdges:
    """The positive entries of the redundancy matrix above its diagonal: rubrics i < j, value in (0, 1]."""

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    value: NDArray[np.float32]


def redundancy_edges(texts: Sequence[str], cutoff: float = REDUNDANCY_CUTOFF) -> RedundancyEdges:
    """Return which rubrics of a bank repeat each other, and how much (paper `app:hparams`).

    redundancy_ij = max(0, similarity_ij − cutoff) / (1 − cutoff) over texts, zero diagonal; only positive entries are
    listed, each once. After merging at 0.88 all that is left above the cutoff are texts that read alike and are
    different criteria, as "at most 50 words" and "at most 100 words".
    """
    if not 0 <= cutoff < 1:
        raise ValueError(f"cutoff must be >= 0 and < 1 (got {cutoff})")
    found = similar_pairs(texts, max(cutoff, np.finfo(np.float64).tiny))
    above = found.similarity > cutoff
    values = (found.similarity[above] - cutoff) / (1 - cutoff)
    return RedundancyEdges(
        found.first[above].astype(np.int32), found.second[above].astype(np.int32), values.astype(np.float32)
    )


def drop_redundant(order: Sequence[int], similar: SimilarPairs, cutoff: float = REDUNDANCY_CUTOFF) -> list[int]:
    """Sweep `order` (positions, most relevant first) and return those kept, in that order (paper `sec:prune`).

    A position is dropped where a kept one before it is similar to it by at least the cutoff; pairs that are not in
    `similar` are not similar. A dropped position drops nothing.
    """
    close = similar.above(cutoff).neighbours(1 + max([*order, *similar.second.tolist()], default=-1))
    kept: dict[int, None] = {}
    for place in order:
        if not any(other in kept for other, _ in close[place]):
            kept[place] = None
    return list(kept)


def same_criterion(similar: SimilarPairs, rubrics: Sequence[Rubric]) -> SimilarPairs:
    """Return the pairs that are one criterion worded twice: neither `distinct.differ` nor their checks part them."""
    profiles = {place: profile(rubrics[place].text) for place in {*similar.first.tolist(), *similar.second.tolist()}}
    keep = np.array(
        [
            not differ(profiles[i], profiles[j]) and not checks_differ(rubrics[i].check, rubrics[j].check)
            for i, j in zip(similar.first.tolist(), similar.second.tolist(), strict=True)
        ],
        dtype=bool,
    )
    return SimilarPairs(similar.first[keep], similar.second[keep], similar.similarity[keep])
