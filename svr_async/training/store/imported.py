"""A feature store from other people's data: pairs, rubrics, and judged entries between them.

    npz, lists     pair, rubric, z: vectors of one length; pair and rubric hold ids, or places from 0
    npz, CSR       indptr, indices, data: a row a pair, a column a rubric, as scipy.sparse.save_npz writes it
    Parquet        columns pair_id, rubric_id, z

Each may also have a weight for every z. Entries are sorted block by block, so that memory stays below three times the
size of the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from svr_async.core.files import read_plain, reason
from svr_async.core.pair import PreferencePair, split_by_prompt
from svr_async.errors import DataError, UsageError
from svr_async.fit import ragged
from svr_async.training.bank.build import bank_rubric, refuse_long_names
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import FitTerms, config_of
from svr_async.training.rounds.induction import candidate_from_json
from svr_async.training.rounds.session import Material, Sources, prepare
from svr_async.training.store.files import OWN, Csr, FeatureStore, Header, load_store
from svr_async.training.store.rounds import material_store, own_entries, write_new

Array = NDArray[Any]
LISTS, CSR = ("pair", "rubric", "z"), ("indptr", "indices", "data")
BLOCK_ENTRIES = 1 << 20
HINT = "docs/store.md shows the forms"
RUBRICS_HINT = 'a line is {"text": …} with an optional id, or what svr stages induce writes'


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How an import is made: the share of prompts held out as dev (0: none), the terms of the fit, who judged."""

    dev_share: float = 0.05
    terms: FitTerms = FitTerms()  # noqa: RUF009  (frozen)
    judge: str = "imported"


class RubricLine(msgspec.Struct, kw_only=True):
    """A line of a rubrics file: a rubric's own fields, or `rubric` with them as svr stages induce writes it."""

    rubric: dict[str, Any] | None = None
    text: str = ""
    facet: str = ""
    importance: str = ""
    grounding: str = ""
    check: dict[str, Any] | None = None
    id: str = ""
    sources: list[str] = []
    aliases: list[str] = []
    criterion: str = ""
    count: Annotated[int, msgspec.Meta(ge=1)] = 1

    def candidate(self) -> Candidate:
        """Return the line as a candidate that a bank can hold; ValueError or TypeError if it cannot."""
        names = ("text", "facet", "importance", "grounding", "check")
        rubric = self.rubric or {name: getattr(self, name) for name in names}
        plain = {"sources": self.sources, "count": self.count, "aliases": self.aliases, "criterion": self.criterion}
        found = candidate_from_json({"rubric": rubric, **plain})
        bank_rubric(found)
        return found


def import_store(
    pairs: Sequence[PreferencePair], digest: str, rubrics: Path, z: Path, out: Path, options: ImportOptions
) -> FeatureStore:
    """Write a store of these pairs, of the rubrics and entries in two files, and return it.

    `digest` is that of the pairs. Pairs without a preference or with equal responses are left out with their entries.
    DataError or UsageError, in one line, for anything wrong; nothing is written then.
    """
    candidates, names = read_rubrics(rubrics)
    material = _material(pairs, digest, options)
    judged = _judged(z, pairs, material, candidates, names)
    header = Header(judge=options.judge, plan=options.terms)
    write_new(out, material_store(material, header, candidates, judged))
    return load_store(out)


def read_rubrics(path: Path) -> tuple[list[Candidate], dict[str, int]]:
    """Return the rubrics of a JSON Lines file, and the place of every name: ids of the program and of the file."""
    try:
        lines = read_plain(path).splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", hint=RUBRICS_HINT) from error
    found: list[Candidate] = []
    names: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            held = msgspec.json.decode(line, type=RubricLine)
            candidate = held.candidate()
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path} line {number} is not a rubric: {error}", hint=RUBRICS_HINT) from error
        for name in {candidate.rubric.id, held.id} - {""}:
            if names.setdefault(name, len(found)) != len(found):
                raise DataError(f"{path} line {number}: the rubric {name[:60]!r} occurs twice", hint="each rubric once")
        found.append(candidate)
    if not found:
        raise DataError(f"{path} holds 0 rubrics", hint=RUBRICS_HINT)
    return found, names


def _material(pairs: Sequence[PreferencePair], digest: str, options: ImportOptions) -> Material:
    """Return the pairs, split by prompt as training splits them, with the features of their prompts."""
    useful = [pair for pair in pairs if pair.has_preference and pair.chosen != pair.rejected]
    refuse_long_names(useful)
    train, dev = split_by_prompt(useful, options.dev_share, salt=str(options.terms.seed))
    if not train:
        raise UsageError(
            f"0 of {len(pairs)} pairs are left to train on", hint="give more pairs with a preference, or hold out less"
        )
    return prepare(train, dev, digest=digest, pairs_of_words=config_of(options.terms).fit.pairs_of_words)


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judged(
    path: Path,
    pairs: Sequence[PreferencePair],
    material: Material,
    rubrics: Sequence[Candidate],
    names: Mapping[str, int],
) -> Csr:
    """Return the entries of a file as rows of the material's pairs, those of a pair's own rubrics flagged."""
    columns = _read(path, len(pairs), len(rubrics))
    rubric = _places(path, "rubric", columns.pop("rubric"), names, len(rubrics))
    z, weight = (_numbers(path, name, columns.pop(name, None)) for name in ("z", "weight"))
    assert z is not None
    if (borders := columns.pop("indptr", None)) is None:
        ids = {pair.id: place for place, pair in enumerate(pairs)}
        pair = _places(path, "pair", columns.pop("pair"), ids, len(pairs))
        if not len(pair) == len(rubric) == len(z):
            raise _wrong(path, f"{len(pair)} pairs, {len(rubric)} rubrics and {len(z)} values of z differ in length")
        borders = ragged.indptr_of(np.bincount(pair, minlength=len(pairs)))
        order = None if bool((pair[1:] >= pair[:-1]).all()) else np.argsort(pair, kind="stable")
        del pair
    else:
        order = None
    if len(z) != len(rubric) or (weight is not None and len(weight) != len(z)):
        raise _wrong(path, f"{len(rubric)} rubrics, {len(z)} values of z and another number of weights")
    place = {pair.id: number for number, pair in enumerate(pairs)}
    rows = np.array([place[pair.id] for pair in material.pairs], dtype=np.int64)
    out = Csr(
        indptr=ragged.indptr_of(np.diff(borders)[rows]),
        index=np.empty(int(np.diff(borders)[rows].sum()), np.int32),
        value=np.empty(int(np.diff(borders)[rows].sum()), np.float32),
        flags=np.zeros(int(np.diff(borders)[rows].sum()), np.uint8),
        weight=None if weight is None else np.empty(int(np.diff(borders)[rows].sum()), np.float32),
    )
    train, dev = ({pair.id: material.prompts.row(pair) for pair in side} for side in (material.train, material.dev))
    sources = Sources.of(rubrics, train, dev)
    prompts = np.array([material.prompts.row(pair) for pair in material.pairs], dtype=np.int64)
    for first, last in _blocks(out.indptr):
        span = slice(int(out.indptr[first]), int(out.indptr[last]))
        _, at = ragged.take_rows(borders, rows[first:last])
        at = np.arange(at.start, at.stop) if isinstance(at, slice) else at
        at = at if order is None else order[at]
        row = np.repeat(np.arange(first, last), np.diff(out.indptr[first : last + 1]))
        keys = row * len(rubrics) + rubric[at]
        rank = np.argsort(keys, kind="stable")
        if len(twice := np.flatnonzero(np.diff(keys[rank]) == 0)):
            pair_of = sorted(at[rank[twice[0] : twice[0] + 2]].tolist())
            raise _wrong(path, f"entries {pair_of[0]} and {pair_of[1]} are of the same pair and rubric")
        at = at[rank]
        out.index[span], out.value[span] = rubric[at], z[at]
        if out.weight is not None and weight is not None:
            out.weight[span] = weight[at]
        out.flags[span] = np.where(own_entries(sources, prompts[row], out.index[span]), OWN, 0)  # type: ignore[index]
    if problem := out.problem(len(rows), len(rubrics), judged=True):
        raise _wrong(path, problem)
    return out


def _blocks(indptr: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return spans of rows with about `BLOCK_ENTRIES` entries each."""
    starts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]) + 1, BLOCK_ENTRIES))
    borders = np.unique([0, *starts.tolist(), len(indptr) - 1]).tolist()
    return list(pairwise(borders))


def _places(path: Path, what: str, column: Any, names: Mapping[str, int], count: int) -> NDArray[np.integer]:
    """Return the place of each id; whole numbers are places already."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "U":
        texts, codes = np.unique(column, return_inverse=True)
        column = texts.tolist(), codes
    if isinstance(column, tuple):
        texts, codes = column
        places = np.array([names.get(text, -1) for text in texts], dtype=np.int32)
        if unknown := next((text for text in texts if text not in names), None):
            raise _wrong(path, f"it names the {what} {unknown[:60]!r}: no {what} has that id")
        return places[codes]
    if column.ndim != 1 or column.dtype.kind not in "iu":
        raise _wrong(path, f"{what} must be a vector of texts or whole numbers (got {column.dtype})")
    if len(column) > 0 and not 0 <= int(column.min()) <= int(column.max()) < count:
        bad = int(np.argmax((column < 0) | (column >= count)))
        raise _wrong(path, f"entry {bad} is of {what} {int(column[bad])}: there are {count}, counted from 0")
    return np.asarray(column)


def _numbers(path: Path, name: str, values: Any) -> NDArray[np.float32] | None:
    if values is None:
        return None
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "fiu":
        raise _wrong(path, f"{name} must be a vector of numbers")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return values.astype(np.float32, copy=False)


def _read(path: Path, n_pairs: int, n_rubrics: int) -> dict[str, Any]:
    """Return the columns of a file: rubric, z, perhaps weight, and pair or indptr; texts as (texts, codes)."""
    kinds = {".npz": _from_npz, ".parquet": _from_parquet}
    read = kinds.get(path.suffix.lower())
    if read is None or not path.is_file():
        what = f"no such file: {path}" if read else f"cannot read {path}: unknown suffix"
        raise DataError(what, hint=f"accepted: {', '.join(kinds)}")
    try:
        return read(path, n_pairs, n_rubrics)
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}", hint="check the path") from error
    except (ValueError, TypeError, KeyError, AttributeError, EOFError) as error:
        raise _wrong(path, f"it is not readable ({' '.join(str(error).split())[:120]})") from error


def _from_npz(path: Path, n_pairs: int, n_rubrics: int) -> dict[str, Any]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files if name in {*LISTS, *CSR, "weight", "shape", "format"}}
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error
    if (set(LISTS) <= set(held)) == (set(CSR) <= set(held)):
        found = ", ".join(sorted(held)) or "neither"
        raise _wrong(path, f"it must hold either {', '.join(LISTS)} or {', '.join(CSR)} (found {found})")
    if set(LISTS) <= set(held):
        return {name: held[name] for name in (*LISTS, "weight") if name in held}
    if "format" in held and held["format"].item() not in {b"csr", "csr"}:
        raise _wrong(path, "its sparse matrix is not in CSR form; save matrix.tocsr()")
    if "shape" in held and held["shape"].tolist() != [n_pairs, n_rubrics]:
        raise _wrong(path, f"its shape is {held['shape'].tolist()}, there are {n_pairs} pairs and {n_rubrics} rubrics")
    borders, columns = held["indptr"].astype(np.int64), {"rubric": held["indices"], "z": held["data"]}
    whole = borders.ndim == 1 and len(borders) == n_pairs + 1 and borders[0] == 0
    if not whole or borders[-1] != len(held["indices"]) or bool((np.diff(borders) < 0).any()):
        raise _wrong(path, f"indptr must rise in {n_pairs + 1} numbers from 0 to {len(held['indices'])}")
    return {**columns, "indptr": borders, **({"weight": held["weight"]} if "weight" in held else {})}


def _from_parquet(path: Path, _n_pairs: int, _n_rubrics: int) -> dict[str, Any]:
    from pyarrow import parquet

    names = parquet.read_schema(path).names
    if missing := {"pair_id", "rubric_id", "z"} - set(names):
        raise _wrong(path, f"the column {min(missing)} is missing (found {', '.join(names)[:200]})")
    wanted = ["pair_id", "rubric_id", "z", *(["weight"] if "weight" in names else [])]
    table = parquet.read_table(path, columns=wanted, use_threads=False, pre_buffer=False)
    if empty := next((name for name in wanted if table[name].null_count), None):
        raise _wrong(path, f"the column {empty} has empty cells; leave out what was not judged")
    columns: dict[str, Any] = {}
    for name in wanted:
        column = table[name].combine_chunks()
        if name.endswith("_id"):
            coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
            columns[name.removesuffix("_id")] = coded.dictionary.to_pylist(), coded.indices.to_numpy()
        else:
            columns[name] = column.to_numpy()
    return columns


def _wrong(path: Path, problem: str) -> DataError:
    return DataError(f"{path}: {problem}", hint=HINT)
