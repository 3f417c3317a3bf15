"""Judged entries that people bring: an npz (lists or CSR) or a Parquet file, checked value by value.

    npz, lists     pair, rubric, z: vectors of one length; pair and rubric hold ids, or places from 0
    npz, CSR       indptr, indices, data: a row a pair, a column a rubric, as scipy.sparse.save_npz writes it
    Parquet        columns pair_id, rubric_id, z

each also with a weight for every z.
Anything wrong is a DataError of one line that names the file and the value. Objects are never read.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.files import reason
from svr_async.errors import DataError
from svr_async.fit import ragged
from svr_async.training.store.records import weight_problem, z_problem

Array = NDArray[Any]
Ints = NDArray[np.int64]

LISTS, CSR = ("pair", "rubric", "z"), ("indptr", "indices", "data")
COLUMNS = ("pair_id", "rubric_id", "z")
WEIGHT = "weight"
SHOWN_CHARS = 60
MOST_UNPACKED = 1 << 28  # bytes of arrays that may be packed as small as they like
MOST_RATIO = 100
HINT = "docs/store.md shows the forms"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entries:
    """Judged entries in rising order of (pair, rubric), each once: places from 0, z, weights where there are any."""

    pair: Ints
    rubric: Ints
    z: NDArray[np.float32]
    weight: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of texts, each different one once: `texts[index[n]]` is the text of entry n."""

    texts: Sequence[str]
    index: Ints


Column = Array | Coded


def read_entries(path: Path, pairs: Mapping[str, int], n_pairs: int, rubrics: Mapping[str, int]) -> Entries:
    """Read a file of entries; `pairs` and `rubrics` map every name that may stand in it to a place.

    `n_pairs` is the number of places of pairs; rubrics have as many as their largest place says.
    """
    n_rubrics = 1 + max(rubrics.values(), default=-1)
    kinds = {".npz": _from_npz, ".parquet": _from_parquet}
    read = kinds.get(path.suffix.lower())
    if read is None:
        raise DataError(f"cannot read {path}: unknown suffix", hint=f"accepted: {', '.join(kinds)}")
    columns = read(path, n_pairs, n_rubrics)
    pair = _places(path, "pair", columns["pair"], pairs, n_pairs)
    rubric = _places(path, "rubric", columns["rubric"], rubrics, n_rubrics)
    z = _floats(path, "z", columns["z"])
    weights = _floats(path, WEIGHT, columns[WEIGHT]) if WEIGHT in columns else None
    if not len(pair) == len(rubric) == len(z):
        raise _wrong(path, f"{len(pair)} pairs, {len(rubric)} rubrics and {len(z)} values of z differ in length")
    if problem := z_problem(z) or weight_problem(weights, len(z)):
        raise _wrong(path, problem)
    return _sorted(path, Entries(pair=pair, rubric=rubric, z=z, weight=weights), n_rubrics)


def _wrong(path: Path, problem: str) -> DataError:
    return DataError(f"{path}: {problem}", hint=HINT)


def _sorted(path: Path, entries: Entries, n_rubrics: int) -> Entries:
    keys = entries.pair * max(1, n_rubrics) + entries.rubric
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(twice):
        first, second = sorted(order[twice[0] : twice[0] + 2].tolist())
        raise _wrong(path, f"entries {first} and {second} are of the same pair and rubric")
    weight = None if entries.weight is None else entries.weight[order]
    return Entries(pair=entries.pair[order], rubric=entries.rubric[order], z=entries.z[order], weight=weight)


def _floats(path: Path, name: str, values: Column) -> NDArray[np.float32]:
    if isinstance(values, Coded):
        raise _wrong(path, f"{name} must hold numbers, not texts")
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise _wrong(path, f"{name} must be a vector of numbers (got {values.dtype}, {values.ndim} axes)")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return values.astype(np.float32)


def _places(path: Path, what: str, values: Column, names: Mapping[str, int], count: int) -> Ints:
    """Return the place of each id; whole numbers are places already."""
    if isinstance(values, Coded):
        return _named_places(path, what, values, names)
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise _wrong(
            path, f"{what} must be a vector of texts or whole numbers (got {values.dtype}, {values.ndim} axes)"
        )
    if values.dtype.kind == "U":
        found, back = np.unique(values, return_inverse=True)
        return _named_places(path, what, Coded(found.tolist(), back.ravel().astype(np.int64)), names)
    bad = (values < 0) | (values >= count)
    if bool(bad.any()):
        place = int(np.argmax(bad))
        raise _wrong(path, f"entry {place} is of {what} {int(values[place])}: there are {count}, counted from 0")
    return values.astype(np.int64)


def _named_places(path: Path, what: str, column: Coded, names: Mapping[str, int]) -> Ints:
    places = np.array([names.get(text, -1) for text in column.texts], dtype=np.int64)[column.index]
    bad = places < 0
    if bool(bad.any()):
        entry = int(np.argmax(bad))
        text = column.texts[int(column.index[entry])][:SHOWN_CHARS]
        raise _wrong(path, f"entry {entry} names the {what} {text!r}: no {what} has that id")
    return places


# ── npz ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_npz(path: Path, n_pairs: int, n_rubrics: int) -> dict[str, Column]:
    held = _npz_arrays(path)
    is_lists, is_csr = set(LISTS) <= set(held), set(CSR) <= set(held)
    if is_lists == is_csr:
        found = ", ".join(sorted(held))[:200] or "nothing"
        wanted = f"{', '.join(LISTS)} or {', '.join(CSR)}"
        raise _wrong(path, f"it must hold either {wanted} (found {found})")
    if is_lists:
        return {name: held[name] for name in (*LISTS, WEIGHT) if name in held}
    return _unfolded(path, held, n_pairs, n_rubrics)


def _npz_arrays(path: Path) -> dict[str, Array]:
    if not path.exists():
        raise DataError(f"no such file: {path}", hint="check the path")
    try:
        with path.open("rb") as file, warnings.catch_warnings(action="ignore"):  # of old headers
            held = np.load(file, allow_pickle=False)
            _refuse_bomb(path, held)
            found = {name: held[name] for name in held.files if name in {*LISTS, *CSR, WEIGHT, "shape", "format"}}
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}", hint="check the path") from error
    except Exception as error:  # of zipfile, zlib, NumPy's headers and the parser that it reads them with
        raise _wrong(path, f"it is no npz of plain arrays ({' '.join(str(error).split())[:120]})") from error
    if raw := next((name for name, array in found.items() if not isinstance(array, np.ndarray)), None):
        raise _wrong(path, f"{raw} is no array")
    return found


def _refuse_bomb(path: Path, held: Any) -> None:
    """Raise DataError where the arrays say that they are far larger than the file, as judged entries never are."""
    packed, unpacked = (sum(getattr(one, size) for one in held.zip.filelist) for size in ("compress_size", "file_size"))
    if unpacked > MOST_UNPACKED and unpacked > MOST_RATIO * packed:
        raise _wrong(path, f"its {packed:,} bytes would be {unpacked:,} unpacked")


def _unfolded(path: Path, held: Mapping[str, Array], n_pairs: int, n_rubrics: int) -> dict[str, Column]:
    """Return a CSR matrix as lists."""
    indptr, indices = held["indptr"], held["indices"]
    kind = held.get("format")
    if kind is not None and kind.tobytes().strip(b"\0") not in {b"csr", "csr".encode("utf-32-le").strip(b"\0")}:
        raise _wrong(path, "its sparse matrix is not in CSR form; save matrix.tocsr()")
    shape = held.get("shape")
    if shape is not None and shape.tolist() != [n_pairs, n_rubrics]:
        raise _wrong(path, f"its shape is {shape.tolist()}, there are {n_pairs} pairs and {n_rubrics} rubrics")
    whole = all(array.ndim == 1 and array.dtype.kind in "iu" for array in (indptr, indices))
    if not whole or len(indptr) != n_pairs + 1 or int(indptr[0]) != 0 or int(indptr[-1]) != len(indices):
        raise _wrong(
            path, f"indptr must have {n_pairs + 1} whole numbers from 0 to {len(indices)}, the length of indices"
        )
    counts = ragged.lengths(indptr)
    if bool((counts < 0).any()):
        raise _wrong(path, f"indptr falls after row {int(np.argmax(counts < 0))}")
    lists: dict[str, Column] = {"pair": np.repeat(np.arange(n_pairs), counts), "rubric": indices, "z": held["data"]}
    return {**lists, WEIGHT: held[WEIGHT]} if WEIGHT in held else lists


# ── Parquet ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_parquet(path: Path, _n_pairs: int, _n_rubrics: int) -> dict[str, Column]:
    import pyarrow as pa
    from pyarrow import parquet

    if not path.is_file():
        raise DataError(f"no such file: {path}", hint="check the path")
    try:
        names = parquet.read_schema(path).names
        if missing := [name for name in COLUMNS if name not in names]:
            raise _wrong(path, f"the column {missing[0]} is missing (found {', '.join(names)[:200]})")
        wanted = [*COLUMNS, *([WEIGHT] if WEIGHT in names else [])]
        table = parquet.read_table(path, columns=wanted)
        return {name.removesuffix("_id"): _column(path, table, name) for name in wanted}
    except (pa.ArrowException, OSError) as error:
        raise _wrong(path, f"it is no readable Parquet file ({' '.join(str(error).split())[:120]})") from error


def _column(path: Path, table: Any, name: str) -> Column:
    import pyarrow as pa

    column = table[name]
    if column.null_count:
        raise _wrong(path, f"the column {name} has {column.null_count} empty cells; leave out what was not judged")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if name.endswith("_id") and not is_text:
        raise _wrong(path, f"the column {name} must hold texts (got {kind})")
    if not name.endswith("_id") and not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise _wrong(path, f"the column {name} must hold numbers (got {kind})")
    if not is_text:
        values: Array = column.to_numpy()
        return values
    coded = column.combine_chunks().cast(pa.large_string()).dictionary_encode()
    return Coded(coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64))


def names_of(ids: Sequence[str]) -> dict[str, int]:
    """Return the place of each id."""
    return {name: place for place, name in enumerate(ids)}
