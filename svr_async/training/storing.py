"""Writing judged pools as a feature store: what `svr-fit` reads, without judge or network."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import UsageError
from svr_async.training.judging import sources_of
from svr_async.training.merge import Candidate
from svr_async.training.problem import HardNegative
from svr_async.training.session import Session
from svr_async.training.store import OWN, Csr, FeatureStore, Judged, PairRows, StoreHeader, StorePart, StoreRubric
from svr_async.vocabulary.pair import PreferencePair, prompt_text


def write_store(
    session: Session,
    folder: Path,
    bank: Sequence[Candidate],
    negatives: Sequence[HardNegative] = (),
    *,
    prompts_digest: str = "",
    judge: str = "",
) -> None:
    """Write the session's pairs and all that was judged of them on this bank as a new feature store.

    `judge` is how results of the judge are labelled, where more is known of it than its name.
    The store is made in a folder beside and then moved, so that a run that is cut off leaves none that is half there.
    Where the folder exists it must hold that very store; UsageError where it holds anything else.
    """
    beside = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    material = session.material
    header = StoreHeader(
        vocabulary=material.vocabulary.terms,
        idf=material.vocabulary.idf,
        judge=judge or session.crew.judge.name,
        prompts_digest=prompts_digest,
        data_digests={"pairs": material.digest},
    )
    FeatureStore.create(beside, header)
    pairs = [*material.pairs, *(negative.pair for negative in negatives)]
    features = Csr(indptr=material.prompts.indptr, index=material.prompts.index, value=material.prompts.value)
    part = StorePart(
        rubrics=[StoreRubric(candidate=candidate) for candidate in bank],
        pairs=_pair_rows(session, pairs, negatives),
        features=features,
        z=_judged(session, bank, pairs),
    )
    FeatureStore.append(beside, part)
    _settle(beside, folder)


def _settle(beside: Path, folder: Path) -> None:
    """Move a whole store to its place, unless the same is there already."""
    if not folder.exists():
        beside.rename(folder)
        return
    same = _files_of(beside) == _files_of(folder)
    shutil.rmtree(beside)
    if not same:
        raise store_exists(folder)


def store_exists(folder: Path) -> UsageError:
    """Return the error for a store that would be written where something else is."""
    return UsageError(f"{folder} exists already", hint="name another folder with --out, or remove it")


def _files_of(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _pair_rows(session: Session, pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative]) -> PairRows:
    dev = {pair.id for pair in session.material.dev}
    of = {negative.pair.id: negative.of for negative in negatives}
    return PairRows(
        pair_id=[pair.id for pair in pairs],
        prompt=[prompt_text(pair.prompt) for pair in pairs],
        prompt_row=[session.material.prompts.row(pair) for pair in pairs],
        domain=[pair.domain for pair in pairs],
        split=["dev" if pair.id in dev else "train" for pair in pairs],
        strength=[pair.strength for pair in pairs],
        kind=["hard_negative" if pair.id in of else "pair" for pair in pairs],
        of=[of.get(pair.id, "") for pair in pairs],
    )


def _judged(session: Session, bank: Sequence[Candidate], pairs: Sequence[PreferencePair]) -> Judged:
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    sources = sources_of(session, bank)
    rows = [session.ledger.entries(pair.id, index) for pair in pairs]
    flags = [
        np.where(np.isin(rubric, sources.own(session.material.prompts.row(pair))), OWN, 0).astype(np.uint8)
        for (rubric, _), pair in zip(rows, pairs, strict=True)
    ]
    return Judged(
        indptr=np.concatenate([[0], np.cumsum([len(rubric) for rubric, _ in rows])]).astype(np.int64),
        index=_joined([rubric for rubric, _ in rows], np.int32),
        value=_joined([z for _, z in rows], np.float32),
        flags=_joined(flags, np.uint8),
    )


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind)
