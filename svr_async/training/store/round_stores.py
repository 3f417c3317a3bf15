"""The feature store of each round of a training: what it fitted on, so that `svr-fit` can do the same again.

    OUT/stores/round-N/    the merged bank, all pairs, the hard negatives of the rounds before, every judged entry

It is written when the round has been measured. The dev entries that were judged for measuring alone are in it, flagged
`MEASURED`: no fit sees them, the choice of top_k and filler weight does.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import SvrError
from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.training.rounds.config import FitTerms
from svr_async.training.rounds.session import JudgedRound, Session
from svr_async.training.rounds.stages import candidate_to_json, digest_of, pair_to_json
from svr_async.training.store import files
from svr_async.training.store.reader import PART, read_meta
from svr_async.training.store.records import MEASURED, OWN, Judged, StoreHeader, StoreRubric
from svr_async.training.store.session_store import move_to, put_beside, store_content, store_header

NAME = "round-"


def keep_round(
    session: Session, judged: JudgedRound, *, folder: Path, terms: FitTerms, judge: str, prompts_digest: str
) -> None:
    """Write a round's store as `folder`/round-N, over one of other data; the very same one is left as it is."""
    place = folder / f"{NAME}{judged.number}"
    header = store_header(
        session.material,
        judge=judge,
        marks=session.crew.judge.marks,
        prompts_digest=prompts_digest,
        terms=terms,
        made_of=_made_of(session, judged, terms),
    )
    if holds(place, header):
        return
    support = judged.data.support
    rubrics = [StoreRubric(candidate=one, support_count=support.get(one.rubric.id, 0)) for one in judged.data.bank]
    content = store_content(session.material, rubrics, judged.negatives, entries_of(judged))
    beside = put_beside(place, header, content)
    shutil.rmtree(place, ignore_errors=True)
    move_to(beside, place)


def drop_rounds(folder: Path, *, after: int) -> None:
    """Remove the stores of later rounds, which an earlier training left."""
    for place in folder.glob(f"{NAME}*"):
        number = place.name.removeprefix(NAME)
        if number.isdecimal() and int(number) > after:
            shutil.rmtree(place, ignore_errors=True)


def holds(place: Path, header: StoreHeader) -> bool:
    """Whether a folder holds the whole store of this header, file by file."""
    try:
        meta = read_meta(place)
        same = all(meta[name] == getattr(header, name) for name in ("made_of", "judge", "prompts_digest"))
        if not same:
            return False
        named = [meta[name] for name in ("vocabulary", "idf", "rubrics")]
        for entry in (*named, *(meta["parts"][0][name] for name in PART)):
            files.open_verified(place, entry).close()
    except SvrError:
        return False
    return True


def _made_of(session: Session, judged: JudgedRound, terms: FitTerms) -> str:
    """Return a digest of all that the store holds."""
    data = judged.data
    bank = [candidate_to_json(candidate) for candidate in data.bank]
    negatives = [[pair_to_json(negative.pair), negative.of] for negative in judged.negatives]
    arrays = [part.digest() for part in (data.train, data.dev, judged.measured)]
    return digest_of(session.material.digest, bank, negatives, arrays, dict(data.support), terms.as_json())


def entries_of(judged: JudgedRound) -> Judged:
    """Return all entries of a round: rows of train pairs, dev pairs and hard negatives, flagged."""
    train, dev = judged.data.train, judged.measured
    fitted = _keys(judged.data.dev)
    only_measured = np.where(np.isin(_keys(dev), fitted, assume_unique=True), 0, MEASURED).astype(np.uint8)
    flags = _own(train), _own(dev) | only_measured
    n_pairs = train.n_pairs - len(judged.negatives)
    border = int(train.z_indptr[n_pairs])
    counts = np.diff(train.z_indptr)
    return Judged(
        indptr=ragged.indptr_of(np.concatenate([counts[:n_pairs], np.diff(dev.z_indptr), counts[n_pairs:]])),
        index=_between(train.z_rubric, border, dev.z_rubric).astype(np.int32),
        value=_between(train.z_delta, border, dev.z_delta).astype(np.float32),
        flags=_between(flags[0], border, flags[1]).astype(np.uint8),
    )


def _between(values: NDArray[np.generic], border: int, inner: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the values with others put in at the border."""
    return np.concatenate([values[:border], inner, values[border:]])


def _own(arrays: FitArrays) -> NDArray[np.uint8]:
    marks = np.zeros(arrays.n_entries, bool) if arrays.z_own is None else arrays.z_own
    return np.where(marks, OWN, 0).astype(np.uint8)


def _keys(arrays: FitArrays) -> NDArray[np.int64]:
    """Return one number for each entry: its pair and rubric."""
    return ragged.row_ids(arrays.z_indptr) * arrays.n_rubrics + arrays.z_rubric
