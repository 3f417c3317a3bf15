"""Writing a feature store: its files, then meta.json, which names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from svr_async.scoring.bank import features_problem
from svr_async.training.store import files
from svr_async.training.store.reader import FORMAT, pair_schema, rubric_schema
from svr_async.training.store.records import (
    SCHEMA_VERSION,
    Csr,
    PairRows,
    StoreContent,
    StoreHeader,
    StoreRubric,
    csr_problem,
    judged_problem,
    rubrics_problem,
)

if TYPE_CHECKING:
    import pyarrow as pa


def write_store(folder: Path, header: StoreHeader, content: StoreContent) -> None:
    """Write a whole store into a folder, meta.json last; ValueError where header or content are wrong."""
    if problem := _problem(header, content):
        raise ValueError(problem)
    features, z = content.features, content.z
    weight = {} if z.weight is None else {"weight": z.weight}
    named = {
        "pairs": files.write_parquet(folder / "pairs-0001.parquet", _pairs_table(content.pairs)),
        "features": files.write_npz(folder / "features-0001.npz", **_arrays(features)),
        "z": files.write_npz(folder / "z-0001.npz", **_arrays(z), flags=z.flags, **weight),
    }
    counts = {
        "pairs": len(content.pairs.pair_id),
        "prompts": features.n_rows,
        "rubrics": len(content.rubrics),
        "entries": len(z.index),
    }
    meta = {
        **_facts(header),
        "counts": counts,
        "vocabulary": files.write_json(folder / "vocabulary.json", header.vocabulary),
        "idf": files.write_npz(folder / "idf.npz", idf=header.idf),
        "rubrics": files.write_parquet(folder / "rubrics-0001.parquet", _rubrics_table(content.rubrics)),
        "parts": [{**named, "counts": counts}],
    }
    files.write_json(folder / files.META, meta)


def _facts(header: StoreHeader) -> dict[str, Any]:
    """Return what meta.json says besides files and counts; `revision` and `bank_digest` are the same in every store."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "revision": 1,
        "judge": header.judge,
        "marks": sorted(header.marks),
        "prompts_digest": header.prompts_digest,
        "bank_digest": "",
        "data_digests": dict(header.data_digests),
        "plan": header.terms.as_json(),
        "made_of": header.made_of,
    }


def _arrays(rows: Csr) -> dict[str, files.Array]:
    return {"indptr": rows.indptr, "index": rows.index, "value": rows.value}


def _problem(header: StoreHeader, content: StoreContent) -> str:
    """Say what no reader would take; empty where there is nothing. Ids and columns of pairs are checked on reading."""
    n_pairs, features = len(content.pairs.pair_id), content.features
    return (
        features_problem(header.vocabulary, header.idf)
        or rubrics_problem(content.rubrics)
        or _named("features", csr_problem(features, features.n_rows, len(header.vocabulary)))
        or _named("z", judged_problem(content.z, n_pairs, len(content.rubrics)))
    )


def _named(what: str, problem: str) -> str:
    return f"{what}: {problem}" if problem else ""


def _pairs_table(pairs: PairRows) -> pa.Table:
    import pyarrow as pa

    schema = pair_schema()
    columns = [pa.array(list(getattr(pairs, name)), type=schema.field(name).type) for name in schema.names]
    return pa.table(columns, schema=schema)


def _rubrics_table(rubrics: Sequence[StoreRubric]) -> pa.Table:
    import pyarrow as pa

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
        "active": True,
        "support_count": entry.support_count,
    }
