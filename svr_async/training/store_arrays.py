"""From a feature store to the arrays that a fit reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.training.problem import source_numbers
from svr_async.training.prune_redundant import RedundancyEdges, redundancy_edges
from svr_async.training.round_data import RoundData
from svr_async.training.rubric_words import rubric_words
from svr_async.training.store import MEASURED, OWN, SPLITS, FeatureStore, Judged
from svr_async.vocabulary.similarity import REDUNDANCY_CUTOFF


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredRound:
    """A store as a round: what is fitted, and the dev pairs with what only measuring judged."""

    data: RoundData
    measured: FitArrays


def stored_round(store: FeatureStore, *, cutoff: float = REDUNDANCY_CUTOFF) -> StoredRound:
    """Return what a training's round would have in memory; of a round's own store it is the same, array by array."""
    active = [entry for entry in store.rubrics if entry.active]
    edges = redundancy_edges([entry.candidate.rubric.text for entry in active], cutoff)
    train, _ = fit_arrays(store, split="train", redundancy=edges)
    dev, _ = fit_arrays(store, split="dev", redundancy=edges)
    measured, _ = fit_arrays(store, split="dev", redundancy=edges, measured=True)
    data = RoundData(
        bank=tuple(entry.candidate for entry in active),
        train=train,
        dev=dev,
        support={entry.id: entry.support_count for entry in active if entry.support_count},
        last=store.header.plan.last,
    )
    return StoredRound(data=data, measured=measured)


def fit_arrays(
    store: FeatureStore,
    *,
    split: str | None = None,
    redundancy: RedundancyEdges | None = None,
    measured: bool = False,
) -> tuple[FitArrays, NDArray[np.int64]]:
    """Return the arrays of the active rubrics, and which rubrics of the store they are, (n_active,).

    `split` leaves only the pairs of `train` or `dev`; prompts keep their rows. `redundancy` is over the active rubrics.
    Entries of weight 0 are left out, and, unless `measured`, those that were judged for measuring only.
    """
    if split is not None and split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)} or None (got {split!r})")
    active = np.array([place for place, entry in enumerate(store.rubrics) if entry.active], dtype=np.int64)
    z = _seen(store.z, measured=measured)
    whole = len(active) == len(store.rubrics)
    arrays = _all_arrays(store, z, redundancy, active)
    arrays = arrays if whole else arrays.restrict_rubrics(active)
    rows = np.arange(len(store)) if split is None else np.flatnonzero(store.is_dev == (split == "dev"))
    if split is not None:
        arrays = arrays.take_pairs(rows)
    names = store.sources
    return replace(_plain(arrays), pair_source=source_numbers([names[row] for row in rows.tolist()])), active


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


def _all_arrays(
    store: FeatureStore, z: Judged, redundancy: RedundancyEdges | None, active: NDArray[np.int64]
) -> FitArrays:
    source_indptr, source_prompt = _sources(store)
    word_indptr, word_number = rubric_words([entry.candidate.rubric.text for entry in store.rubrics])
    edges = redundancy
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
        redundancy_i=None if edges is None else active[edges.i].astype(np.int32),
        redundancy_j=None if edges is None else active[edges.j].astype(np.int32),
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
