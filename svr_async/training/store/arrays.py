"""From a feature store to the arrays that a fit reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.training.bank.prune_redundant import RedundancyEdges, redundancy_edges
from svr_async.training.bank.rubric_words import rubric_words
from svr_async.training.rounds.problem import source_numbers
from svr_async.training.rounds.round_data import RoundData
from svr_async.training.store.records import MEASURED, OWN, SPLITS, FeatureStore, Judged
from svr_async.vocabulary.similarity import REDUNDANCY_CUTOFF


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredRound:
    """A store as a round: what is fitted, and the dev pairs with what only measuring judged."""

    data: RoundData
    measured: FitArrays


def stored_round(store: FeatureStore, *, cutoff: float = REDUNDANCY_CUTOFF) -> StoredRound:
    """Return what a training's round would have in memory; of a round's own store it is the same, array by array."""
    edges = redundancy_edges([entry.candidate.rubric.text for entry in store.rubrics], cutoff)
    data = RoundData(
        bank=tuple(entry.candidate for entry in store.rubrics),
        train=fit_arrays(store, "train", redundancy=edges),
        dev=fit_arrays(store, "dev", redundancy=edges),
        support={entry.id: entry.support_count for entry in store.rubrics if entry.support_count},
        last=store.header.terms.last,
    )
    return StoredRound(data=data, measured=fit_arrays(store, "dev", redundancy=edges, measured=True))


def fit_arrays(
    store: FeatureStore, split: str, *, redundancy: RedundancyEdges | None = None, measured: bool = False
) -> FitArrays:
    """Return the arrays of the pairs of `train` or `dev`; prompts keep their rows.

    Entries of weight 0 are left out, and, unless `measured`, those that were judged for measuring only.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)} (got {split!r})")
    rows = np.flatnonzero(store.is_dev == (split == "dev"))
    arrays = _all_arrays(store, _seen(store.z, measured=measured), redundancy).take_pairs(rows)
    names = store.sources
    return replace(_plain(arrays), pair_source=source_numbers([names[row] for row in rows.tolist()]))


def _seen(z: Judged, *, measured: bool) -> Judged:
    """Return the entries that count here."""
    keep = np.ones(len(z.value), bool) if z.weight is None else z.weight > 0
    if not measured:
        keep &= (z.flags & MEASURED) == 0
    if bool(keep.all()):
        return z
    counts = np.bincount(ragged.row_ids(z.indptr)[keep], minlength=z.n_rows)
    return Judged(
        indptr=ragged.indptr_of(counts),
        index=z.index[keep],
        value=z.value[keep],
        flags=z.flags[keep],
        weight=None if z.weight is None else z.weight[keep],
    )


def _plain(arrays: FitArrays) -> FitArrays:
    """Return the arrays as a training has them: no column of originals where there are no hard negatives."""
    of = arrays.negative_of
    return replace(arrays, negative_of=None if of is None or bool((of < 0).all()) else of.astype(np.int32))


def _all_arrays(store: FeatureStore, z: Judged, edges: RedundancyEdges | None) -> FitArrays:
    source_indptr, source_prompt = _sources(store)
    word_indptr, word_number = rubric_words([entry.candidate.rubric.text for entry in store.rubrics])
    return FitArrays(
        n_rubrics=len(store.rubrics),
        n_features=max(1, len(store.header.vocabulary)),
        feature_indptr=store.features.indptr,
        feature_index=store.features.index,
        feature_value=store.features.value,
        pair_prompt=store.prompt_row,
        z_indptr=z.indptr,
        z_rubric=z.index,
        z_delta=z.value,
        z_own=(z.flags & OWN) > 0,
        z_weight=z.weight,
        negative_of=store.negative_of,
        source_indptr=source_indptr,
        source_prompt=source_prompt,
        word_indptr=word_indptr,
        word_number=word_number,
        redundancy_i=None if edges is None else edges.i.astype(np.int32),
        redundancy_j=None if edges is None else edges.j.astype(np.int32),
        redundancy_value=None if edges is None else edges.value,
    )


def _sources(store: FeatureStore) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, as a CSR from rubrics to prompts, the training prompts that each rubric was mined from."""
    wanted = {pair for entry in store.rubrics for pair in entry.candidate.source_pair_ids}
    pairs = zip(store.pair_ids, store.is_dev.tolist(), strict=True)
    places = {pair: place for place, (pair, is_dev) in enumerate(pairs) if pair in wanted and not is_dev}
    rows = [_rows_of(entry.candidate.source_pair_ids, places, store) for entry in store.rubrics]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([row for found in rows for row in found], dtype=np.int32)


def _rows_of(pair_ids: Sequence[str], places: dict[str, int], store: FeatureStore) -> list[int]:
    return sorted({int(store.prompt_row[places[pair]]) for pair in pair_ids if pair in places})
