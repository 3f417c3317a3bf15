"""Making a feature store and adding parts to it; meta.json is replaced last, in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from svr_async.errors import StorageError, UsageError
from svr_async.training import store_files as files
from svr_async.training.store import (
    KINDS,
    SCHEMA_VERSION,
    SPLITS,
    PairRows,
    StoreHeader,
    StorePart,
    StoreRubric,
    csr_problem,
    features_problem,
    judged_problem,
    rubrics_problem,
)
from svr_async.training.store_reading import FORMAT, pair_schema, read_kinds, read_meta, read_rubrics, rubric_schema

if TYPE_CHECKING:
    import pyarrow as pa


def create_store(folder: Path, header: StoreHeader) -> None:
    """Make an empty store; UsageError where the folder holds one already, ValueError where the header is wrong."""
    if (folder / files.META).exists():
        raise UsageError(f"{folder} holds a feature store already", hint="append to it, or name another folder")
    if problem := features_problem(header.vocabulary, header.idf):
        raise ValueError(problem)
    meta = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "revision": 0,
        "judge": header.judge,
        "prompts_digest": header.prompts_digest,
        "bank_digest": header.bank_digest,
        "data_digests": dict(header.data_digests),
        "plan": header.plan.as_json(),
        "made_of": header.made_of,
        "counts": {"pairs": 0, "prompts": 0, "rubrics": 0, "entries": 0},
        "vocabulary": files.write_json(folder / "vocabulary.json", header.vocabulary),
        "idf": files.write_npz(folder / "idf.npz", idf=header.idf),
        "rubrics": None,
        "parts": [],
    }
    files.write_json(folder / files.META, meta)


def append_part(folder: Path, part: StorePart) -> None:
    """Add a part: its files first, under names that nobody reads yet, then meta.json; ValueError where it does not fit.

    What an interrupted append left behind is overwritten by the next. StorageError where another writer was faster.
    """
    meta = read_meta(folder)
    if problem := _problem(folder, meta, part):
        raise ValueError(problem)
    number = meta["revision"] + 1
    entries = {
        "pairs": files.write_parquet(folder / f"pairs-{number:04d}.parquet", _pairs_table(part.pairs)),
        "features": files.write_npz(
            folder / f"features-{number:04d}.npz",
            indptr=part.features.indptr,
            index=part.features.index,
            value=part.features.value,
        ),
        "z": files.write_npz(
            folder / f"z-{number:04d}.npz",
            indptr=part.z.indptr,
            index=part.z.index,
            value=part.z.value,
            flags=part.z.flags,
            **({} if part.z.weight is None else {"weight": part.z.weight}),
        ),
    }
    rubrics = files.write_parquet(folder / f"rubrics-{number:04d}.parquet", _rubrics_table(part.rubrics))
    if read_meta(folder) != meta:
        raise StorageError(f"{folder} was changed by another program meanwhile", hint="one writer at a time")
    files.write_json(folder / files.META, _grown(meta, part, entries, rubrics))


def _grown(
    meta: Mapping[str, Any], part: StorePart, entries: Mapping[str, Any], rubrics: Mapping[str, Any]
) -> dict[str, Any]:
    counts = meta["counts"]
    added = {"pairs": len(part.pairs.pair_id), "prompts": part.features.n_rows, "entries": len(part.z.index)}
    return {
        **meta,
        "revision": meta["revision"] + 1,
        "counts": {name: counts[name] + value for name, value in added.items()} | {"rubrics": len(part.rubrics)},
        "rubrics": dict(rubrics),
        "parts": [*meta["parts"], {**entries, "counts": {**added, "rubrics": len(part.rubrics)}}],
    }


def _problem(folder: Path, meta: Mapping[str, Any], part: StorePart) -> str:
    """Say why a part does not fit the store; empty where it does."""
    counts = meta["counts"]
    n_pairs = counts["pairs"] + len(part.pairs.pair_id)
    return (
        rubrics_problem(part.rubrics)
        or _order_problem(read_rubrics(folder, meta), part.rubrics)
        or _pairs_problem(part.pairs, read_kinds(folder, meta), counts["prompts"], part.features.n_rows)
        or _named("features", csr_problem(part.features, part.features.n_rows, _terms(folder, meta)))
        or _named("z", judged_problem(part.z, n_pairs, len(part.rubrics)))
    )


def _named(what: str, problem: str) -> str:
    return f"{what}: {problem}" if problem else ""


def _terms(folder: Path, meta: Mapping[str, Any]) -> int:
    with files.open_verified(folder, meta["vocabulary"]) as file:
        return len(files.read_json(file, folder / "vocabulary.json"))


def _order_problem(old: Sequence[StoreRubric], new: Sequence[StoreRubric]) -> str:
    if [entry.id for entry in new[: len(old)]] != [entry.id for entry in old]:
        return f"the {len(old)} rubrics of the store must come first, in their order: z refers to their places"
    return ""


def _pairs_problem(pairs: PairRows, known: Mapping[str, str], n_prompts: int, n_new_prompts: int) -> str:
    """Say what is wrong with new pairs; `known` maps the ids of the store's pairs to their kind."""
    sizes = {name: len(getattr(pairs, name)) for name in PairRows.__slots__}
    if len(set(sizes.values())) > 1:
        return f"the columns of the pairs differ in length: {sizes}"
    rows = set(pairs.prompt_row)
    if rows and not (min(rows) >= 0 and max(rows) < n_prompts + n_new_prompts):
        return f"a prompt_row lies outside 0..{n_prompts + n_new_prompts - 1}"
    if not set(range(n_prompts, n_prompts + n_new_prompts)) <= rows:
        return "every row of the features needs a pair with that prompt_row"
    return _identity_problem(pairs, known)


def _identity_problem(pairs: PairRows, known: Mapping[str, str]) -> str:
    kinds = {**known, **dict(zip(pairs.pair_id, pairs.kind, strict=True))}
    if len(kinds) != len(known) + len(pairs.pair_id):
        return "a pair id occurs twice"
    if not set(pairs.split) <= set(SPLITS) or not set(pairs.kind) <= set(KINDS):
        return f"split must be one of {', '.join(SPLITS)}, kind one of {', '.join(KINDS)}"
    for kind, of in zip(pairs.kind, pairs.of, strict=True):
        if (kinds.get(of) != "pair") if kind == "hard_negative" else bool(of):
            return f"{of!r} is no pair that a {kind} can stand for"
    return ""


def _pairs_table(pairs: PairRows) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415  (pyarrow loads only where a store is used)

    schema = pair_schema()
    columns = [pa.array(list(getattr(pairs, name)), type=schema.field(name).type) for name in schema.names]
    return pa.table(columns, schema=schema)


def _rubrics_table(rubrics: Sequence[StoreRubric]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    rows = [_rubric_row(entry) for entry in rubrics]
    return pa.Table.from_pylist(rows, schema=rubric_schema())


def _rubric_row(entry: StoreRubric) -> dict[str, Any]:
    candidate, rubric = entry.candidate, entry.candidate.rubric
    return {
        "rubric_id": rubric.id,
        "text": rubric.text,
        "facet": rubric.facet,
        "importance": rubric.importance,
        "grounding": rubric.grounding,
        "source_pair_ids": list(candidate.source_pair_ids),
        "observed_count": candidate.observed_count,
        "check": "" if rubric.check is None else orjson.dumps(rubric.check.to_json()).decode(),
        "aliases": list(candidate.aliases),
        "active": entry.active,
        "support_count": entry.support_count,
    }
