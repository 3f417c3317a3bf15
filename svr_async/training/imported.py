"""A feature store from other people's data: pairs, rubrics, and judged entries between them (docs/store.md).

Memory stays below three times the size of the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, load_npz

from svr_async.adapters.pair_files import usable
from svr_async.core.files import reason
from svr_async.core.pair import PreferencePair, split_by_prompt
from svr_async.errors import DataError, UsageError
from svr_async.fit.arrays import LARGEST_Z, FitArrays
from svr_async.scoring.bank import BankRubric
from svr_async.training.bank.merge import refuse_long_names
from svr_async.training.rounds.config import TrainConfig, config_of
from svr_async.training.rounds.session import Material, prepare, source_names
from svr_async.training.rounds.store import FeatureStore, Header, pair_table, read_rubrics, write_store

BATCH = 1 << 20  # entries of a Parquet file that are decoded at a time
NO_VERDICT = 0.25  # |z| up to here: both responses pass, or both fail, and only the preference separates them
HINT = "docs/store.md shows the forms"


def import_store(
    pairs: Sequence[PreferencePair],
    digest: str,
    rubrics: Path,
    z: Path,
    out: Path,
    *,
    judge: str = "imported",
    config: TrainConfig = config_of("default"),  # noqa: B008  (frozen)
) -> None:
    """Write a store of these pairs, of the rubrics and entries in two files.

    `digest` is that of the pairs, `judge` a name for who judged; `config` says how many prompts are held out and how
    the store is fitted. Pairs without a preference or with equal responses are left out with their entries. DataError
    or UsageError, in one line, for anything wrong; nothing is written then.
    """
    found, names = _named_rubrics(rubrics)
    useful = [pair for pair in pairs if usable(pair)]
    refuse_long_names(useful)
    train, dev = split_by_prompt(useful, config.dev_share, salt=str(config.split_seed))
    if not train:
        hint = "give more pairs with a preference, or hold out less"
        raise UsageError(f"0 of {len(pairs)} pairs are left to train on", hint=hint)
    material = prepare(train, dev, digest=digest, pairs_of_words=config.fit.pairs_of_words)
    store = FeatureStore(
        header=Header(judge=judge, config=config, pairs_digest=digest),
        vocabulary=material.vocabulary,
        rubrics=found,
        pairs=pair_table(train, dev, source_names(material.pairs, ())),
        arrays=_arrays(z, pairs, material, found, names),
    )
    write_store(out, store)


def _named_rubrics(path: Path) -> tuple[list[BankRubric], dict[str, int]]:
    """Return the rubrics of a file, and the place of every name: ids of the program and of the file."""
    found: list[BankRubric] = []
    names: dict[str, int] = {}
    for place, (given, rubric) in enumerate(read_rubrics(path)):
        found.append(rubric)
        for name in {rubric.id, given} - {""}:
            if names.setdefault(name, place) != place:
                raise DataError(f"{path}: the rubric {name[:60]!r} occurs twice", hint="give each rubric once")
    return found, names


def _arrays(
    path: Path,
    pairs: Sequence[PreferencePair],
    material: Material,
    rubrics: Sequence[BankRubric],
    names: Mapping[str, int],
) -> FitArrays:
    """Return the entries of a file as rows of the material's pairs, those of a prompt's own rubrics marked."""
    place = {pair.id: number for number, pair in enumerate(pairs)}
    rows = np.array([place[pair.id] for pair in material.pairs])
    z, weight = _read(path, place, names, len(rubrics))
    z = _rows_of(z, rows)
    prompt, bank = np.array([material.row(pair) for pair in material.pairs], np.int32), material.indexed(rubrics)
    own = (np.isin(z.indices[z.indptr[n] : z.indptr[n + 1]], bank.own(row)) for n, row in enumerate(prompt.tolist()))
    return FitArrays(
        n_rubrics=len(rubrics),
        pair_prompt=prompt,
        z_indptr=z.indptr.astype(np.int64),
        z_rubric=z.indices.astype(np.int32, copy=False),
        z_delta=z.data,
        z_own=np.concatenate([np.zeros(0, bool), *own]),
        z_weight=None if weight is None else _rows_of(weight, rows).data,
        **material.features,
    )


def _rows_of(matrix: csr_array, rows: NDArray[np.int64]) -> csr_array:
    """Return these rows of a matrix, columns rising."""
    found = matrix[rows]
    found.sort_indices()
    return found


def _read(
    path: Path, pairs: Mapping[str, int], rubrics: Mapping[str, int], n_rubrics: int
) -> tuple[csr_array, csr_array | None]:
    """Return z and, if the file has them, weights, as matrices of the same entries: a row a pair, a column a rubric."""
    shape = (len(pairs), n_rubrics)
    kinds = {".npz": _from_npz, ".parquet": _from_parquet}
    read = kinds.get(path.suffix.lower())
    if read is None or not path.is_file():
        what = f"no such file: '{path}'" if read else f"cannot read '{path}': unknown suffix"
        raise DataError(what, hint=f"accepted: {', '.join(kinds)}")
    try:
        columns = read(path, {"pair": pairs, "rubric": rubrics})
        if isinstance(columns, csr_array):
            if columns.shape != shape:
                raise _wrong(path, f"its shape is {columns.shape}, there are {shape[0]} pairs and {shape[1]} rubrics")
            columns.check_format(full_check=True)
            return csr_array((_numbers(path, "z", columns.data), columns.indices, columns.indptr), shape=shape), None
        if missing := {"pair", "rubric", "z"} - set(columns):
            raise _wrong(path, f"{min(missing)} is missing (found {', '.join(columns) or 'nothing'})")
        where = columns.pop("pair"), columns.pop("rubric")
        z, weight = (_matrix(path, name, columns.pop(name, None), where, shape) for name in ("z", "weight"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}", hint="check the path") from error
    except (ValueError, TypeError, KeyError, EOFError) as error:
        raise _wrong(path, " ".join(str(error).split())[:160]) from error
    assert z is not None
    return z, weight


def _matrix(
    path: Path, name: str, values: Any, where: tuple[NDArray[np.integer], NDArray[np.integer]], shape: tuple[int, int]
) -> csr_array | None:
    if values is None:
        return None
    matrix = coo_array((_numbers(path, name, values), where), shape=shape).tocsr()
    if matrix.nnz < len(values):
        twice = len(values) - matrix.nnz
        raise _wrong(path, f"{twice} of {len(values)} entries repeat a pair and rubric; give each once")
    return matrix


def _numbers(path: Path, name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """Return z or weights in single precision; DataError for a value that they cannot have."""
    if values.dtype.kind not in "fiu":
        raise _wrong(path, f"{name} must be a vector of numbers (got {values.dtype})")
    low, high = (-LARGEST_Z, LARGEST_Z) if name == "z" else (0.0, float(np.finfo(np.float32).max))
    inside = (values >= low) & (values <= high)  # False for NaN
    if not inside.all():
        place = int(np.argmin(inside))
        raise _wrong(path, f"{name} = {values[place]:g} at entry {place} lies outside {low:g}..{high:g}")
    return values.astype(np.float32, copy=False)


def _places(path: Path, what: str, column: Any, names: Mapping[str, int]) -> NDArray[np.integer]:
    """Return the place of each id; whole numbers are places already."""
    import pyarrow as pa

    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return column
    coded = column if isinstance(column, pa.DictionaryArray) else pa.array(column).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    if (unknown := next((text for text in texts if text not in names), None)) is not None:
        raise _wrong(path, f"it names the {what} {str(unknown)[:60]!r}: no {what} has that id")
    places: NDArray[np.integer] = np.array([names[text] for text in texts], np.int32)[coded.indices.to_numpy()]
    return places


def _from_npz(path: Path, names: Mapping[str, Mapping[str, int]]) -> csr_array | dict[str, NDArray[Any]]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as file:
            if "format" in file.files:
                return csr_array(load_npz(path))
            columns = {name: file[name] for name in ("pair", "rubric", "z", "weight") if name in file.files}
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error
    return columns | {what: _places(path, what, columns[what], names[what]) for what in names if what in columns}


def _from_parquet(path: Path, names: Mapping[str, Mapping[str, int]]) -> dict[str, NDArray[Any]]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path, read_dictionary=["pair_id", "rubric_id"], pre_buffer=False)
    wanted = {"pair_id": "pair", "rubric_id": "rubric", "z": "z", "weight": "weight"}
    parts: dict[str, list[NDArray[Any]]] = {}
    present = [name for name in wanted if name in file.schema_arrow.names]
    for batch in file.iter_batches(BATCH, columns=present, use_threads=False):  # threads: as in `load_store`
        for name in present:
            column, what = batch.column(name), wanted[name]
            if column.null_count:
                raise _wrong(path, f"the column {name} has empty cells; leave out what was not judged")
            values = _places(path, what, column, names[what]) if what in names else column.to_numpy()
            parts.setdefault(what, []).append(values)
    return {what: np.concatenate(values) for what, values in parts.items()}


def _wrong(path: Path, problem: str) -> DataError:
    return DataError(f"{path}: {problem}", hint=HINT)


# ── what a store holds ────────────────────────────────────────────────────────────────────────────────────────────────


def store_facts(store: FeatureStore, folder: Path) -> dict[str, Any]:
    """Return what `svr stages store` shows, as plain values."""
    arrays, header = store.arrays, store.header
    n_train, n_dev = store.counts
    z = arrays.z_delta
    shares = {"ties": z == 0, "same_verdict": np.abs(z) <= NO_VERDICT, "for_chosen": z > 0}
    weight = arrays.z_weight
    return {
        "judge": header.judge,
        "marks": list(header.marks),
        "pairs": {"train": n_train, "dev": n_dev, "hard_negatives": arrays.n_pairs - n_train - n_dev},
        "prompts": arrays.n_prompts,
        "features": len(store.vocabulary.terms),
        "rubrics": len(store.rubrics),
        "entries": arrays.n_entries,
        "own": 0 if arrays.z_own is None else int(arrays.z_own.sum()),
        "measured_only": 0 if store.measured is None else int(store.measured.sum()),
        "z": {name: round(float(where.mean()), 6) if len(z) else 0.0 for name, where in shares.items()},
        "weights": None if weight is None or not len(weight) else [float(weight.min()), float(weight.max())],
        "preset": header.config.preset,
        "seed": header.config.split_seed,
        "round": header.round,
        "bytes": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
    }


def facts_in_words(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of `store_facts` as labelled lines."""
    pairs, z, weights = (facts[name] for name in ("pairs", "z", "weights"))
    counts = f"{pairs['train']:,} train, {pairs['dev']:,} dev, {pairs['hard_negatives']:,} hard negatives"
    a_pair = facts["entries"] / max(1, sum(pairs.values()))
    ties, same, chosen = (f"{100 * z[name]:.1f} %" for name in ("ties", "same_verdict", "for_chosen"))
    return [
        ("judge", facts["judge"] or "not recorded"),
        ("pairs", f"{counts}; {facts['prompts']:,} prompts, {facts['features']:,} features"),
        ("rubrics", f"{facts['rubrics']:,}"),
        ("entries", f"{facts['entries']:,}, {a_pair:.1f} a pair; {facts['measured_only']:,} to measure only"),
        ("", f"{facts['own']:,} on the prompt that alone gave the rubric"),
        ("z", f"{ties} ties (0), {same} within ±{NO_VERDICT}, {chosen} above 0"),
        ("weights", "1 each" if weights is None else f"{weights[0]:g} to {weights[1]:g}"),
        ("fit", f"{facts['preset']}, seed {facts['seed']}" + (f", round {facts['round']}" if facts["round"] else "")),
    ]
