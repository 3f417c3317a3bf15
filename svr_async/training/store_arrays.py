"""From a feature store to the arrays that a fit reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.training.prune_redundant import RedundancyEdges
from svr_async.training.store import OWN, SPLITS, FeatureStore


def fit_arrays(
    store: FeatureStore, *, split: str | None = None, redundancy: RedundancyEdges | None = None
) -> tuple[FitArrays, NDArray[np.int64]]:
    """Return the arrays of the active rubrics, and which rubrics of the store they are, (n_active,).

    `split` leaves only the pairs of `train` or `dev`; prompts keep their rows. `redundancy` is over the active rubrics.
    """
    if split is not None and split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)} or None (got {split!r})")
    active = np.array([place for place, entry in enumerate(store.rubrics) if entry.active], dtype=np.int64)
    arrays = _all_arrays(store, redundancy, active).restrict_rubrics(active)
    if split is not None:
        arrays = arrays.take_pairs(np.flatnonzero(store.is_dev == (split == "dev")))
    return arrays, active


def _all_arrays(store: FeatureStore, redundancy: RedundancyEdges | None, active: NDArray[np.int64]) -> FitArrays:
    source_indptr, source_prompt = _sources(store)
    edges = redundancy
    return FitArrays(
        n_rubrics=len(store.rubrics),
        n_features=len(store.header.vocabulary),
        feature_indptr=store.features.indptr,
        feature_index=store.features.index,
        feature_value=store.features.value,
        pair_prompt=store.prompt_row,
        z_indptr=store.z.indptr,
        z_rubric=store.z.index,
        z_delta=store.z.value,
        z_own=(store.z.flags & OWN) > 0,
        negative_of=store.negative_of,
        source_indptr=source_indptr,
        source_prompt=source_prompt,
        redundancy_i=None if edges is None else active[edges.i],
        redundancy_j=None if edges is None else active[edges.j],
        redundancy_value=None if edges is None else edges.value,
    )


def _sources(store: FeatureStore) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, as a CSR from rubrics to prompts, the training prompts that each rubric was mined from."""
    wanted = {pair for entry in store.rubrics for pair in entry.candidate.source_pair_ids}
    places = {pair: place for place, pair in enumerate(store.pair_ids) if pair in wanted}
    rows = [_rows_of(entry.candidate.source_pair_ids, places, store) for entry in store.rubrics]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([row for found in rows for row in found], dtype=np.int32)


def _rows_of(pair_ids: Sequence[str], places: dict[str, int], store: FeatureStore) -> list[int]:
    return sorted({int(store.prompt_row[places[pair]]) for pair in pair_ids if pair in places})
