"""Reading a feature store: every file compared with its digest, every value with what it may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.core.integrity import read_marks
from svr_async.core.rubric import Check, Rubric
from svr_async.core.verdict import is_whole
from svr_async.errors import UsageError
from svr_async.scoring.bank import features_problem, texts_problem
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.fit_terms import terms_from_json
from svr_async.training.store import files
from svr_async.training.store.records import (
    KINDS,
    SCHEMA_VERSION,
    SPLITS,
    Csr,
    FeatureStore,
    Judged,
    StoreHeader,
    StoreRubric,
    csr_problem,
    judged_problem,
    rubrics_problem,
)

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "svr-feature-store"
PART = ("pairs", "features", "z")
COUNTS = ("pairs", "prompts", "rubrics", "entries")
_ROWS: dict[str, type[np.generic]] = {"indptr": np.int64, "index": np.int32, "value": np.float32}
_JUDGED: dict[str, type[np.generic]] = {**_ROWS, "flags": np.uint8}
_WEIGHT: dict[str, type[np.generic]] = {"weight": np.float32}


def pair_schema() -> pa.Schema:
    """Return the columns of a pairs file."""
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            ("pair_id", pa.string()),
            ("prompt", pa.large_string()),
            ("prompt_row", pa.int32()),
            ("domain", word),
            ("split", word),
            ("strength", pa.int32()),
            ("kind", word),
            ("of", pa.string()),
            ("source", word),
        ]
    )


def rubric_schema() -> pa.Schema:
    """Return the columns of a rubrics file."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("rubric_id", "text", "facet", "importance", "grounding")]
    lists = [("source_pair_ids", pa.list_(pa.string())), ("observed_count", pa.int64()), ("check", pa.string())]
    rest = [("aliases", pa.list_(pa.string())), ("active", pa.bool_()), ("support_count", pa.int64())]
    return pa.schema([*texts, *lists, *rest])


def load_store(folder: str | Path) -> FeatureStore:
    """Read and check a store; UsageError where there is none, ArtefactError naming the file that fails a check."""
    folder = Path(folder)
    meta = read_meta(folder)
    header = _header(folder, meta)
    rubrics = read_rubrics(folder, meta)
    pairs = read_pairs(folder, meta)
    where = folder / files.META
    features = _features(folder, meta, len(header.vocabulary))
    prompt_row = pairs["prompt_row"].to_numpy()
    if len(prompt_row) and not 0 <= int(prompt_row.min()) <= int(prompt_row.max()) < features.n_rows:
        raise files.refused(where, f"a prompt_row lies outside 0..{features.n_rows - 1}")
    if pairs["source"].null_count:
        raise files.refused(where, "a pair has no source, not even an empty one")
    return FeatureStore(
        folder=folder,
        meta=meta,
        header=header,
        rubrics=rubrics,
        pairs=pairs,
        prompt_row=prompt_row,
        is_dev=_is(pairs, "split", SPLITS, "dev", where),
        negative_of=_negative_of(pairs, where),
        features=features,
        z=_judged(folder, meta),
    )


def read_meta(folder: Path) -> dict[str, Any]:
    """Return meta.json after checking its form; UsageError where the folder holds no store."""
    path = folder / files.META
    if not path.is_file():
        raise UsageError(
            f"there is no feature store in {folder} ({files.META} is missing)", hint="svr stages judge makes one"
        )
    with files.open_plain(path, files.MAX_JSON_BYTES) as file:
        meta = files.read_json(file, path)
    if meta.get("format") != FORMAT:
        raise files.refused(path, f"it does not call itself {FORMAT!r}")
    if isinstance(meta.get("schema_version"), bool) or meta.get("schema_version") != SCHEMA_VERSION:
        raise files.refused(
            path, f"its schema version is {meta.get('schema_version')!r}, this program reads {SCHEMA_VERSION}"
        )
    if problem := _meta_problem(meta):
        raise files.refused(path, problem)
    return meta


def _meta_problem(meta: Mapping[str, Any]) -> str:
    texts, digests = [meta.get(name) for name in ("judge", "prompts_digest", "made_of")], meta.get("data_digests")
    if not isinstance(digests, dict) or texts_problem([*texts, *digests, *digests.values()]):
        return "judge and digests must be texts"
    try:
        read_marks(meta.get("marks"))
        terms_from_json(meta.get("plan"))
    except (ValueError, TypeError) as error:
        return str(error)
    parts, counts = meta.get("parts"), meta.get("counts")
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], dict):
        return "it must list one part: stores are written once"
    if not _are_counts(counts) or parts[0].get("counts") != counts:
        return "counts must be whole numbers >= 0, and those of its part"
    named = [*(meta.get(name) for name in ("vocabulary", "idf", "rubrics")), *map(parts[0].get, PART)]
    return "" if all(isinstance(entry, dict) for entry in named) else "a file's entry is missing"


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and sorted(value) == sorted(COUNTS) and all(map(is_whole, value.values()))


def _header(folder: Path, meta: Mapping[str, Any]) -> StoreHeader:
    path = folder / "vocabulary.json"
    with files.open_verified(folder, meta["vocabulary"]) as file:
        vocabulary = files.read_json(file, path)
    if any(not is_whole(place) for place in vocabulary.values()):
        raise files.refused(path, "a term's place is no whole number >= 0")
    with files.open_verified(folder, meta["idf"]) as file:
        idf = files.read_npz(file, folder / "idf.npz", {"idf": np.float32})["idf"]
    if problem := features_problem(vocabulary, idf):
        raise files.refused(path, problem)
    return StoreHeader(
        vocabulary=vocabulary,
        idf=idf,
        judge=meta["judge"],
        marks=read_marks(meta.get("marks")),
        prompts_digest=meta["prompts_digest"],
        data_digests=meta["data_digests"],
        terms=terms_from_json(meta["plan"]),
        made_of=meta["made_of"],
    )


# ── rubrics and pairs ───────────────────────────────────────────────────────────────────────────────────────────────


def read_rubrics(folder: Path, meta: Mapping[str, Any]) -> tuple[StoreRubric, ...]:
    """Return the rubrics of the store, in their places."""
    path, schema = folder / str(meta["rubrics"].get("file")), rubric_schema()
    with files.open_verified(folder, meta["rubrics"]) as file:
        table = files.read_parquet(file, path, schema, schema.names, meta["counts"]["rubrics"])
    try:
        rubrics = tuple(_rubric(row) for row in table.to_pylist())
    except (ValueError, TypeError) as error:
        raise files.refused(path, str(error)) from error
    if problem := rubrics_problem(rubrics):
        raise files.refused(path, problem)
    return rubrics


def _rubric(row: Mapping[str, Any]) -> StoreRubric:
    if any(value is None for value in row.values()):
        raise ValueError(f"the rubric {row['rubric_id']} has an empty cell")
    if not row["active"]:
        raise ValueError(f"the rubric {row['rubric_id']} is not active, and no store of this program has such")
    rubric = Rubric(
        text=row["text"],
        facet=row["facet"],
        importance=row["importance"],
        grounding=row["grounding"],
        check=_check(row["check"]),
        id=row["rubric_id"],
    )
    candidate = Candidate(
        rubric=rubric,
        source_pair_ids=tuple(row["source_pair_ids"]),
        observed_count=row["observed_count"],
        aliases=tuple(row["aliases"]),
    )
    return StoreRubric(candidate=candidate, support_count=row["support_count"])


def _check(text: str) -> Check | None:
    value = orjson.loads(text) if text else None
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"a check is an object, not {text[:40]!r}")
    return None if value is None else Check.from_json(value)


def read_pairs(folder: Path, meta: Mapping[str, Any], columns: Sequence[str] = ()) -> pa.Table:
    """Return the pairs without their texts, or the named columns."""
    schema, entry = pair_schema(), meta["parts"][0]["pairs"]
    wanted = list(columns) or [name for name in schema.names if name != "prompt"]
    with files.open_verified(folder, entry) as file:
        table = files.read_parquet(file, folder / str(entry["file"]), schema, wanted, meta["counts"]["pairs"])
    return table.unify_dictionaries().combine_chunks()


def read_prompts(store: FeatureStore) -> list[str]:
    """Return the text of every prompt row; ArtefactError where a row has none."""
    table = read_pairs(store.folder, store.meta, ["prompt", "prompt_row"])
    texts: dict[int, str] = {}
    for row, text in zip(table["prompt_row"].to_pylist(), table["prompt"].to_pylist(), strict=True):
        texts.setdefault(row, text)
    if len(texts) != store.features.n_rows:
        raise files.refused(
            store.folder / files.META, f"only {len(texts)} of {store.features.n_rows} prompts have a text"
        )
    return [texts[row] for row in range(store.features.n_rows)]


def _is(pairs: pa.Table, column: str, allowed: Sequence[str], word: str, where: Path) -> NDArray[np.bool_]:
    """Return where a column holds a word, after checking that it holds allowed words only."""
    from pyarrow import compute

    values = pairs[column].cast("string")
    found = set(compute.unique(values).to_pylist())
    if not found <= set(allowed):
        raise files.refused(where, f"the column {column} holds {min(map(str, found - set(allowed)))[:40]!r}")
    result: NDArray[np.bool_] = compute.equal(values, word).to_numpy()
    return result


def _negative_of(pairs: pa.Table, where: Path) -> NDArray[np.int32]:
    """Return the place of each hard negative's original, −1 for a pair; also checks that ids are there and unique."""
    from pyarrow import compute

    ids = pairs["pair_id"]
    if ids.null_count or compute.count_distinct(ids).as_py() != len(ids):
        raise files.refused(where, "a pair id is missing or occurs twice")
    negative = _is(pairs, "kind", KINDS, "hard_negative", where)
    found = np.full(len(ids), -1, dtype=np.int32)
    if negative.any():
        place = compute.index_in(pairs["of"].filter(negative), value_set=ids.combine_chunks())
        found[negative] = place.fill_null(-1).to_numpy()
    if bool((found[negative] < 0).any()) or bool(negative[found[negative]].any()):
        raise files.refused(where, "a hard negative stands for a pair that is not there")
    return found


# ── matrices ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _features(folder: Path, meta: Mapping[str, Any], n_columns: int) -> Csr:
    entry = meta["parts"][0]["features"]
    with files.open_verified(folder, entry) as file:
        rows = Csr(**files.read_npz(file, folder / str(entry["file"]), _ROWS))
    if problem := csr_problem(rows, meta["counts"]["prompts"], n_columns):
        raise files.refused(folder / str(entry["file"]), problem)
    return rows


def _judged(folder: Path, meta: Mapping[str, Any]) -> Judged:
    entry = meta["parts"][0]["z"]
    with files.open_verified(folder, entry) as file:
        z = Judged(**files.read_npz(file, folder / str(entry["file"]), _JUDGED, _WEIGHT))
    if problem := judged_problem(z, meta["counts"]["pairs"], meta["counts"]["rubrics"]):
        raise files.refused(folder / str(entry["file"]), problem)
    return z
