"""Writing judged pools as a feature store: what `svr-fit` reads, without judge or network."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.files import reason
from svr_async.core.integrity import NO_MARKS, Marks
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.errors import StorageError, UsageError
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import FitTerms
from svr_async.training.rounds.pools import sources_of
from svr_async.training.rounds.session import HardNegative, Material, Session, source_names
from svr_async.training.store.records import OWN, Csr, Judged, PairRows, StoreContent, StoreHeader, StoreRubric
from svr_async.training.store.writer import write_store


def write_session_store(
    session: Session,
    folder: Path,
    bank: Sequence[Candidate],
    negatives: Sequence[HardNegative] = (),
    *,
    prompts_digest: str = "",
    judge: str = "",
    terms: FitTerms | None = None,
) -> None:
    """Write the session's pairs and all that was judged of them on this bank as a new feature store.

    `judge` is how results of the judge are labelled, where more is known of it than its name; `terms` how it is fitted.
    Where the folder exists it must hold that very store; UsageError where it holds anything else.
    """
    material = session.material
    header = store_header(
        material,
        judge=judge or session.crew.judge.name,
        marks=session.crew.judge.marks,
        prompts_digest=prompts_digest,
        terms=terms or FitTerms(),
    )
    rubrics = [StoreRubric(candidate=candidate) for candidate in bank]
    pairs = [*material.pairs, *(negative.pair for negative in negatives)]
    beside = put_beside(folder, header, store_content(material, rubrics, negatives, _judged(session, bank, pairs)))
    settle(beside, folder)


def store_header(
    material: Material,
    *,
    judge: str,
    prompts_digest: str,
    terms: FitTerms,
    marks: Marks = NO_MARKS,
    made_of: str = "",
) -> StoreHeader:
    """Return what a store of this material says about itself."""
    return StoreHeader(
        vocabulary=material.vocabulary.terms,
        idf=material.vocabulary.idf,
        judge=judge,
        marks=marks,
        prompts_digest=prompts_digest,
        data_digests={"pairs": material.digest},
        terms=terms,
        made_of=made_of,
    )


def store_content(
    material: Material, rubrics: Sequence[StoreRubric], negatives: Sequence[HardNegative], z: Judged
) -> StoreContent:
    """Return what a store holds: train pairs, dev pairs, hard negatives; `z` has a row for each, in that order."""
    pairs = [*material.pairs, *(negative.pair for negative in negatives)]
    return StoreContent(
        rubrics=rubrics,
        pairs=_pair_rows(material, pairs, negatives),
        features=Csr(indptr=material.prompts.indptr, index=material.prompts.index, value=material.prompts.value),
        z=z,
    )


def put_beside(folder: Path, header: StoreHeader, content: StoreContent) -> Path:
    """Write a whole store beside its place, so that a run that is cut off leaves none that is half there."""
    beside = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    write_store(beside, header, content)
    return beside


def move_to(beside: Path, folder: Path) -> None:
    """Give a whole store its place, which must be free; StorageError where that cannot be."""
    try:
        beside.rename(folder)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {reason(error)}", hint="choose another folder") from error


def settle(beside: Path, folder: Path) -> None:
    """Move a whole store to its place, unless the same is there already."""
    if not folder.exists():
        move_to(beside, folder)
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


def _pair_rows(material: Material, pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative]) -> PairRows:
    dev = {pair.id for pair in material.dev}
    of = {negative.pair.id: negative.of for negative in negatives}
    prompts = [prompt_text(pair.prompt) for pair in pairs]
    return PairRows(
        pair_id=[pair.id for pair in pairs],
        prompt=prompts,
        prompt_row=[material.prompts.row_of[prompt] for prompt in prompts],
        domain=[pair.domain for pair in pairs],
        split=["dev" if pair.id in dev else "train" for pair in pairs],
        strength=[pair.strength for pair in pairs],
        kind=["hard_negative" if pair.id in of else "pair" for pair in pairs],
        of=[of.get(pair.id, "") for pair in pairs],
        source=source_names(material.pairs, negatives),
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
