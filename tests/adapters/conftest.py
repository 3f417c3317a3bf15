"""Writes rows to files of every accepted kind, in a folder of the test's own."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def encoded(rows: list[dict[str, Any]], kind: str) -> bytes:
    """Return rows as the bytes of a json, jsonl, csv, tsv or parquet file."""
    if kind == "json":
        return json.dumps(rows).encode()
    if kind in ("jsonl", "ndjson"):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "surrogateescape")
    if kind in ("csv", "tsv"):
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, list(rows[0]), delimiter="," if kind == "csv" else "\t")
        table.writeheader()
        table.writerows(rows)
        return text.getvalue().encode()
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows (or bytes) to a file named in the test's folder and gives its path."""

    def write_file(name: str, rows: bytes | list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = name.removesuffix(".gz")
        data = rows if isinstance(rows, bytes) else encoded(rows, plain.rpartition(".")[2])
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file
