"""The stores of a training, and a store as the arrays of a fit.

    OUT/stores/round-N/    the merged bank, all pairs, the hard negatives of the rounds before, every judged entry

A round is written after it is measured, so that `svr-fit` can fit it again. Dev entries judged only to measure the bank
are flagged `MEASURED`: no fit sees them, the choice of top_k and filler weight does.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from svr_async.core.files import reason
from svr_async.core.pair import prompt_text
from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.errors import StorageError, SvrError, UsageError
from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.training.bank.distinct import rubric_words
from svr_async.training.bank.merge import Candidate, criterion_numbers
from svr_async.training.bank.near_duplicates import redundancy_edges
from svr_async.training.rounds.config import FitTerms
from svr_async.training.rounds.induction import candidate_to_json
from svr_async.training.rounds.session import (
    HardNegative,
    JudgedRound,
    Material,
    RoundData,
    Session,
    Sources,
    source_names,
    source_numbers,
)
from svr_async.training.rounds.stages import digest_of, pair_to_json
from svr_async.training.store.files import (
    MEASURED,
    OWN,
    Csr,
    FeatureStore,
    Header,
    pair_schema,
    read_header,
    verify_files,
    write_store,
)

NAME = "round-"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def material_store(
    material: Material,
    header: Header,
    rubrics: Sequence[Candidate],
    z: Csr,
    *,
    negatives: Sequence[HardNegative] = (),
    support: Mapping[str, int] | None = None,
) -> FeatureStore:
    """Return the store of train pairs, dev pairs and hard negatives; `z` has a row for each, in that order."""
    import pyarrow as pa

    pairs = [*material.pairs, *(negative.pair for negative in negatives)]
    dev = {pair.id for pair in material.dev}
    of = {negative.pair.id: negative.of for negative in negatives}
    prompts, schema = [prompt_text(pair.prompt) for pair in pairs], pair_schema()
    columns = {
        "pair_id": [pair.id for pair in pairs],
        "prompt": prompts,
        "prompt_row": [material.prompts.row_of[prompt] for prompt in prompts],
        "domain": [pair.domain for pair in pairs],
        "split": ["dev" if pair.id in dev else "train" for pair in pairs],
        "strength": [pair.strength for pair in pairs],
        "kind": ["hard_negative" if pair.id in of else "pair" for pair in pairs],
        "of": [of.get(pair.id, "") for pair in pairs],
        "source": source_names(material.pairs, negatives),
    }
    features = material.prompts
    return FeatureStore(
        header=msgspec.structs.replace(header, data_digests={"pairs": material.digest}),
        vocabulary=material.vocabulary,
        rubrics=tuple(rubrics),
        pairs=pa.table([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema=schema),
        features=Csr(indptr=features.indptr, index=features.index, value=features.value),
        z=z,
        support=dict(support or {}),
    )


def write_judged(session: Session, folder: Path, bank: Sequence[Candidate], header: Header) -> int:
    """Write the session's pairs and all that was judged of them on a bank (see `write_new`); return how many entries.

    The marks of the session's judge are added to the header.
    """
    material = session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    rows = [session.ledger.entries(pair.id, index) for pair in material.pairs]
    borders = ragged.indptr_of(np.array([len(rubric) for rubric, _ in rows], dtype=np.int64))
    rubric, z = (np.concatenate([row[part] for row in rows]) for part in (0, 1))
    prompts = np.array([material.prompts.row(pair) for pair in material.pairs])
    own = own_entries(session.sources_of(bank), np.repeat(prompts, np.diff(borders)), rubric)
    flags = np.where(own, OWN, 0).astype(np.uint8)
    judged = Csr(indptr=borders, index=rubric.astype(np.int32), value=z.astype(np.float32), flags=flags)
    header = msgspec.structs.replace(header, marks=tuple(sorted(session.judges.judge.marks)))
    write_new(folder, material_store(material, header, bank, judged))
    return len(z)


def own_entries(sources: Sources, prompts: NDArray[np.integer], rubrics: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return which entries judge a rubric that was mined from that very prompt alone (see `Sources.own`)."""
    count = len(sources.rows_of)
    own = [int(row) * count + int(one) for row in np.unique(prompts) for one in sources.own(int(row))]
    return np.isin(prompts.astype(np.int64) * count + rubrics, np.array(own, dtype=np.int64))


def write_new(folder: Path, store: FeatureStore) -> None:
    """Write a store; if the folder exists it must hold this very store, or UsageError is raised."""
    part = _write_part(folder, store)
    if not folder.exists():
        _move(part, folder)
        return
    same = (folder / "meta.json").exists() and read_header(folder) == read_header(part)
    shutil.rmtree(part)
    if not same:
        raise store_exists(folder)


def store_exists(folder: Path) -> UsageError:
    """Return the error for a store that would replace something else."""
    return UsageError(f"{folder} exists already", hint="name another folder with --out, or remove it")


def _write_part(folder: Path, store: FeatureStore) -> Path:
    """Write a whole store next to its place, so that a run that is killed leaves no partial one."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    write_store(part, store)
    return part


def _move(part: Path, folder: Path) -> None:
    try:
        part.rename(folder)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {reason(error)}", hint="choose another folder") from error


def write_round(session: Session, judged: JudgedRound, folder: Path, header: Header) -> None:
    """Write a round's store as `folder`/round-N in place of one of other data; the same one is left as it is."""
    place, data = folder / f"{NAME}{judged.number}", judged.data
    header = msgspec.structs.replace(header, made_of=_made_of(session, judged, header.plan))
    if _holds(place, header):
        return
    z = _entries_of(judged)
    store = material_store(session.material, header, data.bank, z, negatives=judged.negatives, support=data.support)
    part = _write_part(place, store)
    shutil.rmtree(place, ignore_errors=True)
    _move(part, place)


def drop_rounds(folder: Path, *, after: int) -> None:
    """Remove the stores of later rounds that an earlier training left."""
    for place in folder.glob(f"{NAME}*"):
        number = place.name.removeprefix(NAME)
        if number.isdecimal() and int(number) > after:
            shutil.rmtree(place, ignore_errors=True)


def _holds(place: Path, header: Header) -> bool:
    """Whether a folder holds the whole store of this header."""
    try:
        held = read_header(place)
        verify_files(place, held)
    except SvrError:
        return False
    names = ("made_of", "judge", "prompts_digest")
    return all(getattr(held, name) == getattr(header, name) for name in names)


def _made_of(session: Session, judged: JudgedRound, terms: FitTerms) -> str:
    data = judged.data
    bank = [candidate_to_json(candidate) for candidate in data.bank]
    negatives = [[pair_to_json(negative.pair), negative.of] for negative in judged.negatives]
    arrays = [part.digest() for part in (data.train, data.dev, judged.measured)]
    return digest_of(session.material.digest, bank, negatives, arrays, dict(data.support), terms.as_json())


def _entries_of(judged: JudgedRound) -> Csr:
    """Return all entries of a round, flagged: rows of train pairs, dev pairs and hard negatives."""
    train, dev = judged.data.train, judged.measured
    seen = np.isin(_keys(dev), _keys(judged.data.dev), assume_unique=True)
    flags = _own(train), _own(dev) | np.where(seen, 0, MEASURED).astype(np.uint8)
    n_pairs = train.n_pairs - len(judged.negatives)
    border, counts = int(train.z_indptr[n_pairs]), np.diff(train.z_indptr)

    def joined(outer: NDArray[np.generic], inner: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.concatenate([outer[:border], inner, outer[border:]])

    return Csr(
        indptr=ragged.indptr_of(np.concatenate([counts[:n_pairs], np.diff(dev.z_indptr), counts[n_pairs:]])),
        index=joined(train.z_rubric, dev.z_rubric).astype(np.int32),
        value=joined(train.z_delta, dev.z_delta).astype(np.float32),
        flags=joined(*flags).astype(np.uint8),
    )


def _own(arrays: FitArrays) -> NDArray[np.uint8]:
    marks = np.zeros(arrays.n_entries, bool) if arrays.z_own is None else arrays.z_own
    return np.where(marks, OWN, 0).astype(np.uint8)


def _keys(arrays: FitArrays) -> NDArray[np.int64]:
    return ragged.row_ids(arrays.z_indptr) * arrays.n_rubrics + arrays.z_rubric


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def stored_round(store: FeatureStore, *, cutoff: float = REDUNDANCY_CUTOFF) -> JudgedRound:
    """Return a store as a round; of a round's own store it is what training had in memory, array by array."""
    whole = _without_entries(store, cutoff)
    fitted, measured = (_with_entries(whole, store.z, measured=each) for each in (False, True))
    data = RoundData(
        bank=store.rubrics,
        train=_split(store, fitted, dev=False),
        dev=_split(store, fitted, dev=True),
        support=store.support,
        last=store.header.plan.last,
    )
    return JudgedRound(number=store.header.plan.round, data=data, measured=_split(store, measured, dev=True))


def _split(store: FeatureStore, arrays: FitArrays, *, dev: bool) -> FitArrays:
    rows = np.flatnonzero(store.is_dev == dev)
    part = arrays.take_pairs(rows)
    of = part.negative_of
    return replace(
        part,
        negative_of=None if of is None or bool((of < 0).all()) else of.astype(np.int32),
        pair_source=source_numbers(store.pairs["source"].take(rows).to_pylist()),
    )


def _with_entries(arrays: FitArrays, z: Csr, *, measured: bool) -> FitArrays:
    """Return the arrays with the entries that weigh something and, unless `measured`, are not for measuring alone."""
    assert z.flags is not None
    keep = np.ones(len(z.value), bool) if z.weight is None else z.weight > 0
    if not measured:
        keep &= (z.flags & MEASURED) == 0
    every: slice | NDArray[np.bool_] = slice(None) if bool(keep.all()) else keep
    return replace(
        arrays,
        z_indptr=z.indptr if isinstance(every, slice) else ragged.kept_indptr(z.indptr, keep),
        z_rubric=z.index[every],
        z_delta=z.value[every],
        z_own=(z.flags[every] & OWN) > 0,
        z_weight=None if z.weight is None else z.weight[every],
    )


def _without_entries(store: FeatureStore, cutoff: float) -> FitArrays:
    texts = [candidate.rubric.text for candidate in store.rubrics]
    edges = redundancy_edges(texts, cutoff)
    source_indptr, source_prompt = _sources(store)
    word_indptr, word_number = rubric_words(texts)
    return FitArrays(
        n_rubrics=len(texts),
        n_features=max(1, len(store.vocabulary.terms)),
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
        redundancy_i=edges.i,
        redundancy_j=edges.j,
        redundancy_value=edges.value,
        criterion=criterion_numbers(store.rubrics),
    )


def _sources(store: FeatureStore) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, as a CSR from rubrics to prompts, the training prompts that each rubric was mined from."""
    train = {pair: int(store.prompt_row[place]) for place, pair in enumerate(store.pair_ids) if not store.is_dev[place]}
    rows = [sorted({train[pair] for pair in one.source_pair_ids if pair in train}) for one in store.rubrics]
    borders = ragged.indptr_of(np.array([len(found) for found in rows], dtype=np.int64))
    return borders, np.array([row for found in rows for row in found], dtype=np.int32)
