"""The feature store: what a fit reads, in one folder of plain files that is written once.

    meta.json         `Header`: counts, origin, how to fit it, and every other file with its size and SHA-256
    vocabulary.json   TF-IDF terms and their columns; idf.npy their idf
    rubrics.parquet   the rubrics, in their places
    pairs.parquet     the pairs: id, prompt, prompt_row, domain, split, strength, kind, of, source
    features.*.npy    CSR of TF-IDF, a row a prompt: indptr, index, value
    z.*.npy           CSR of judged entries, a row a pair: indptr, index, value, flags, weight; absent = not judged

meta.json is written last, so a folder that has it is whole. docs/store.md has every file with its types and shapes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.core.files import write_atomic, write_atomic_with
from svr_async.core.integrity import read_marks
from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ArtefactError, UsageError
from svr_async.fit.arrays import LARGEST_Z
from svr_async.fit.tfidf import Vocabulary
from svr_async.scoring.bank import features_problem
from svr_async.training.bank.merge import Candidate, bank_rubric
from svr_async.training.rounds.config import FitTerms

if TYPE_CHECKING:
    import pyarrow as pa

META = "meta.json"
SCHEMA_VERSION = 4
BOTH_ORDERS, OWN, MEASURED = 1, 2, 4  # flags: mean of both orders; mined from this very pair; no fit sees it
LIMITS = {"split": {"train", "dev"}, "kind": {"pair", "hard_negative"}}
DTYPES = {"indptr": np.int64, "index": np.int32, "value": np.float32, "flags": np.uint8, "weight": np.float32}
WRITE_HINT = "choose another folder for the store"


class FileEntry(msgspec.Struct, frozen=True):
    """The size and digest of a file."""

    bytes: int
    sha256: str


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """meta.json. `plan` says how the store is fitted by default; `made_of` is a digest of all that training used."""

    format: Literal["svr-feature-store"] = "svr-feature-store"
    schema_version: int = SCHEMA_VERSION
    judge: str = ""
    marks: tuple[str, ...] = ()
    prompts_digest: str = ""
    data_digests: dict[str, str] = {}
    plan: FitTerms = FitTerms()
    made_of: str = ""
    counts: dict[str, int] = {}
    files: dict[str, FileEntry] = {}


class Csr(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of different lengths: row i has the columns index[indptr[i]:indptr[i + 1]], rising, and their values.

    Judged entries have flags too, and, unless all count 1, weights >= 0. Their value is z, chosen minus rejected: any
    number in ±1.25, as a judge's Δ, the mean of several, or the Δ expected of probabilities.
    """

    indptr: NDArray[np.int64]
    index: NDArray[np.int32]
    value: NDArray[np.float32]
    flags: NDArray[np.uint8] | None = None
    weight: NDArray[np.float32] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def problem(self, n_rows: int, n_columns: int, *, judged: bool = False) -> str:  # noqa: PLR0911  (a list of checks)
        """Return what is wrong with a matrix of this shape; empty if nothing is."""
        for name, values in msgspec.structs.asdict(self).items():
            if values is not None and (values.dtype != DTYPES[name] or values.ndim != 1):
                return f"{name} must be a vector of {np.dtype(DTYPES[name])} (got {values.dtype}, {values.ndim} axes)"
        if len(self.indptr) != n_rows + 1 or self.indptr[0] != 0 or self.indptr[-1] != len(self.index):
            return f"indptr must have {n_rows + 1} entries from 0 to {len(self.index)}"
        others = [values for values in (self.value, self.flags, self.weight) if values is not None]
        if any(len(values) != len(self.index) for values in others) or (judged and self.flags is None):
            return f"{len(self.index)} indices, but another number of values, flags or weights"
        if bool((np.diff(self.indptr) < 0).any()):
            return "indptr must not fall"
        if not len(self.index):
            return ""
        if int(self.index.min()) < 0 or int(self.index.max()) >= n_columns:
            return f"an index lies outside 0..{n_columns - 1}"
        rising = self.index[1:] > self.index[:-1]
        starts = self.indptr[1:-1]
        rising[starts[(starts > 0) & (starts < len(self.index))] - 1] = True  # a row may begin with any column
        if not bool(rising.all()):
            return f"the indices of a row do not rise at entry {int(np.argmin(rising)) + 1}"
        return self._values_problem(judged=judged)

    def _values_problem(self, *, judged: bool) -> str:
        if judged and not (self.value.min() >= -LARGEST_Z and self.value.max() <= LARGEST_Z):
            place = int(np.argmax(~(np.abs(self.value) <= LARGEST_Z)))
            return (
                f"z = {self.value[place]:g} at entry {place} lies outside ±{LARGEST_Z}; leave out what was not judged"
            )
        if not judged and not np.isfinite([self.value.min(), self.value.max()]).all():
            return "a value is not finite"
        if self.weight is not None and not 0 <= self.weight.min() <= self.weight.max() < np.inf:
            place = int(np.argmax(~(np.isfinite(self.weight) & (self.weight >= 0))))
            return f"weight = {self.weight[place]:g} at entry {place} is not finite and >= 0"
        return ""


class FeatureStore(msgspec.Struct, kw_only=True, dict=True):
    """A store in memory, checked.

    `pairs` has the columns of `pair_schema`, without prompts if it was read from files. `support` counts, by rubric id,
    the support pairs and hard negatives on which a rubric favours the chosen response. `features` has a row a prompt,
    `z` a row a pair.
    """

    header: Header
    vocabulary: Vocabulary
    rubrics: tuple[Candidate, ...]
    pairs: pa.Table
    features: Csr
    z: Csr
    support: Mapping[str, int] = {}
    folder: Path = Path()

    def __len__(self) -> int:
        return int(self.pairs.num_rows)

    @cached_property
    def pair_ids(self) -> list[str]:
        """The ids of the pairs."""
        ids: list[str] = self.pairs["pair_id"].to_pylist()
        return ids

    @cached_property
    def prompt_row(self) -> NDArray[np.int32]:
        """The row of each pair's prompt (n_pairs,)."""
        rows: NDArray[np.int32] = self.pairs["prompt_row"].to_numpy()
        return rows

    @cached_property
    def is_dev(self) -> NDArray[np.bool_]:
        """Whether each pair is held out (n_pairs,)."""
        return self._is("split", "dev")

    @cached_property
    def negative_of(self) -> NDArray[np.int32]:
        """The place of each hard negative's original, −1 for a pair (n_pairs,)."""
        from pyarrow import compute

        negative, found = self._is("kind", "hard_negative"), np.full(len(self), -1, dtype=np.int32)
        if negative.any():
            places = compute.index_in(self.pairs["of"].filter(negative), value_set=self.pairs["pair_id"])
            found[negative] = places.fill_null(-1).to_numpy()
            if bool((found[negative] < 0).any()) or bool(negative[found[negative]].any()):
                raise refused(self.folder / "pairs.parquet", "a hard negative has no original")
        return found

    def _is(self, column: str, word: str) -> NDArray[np.bool_]:
        from pyarrow import compute

        result: NDArray[np.bool_] = compute.equal(self.pairs[column].cast("string"), word).to_numpy()
        return result


def pair_schema() -> pa.Schema:
    """Return the columns of pairs.parquet.

    `prompt_row` counts distinct prompts from 0, in order. `of` names a hard negative's original. `strength` is that of
    the preference, null if unknown. `source` names the data set of a pair, or of a hard negative's original.
    """
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    texts = [("pair_id", pa.string()), ("prompt", pa.large_string()), ("prompt_row", pa.int32()), ("domain", word)]
    rest = [("split", word), ("strength", pa.int32()), ("kind", word), ("of", pa.string()), ("source", word)]
    return pa.schema([*texts, *rest])


def rubric_schema() -> pa.Schema:
    """Return the columns of rubrics.parquet; rubrics with the same `criterion` are wordings of one."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("rubric_id", "text", "facet", "importance", "grounding", "check")]
    lists = [(name, pa.list_(pa.string())) for name in ("source_pair_ids", "aliases")]
    return pa.schema(
        [*texts, *lists, ("observed_count", pa.int64()), ("support_count", pa.int64()), ("criterion", pa.string())]
    )


def write_store(folder: Path, store: FeatureStore) -> None:
    """Write a store into a folder, meta.json last; ValueError if a reader would refuse it."""
    import pyarrow as pa
    from pyarrow import parquet

    if problem := _problem(store):
        raise ValueError(problem)
    rubrics = pa.Table.from_pylist([_rubric_row(store, one) for one in store.rubrics], schema=rubric_schema())
    tables = {"rubrics.parquet": rubrics, "pairs.parquet": store.pairs}
    arrays = {"idf": store.vocabulary.idf, **_named("features", store.features), **_named("z", store.z)}
    terms = orjson.dumps(store.vocabulary.terms, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    write_atomic(folder / "vocabulary.json", terms, hint=WRITE_HINT)
    for name, table in tables.items():
        write_atomic_with(folder / name, partial(parquet.write_table, table, compression="zstd"), hint=WRITE_HINT)
    for name, values in arrays.items():
        write_atomic_with(folder / f"{name}.npy", partial(_save, values), hint=WRITE_HINT)
    names = ["vocabulary.json", *tables, *(f"{name}.npy" for name in arrays)]
    counts = {"pairs": len(store), "prompts": store.features.n_rows, "rubrics": len(store.rubrics)}
    files = {name: _entry(folder / name) for name in names}
    header = msgspec.structs.replace(store.header, counts={**counts, "entries": len(store.z.index)}, files=files)
    write_atomic(folder / META, msgspec.json.encode(header, order="deterministic") + b"\n", hint=WRITE_HINT)


def _save(values: NDArray[Any], file: BinaryIO) -> None:
    np.save(file, values, allow_pickle=False)


def _named(what: str, rows: Csr) -> dict[str, NDArray[Any]]:
    return {f"{what}.{name}": values for name, values in msgspec.structs.asdict(rows).items() if values is not None}


def _rubric_row(store: FeatureStore, candidate: Candidate) -> dict[str, Any]:
    rubric = candidate.rubric
    return {
        "rubric_id": rubric.id,
        **{name: getattr(rubric, name) for name in ("text", "facet", "importance", "grounding")},
        "check": "" if rubric.check is None else orjson.dumps(rubric.check.to_json()).decode(),
        "source_pair_ids": list(candidate.source_pair_ids),
        "aliases": list(candidate.aliases),
        "observed_count": candidate.observed_count,
        "support_count": store.support.get(rubric.id, 0),
        "criterion": candidate.criterion,
    }


def _entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        return FileEntry(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _problem(store: FeatureStore) -> str:
    """Return what is wrong with the content of a store; empty if nothing is."""
    ids = [candidate.rubric.id for candidate in store.rubrics]
    for candidate in store.rubrics:
        try:
            bank_rubric(candidate, support_count=store.support.get(candidate.rubric.id, 0))
        except ValueError as error:
            return str(error)
    if len(set(ids)) < len(ids):
        return f"the rubric {next(one for one in ids if ids.count(one) > 1)} occurs twice"
    rows, count = store.prompt_row, store.features.n_rows
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count:
        return f"a prompt_row lies outside 0..{count - 1}"
    z = store.z.problem(len(store), len(ids), judged=True)
    features = store.features.problem(count, len(store.vocabulary.terms))
    named = ("features: ", features), ("z: ", z)
    problem = features_problem(store.vocabulary.terms, store.vocabulary.idf)
    return problem or next((what + found for what, found in named if found), "")


def read_header(folder: Path) -> Header:
    """Return meta.json; UsageError if the folder holds no store, naming the stores of its rounds if there are any."""
    path = folder / META
    if not path.is_file():
        rounds = sorted(folder.glob("stores/round-*"), key=lambda place: (len(place.name), place.name))
        hint = (
            f"name the store of a round: {rounds[-1]}"
            if rounds
            else "svr stages judge makes one; svr train OUT leaves one for each round in OUT/stores/round-N"
        )
        raise UsageError(f"{folder} holds no feature store ({META} is missing)", hint=hint)
    try:
        header = msgspec.json.decode(path.read_bytes(), type=Header)
        read_marks(list(header.marks))
    except (msgspec.MsgspecError, ValueError) as error:
        raise refused(path, str(error)) from error
    if header.schema_version != SCHEMA_VERSION:
        raise refused(path, f"its schema version is {header.schema_version}, this program reads {SCHEMA_VERSION}")
    return header


def verify_files(folder: Path, header: Header) -> None:
    """Raise ArtefactError for a file that is missing, or is not the one that meta.json lists."""
    for name, expected in header.files.items():
        path = folder / Path(name).name
        if not path.is_file():
            raise refused(path, "it is missing")
        if _entry(path) != expected:
            raise refused(path, f"it does not match the SHA-256 in {META}: damaged, or of another store")


def load_store(folder: str | Path) -> FeatureStore:
    """Read and check a store; UsageError if there is none, ArtefactError naming the file that fails a check."""
    folder = Path(folder)
    header = read_header(folder)
    verify_files(folder, header)
    try:
        rubrics = _read_table(folder / "rubrics.parquet", rubric_schema()).to_pylist()
        columns = [name for name in pair_schema().names if name != "prompt"]
        idf = np.load(folder / "idf.npy", allow_pickle=False)
        store = FeatureStore(
            header=header,
            vocabulary=Vocabulary(terms=orjson.loads((folder / "vocabulary.json").read_bytes()), idf=idf),
            rubrics=tuple(map(_candidate, rubrics)),
            pairs=_read_table(folder / "pairs.parquet", pair_schema(), columns),
            features=_read_csr(folder, "features"),
            z=_read_csr(folder, "z"),
            support={row["rubric_id"]: row["support_count"] for row in rubrics if row["support_count"]},
            folder=folder,
        )
        problem = _problem(store) or _columns_problem(store.pairs)
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise refused(folder, f"{type(error).__name__} {' '.join(str(error).split())[:200]}") from error
    if problem:
        raise refused(folder, problem)
    return store


def _columns_problem(pairs: pa.Table) -> str:
    from pyarrow import compute

    if pairs["pair_id"].null_count or compute.count_distinct(pairs["pair_id"]).as_py() != len(pairs):
        return "a pair id is missing or occurs twice"
    found = {name: set(compute.unique(pairs[name].cast("string")).to_pylist()) for name in LIMITS}
    return next((f"the column {name} holds {str(found[name] - words)[:60]}" for name, words in LIMITS.items()
                 if not found[name] <= words), "")  # fmt: skip


def _read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table in this thread: Arrow's own may abort the interpreter at its end (apache/arrow issue 34314)."""
    from pyarrow import parquet

    if not parquet.read_schema(path).equals(schema, check_metadata=False):
        raise ValueError(f"{path.name} has other columns or types than a store")
    table = parquet.read_table(path, columns=columns, use_threads=False, pre_buffer=False)
    return table.unify_dictionaries().combine_chunks()


def _read_csr(folder: Path, what: str) -> Csr:
    """Map the arrays of a matrix: pages that are looked at take memory, and only while there is room."""
    paths = {name: folder / f"{what}.{name}.npy" for name in DTYPES}
    mapped = {name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in paths.items() if path.exists()}
    return Csr(**{name: values.view(np.ndarray) for name, values in mapped.items()})


def _candidate(row: Mapping[str, Any]) -> Candidate:
    check = orjson.loads(row["check"]) if row["check"] else None
    texts = {name: row[name] for name in ("text", "facet", "importance", "grounding")}
    return Candidate(
        rubric=Rubric(id=row["rubric_id"], check=None if check is None else Check.from_json(check), **texts),
        source_pair_ids=tuple(row["source_pair_ids"]),
        observed_count=row["observed_count"],
        aliases=tuple(row["aliases"]),
        criterion=row["criterion"],
    )


def refused(path: Path, problem: str) -> ArtefactError:
    """Return the error for a file that fails a check."""
    return ArtefactError(f"{path} is refused: {problem}", hint="judge again; what was judged is in the cache")
