"""From a feature store to the arrays that a fit reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.training.bank.distinct import rubric_words
from svr_async.training.bank.near_duplicates import RedundancyEdges, redundancy_edges
from svr_async.training.rounds.session import RoundData, source_numbers
from svr_async.training.store.records import MEASURED, OWN, SPLITS, FeatureStore, Judged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredRound:
    """A store as a round: what is fitted, and the dev pairs with what only measuring judged."""

    data: RoundData
    measured: FitArrays


def stored_round(store: FeatureStore, *, cutoff: float = REDUNDANCY_CUTOFF) -> StoredRound:
    """Return what a training's round would have in memory; of a round's own store it is the same, array by array."""
    whole = _all_arrays(store, redundancy_edges([entry.candidate.rubric.text for entry in store.rubrics], cutoff))
    fitted, measured = (_of_entries(whole, _seen(store.z, measured=each)) for each in (False, True))
    data = RoundData(
        bank=tuple(entry.candidate for entry in store.rubrics),
        train=_split(store, fitted, "train"),
        dev=_split(store, fitted, "dev"),
        support={entry.id: entry.support_count for entry in store.rubrics if entry.support_count},
        last=store.header.terms.last,
    )
    return StoredRound(data=data, measured=_split(store, measured, "dev"))


def fit_arrays(
    store: FeatureStore, split: str, *, redundancy: RedundancyEdges | None = None, measured: bool = False
) -> FitArrays:
    """Return the arrays of the pairs of `train` or `dev`; prompts keep their rows.

    Entries of weight 0 are left out, and, unless `measured`, those that were judged for measuring only.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)} (got {split!r})")
    return _split(store, _of_entries(_all_arrays(store, redundancy), _seen(store.z, measured=measured)), split)


def _split(store: FeatureStore, arrays: FitArrays, split: str) -> FitArrays:
    """Return the arrays of the pairs of a split, as a training has them."""
    rows = np.flatnonzero(store.is_dev == (split == "dev"))
    names = store.pairs["source"].take(rows).to_pylist()
    return replace(_plain(arrays.take_pairs(rows)), pair_source=source_numbers(names))


def _seen(z: Judged, *, measured: bool) -> Judged:
    """Return the entries that count here."""
    keep = np.ones(len(z.value), bool) if z.weight is None else z.weight > 0
    if not measured:
        keep &= (z.flags & MEASURED) == 0
    if bool(keep.all()):
        return z
    return Judged(
        indptr=ragged.kept_indptr(z.indptr, keep),
        index=z.index[keep],
        value=z.value[keep],
        flags=z.flags[keep],
        weight=None if z.weight is None else z.weight[keep],
    )


def _plain(arrays: FitArrays) -> FitArrays:
    """Return the arrays as a training has them: no column of originals where there are no hard negatives."""
    of = arrays.negative_of
    return replace(arrays, negative_of=None if of is None or bool((of < 0).all()) else of.astype(np.int32))


def _of_entries(arrays: FitArrays, z: Judged) -> FitArrays:
    """Return the arrays with other judged entries."""
    own = (z.flags & OWN) > 0
    return replace(arrays, z_indptr=z.indptr, z_rubric=z.index, z_delta=z.value, z_own=own, z_weight=z.weight)


def _all_arrays(store: FeatureStore, edges: RedundancyEdges | None) -> FitArrays:
    """Return all that is the same whichever entries count, with no entry."""
    source_indptr, source_prompt = _sources(store)
    word_indptr, word_number = rubric_words([entry.candidate.rubric.text for entry in store.rubrics])
    return FitArrays(
        n_rubrics=len(store.rubrics),
        n_features=max(1, len(store.header.vocabulary)),
        feature_indptr=store.features.indptr,
        feature_index=store.features.index,
        feature_value=store.features.value,
        pair_prompt=store.prompt_row,
        z_indptr=np.zeros(len(store) + 1, np.int64),
        z_rubric=np.zeros(0, np.int32),
        z_delta=np.zeros(0, np.float32),
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
    import pyarrow as pa
    from pyarrow import compute

    named = [entry.candidate.source_pair_ids for entry in store.rubrics]
    rubric = np.repeat(np.arange(len(named)), [len(ids) for ids in named])
    ids = pa.array([pair for ids in named for pair in ids], type=pa.string())
    place = compute.index_in(ids, value_set=store.pairs["pair_id"].combine_chunks()).fill_null(-1).to_numpy()
    known = place >= 0
    known[known] = ~store.is_dev[place[known]]
    row = store.prompt_row[place[known]].astype(np.int64)
    found = np.unique(rubric[known] * store.features.n_rows + row)  # each once, in order of rubric, then of row
    indptr = np.searchsorted(found, np.arange(len(named) + 1) * store.features.n_rows)
    return indptr.astype(np.int64), (found % max(1, store.features.n_rows)).astype(np.int32)
