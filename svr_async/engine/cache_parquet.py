"""Replies as Parquet, a row each, for object stores and for tools that read tables; a row group is held at a time.

The columns are `COLUMNS`; docs/scale.md says what they hold. A file is refused before it is read where its columns are
others or where it would unfold to much more than its size, and while it is read where it does so all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from svr_async.engine.cache_lines import MAX_LINE_BYTES, WRITTEN_BY, row_in
from svr_async.engine.reply import Reply
from svr_async.errors import ArtefactError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = b"svr replies 1"
GROUP_ROWS, GROUP_BYTES = 1024, 16 * 2**20  # a row group ends with the one that is reached first
MAX_GROUP_BYTES = GROUP_BYTES + 2 * MAX_LINE_BYTES
MAX_RATIO, FREE_BYTES = 200, 64 * 2**20  # what may be unfolded: so many times the size of the file, or so much
USAGE = ("prompt_tokens", "cached_tokens", "completion_tokens", "batch")
COLUMNS = {
    "key": "string",
    "text": "string",
    "reasoning": "string",
    "finish_reason": "string",
    "model": "string",
    "fingerprint": "string",
    "id": "string",
    "tries": "int64",
    "prompt_tokens": "int64",
    "cached_tokens": "int64",
    "completion_tokens": "int64",
    "batch": "bool",
}
TEXTS = tuple(name for name, kind in COLUMNS.items() if kind == "string")


def write_replies(file: BinaryIO, rows: Iterable[tuple[bytes, Reply]]) -> None:
    """Write replies to an open file; equal replies in the same order give the same bytes with the same pyarrow."""
    from pyarrow import parquet

    with parquet.ParquetWriter(file, _schema(), compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_batch(_batch(group), row_group_size=GROUP_ROWS)


def read_replies(file: BinaryIO, size: int, name: str) -> Iterator[tuple[bytes, Reply]]:
    """Yield the replies of an open file of so many bytes; ArtefactError for one that holds anything else, or too much.

    Texts that stand once for many rows are unfolded row by row, so that memory is flat whatever the file holds.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file, pre_buffer=False) as plain:
            allowed = _check(plain, size)
        file.seek(0)
        with parquet.ParquetFile(file, read_dictionary=list(TEXTS), pre_buffer=False) as table:
            yield from _rows(table, allowed, name)
    except (pa.ArrowException, OSError, ValueError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise ArtefactError(f"{name} holds no replies: {first}", hint=WRITTEN_BY) from error


def _schema() -> pa.Schema:
    import pyarrow as pa

    fields = [pa.field(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    return pa.schema(fields, metadata={"svr": FORMAT})


def _groups(rows: Iterable[tuple[bytes, Reply]]) -> Iterator[list[tuple[bytes, Reply]]]:
    group: list[tuple[bytes, Reply]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row[1].text) + len(row[1].reasoning)
        if len(group) == GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _batch(group: list[tuple[bytes, Reply]]) -> pa.RecordBatch:
    import pyarrow as pa

    def value(key: bytes, reply: Reply, name: str) -> Any:
        return key.hex() if name == "key" else getattr(reply.usage if name in USAGE else reply, name)

    columns = {name: [value(key, reply, name) for key, reply in group] for name in COLUMNS}
    return pa.RecordBatch.from_pydict(columns, schema=_schema())


def _check(table: Any, size: int) -> int:
    """Return how many bytes of text may be unfolded; ValueError for a file that is no export, or claims too much."""
    found = {field.name: str(field.type) for field in table.schema_arrow}
    if found != COLUMNS:
        raise ValueError(f"its columns are {', '.join(f'{name} {kind}' for name, kind in found.items())[:120]}")
    facts = table.metadata
    groups = [facts.row_group(number).total_byte_size for number in range(facts.num_row_groups)]
    allowed = max(FREE_BYTES, MAX_RATIO * size)
    if sum(groups) > allowed or max(groups, default=0) > MAX_GROUP_BYTES:
        raise ValueError(f"it has {size:,} bytes and says that it unfolds to {sum(groups):,}")
    return allowed


def _rows(table: Any, allowed: int, name: str) -> Iterator[tuple[bytes, Reply]]:
    number = unfolded = 0
    for batch in table.iter_batches(GROUP_ROWS, use_threads=False):
        for place in range(batch.num_rows):
            (values,) = batch.slice(place, 1).to_pylist()
            number += 1
            size = sum(len(values[text] or "") for text in TEXTS)
            unfolded += size
            if size > MAX_LINE_BYTES or unfolded > allowed:
                raise ValueError(f"it unfolds to more than {min(allowed, MAX_LINE_BYTES):,} bytes")
            yield row_in(_line(values), f"{name} row {number}")


def _line(values: dict[str, Any]) -> bytes:
    usage = {name: values.pop(name) for name in USAGE}
    return orjson.dumps({"key": values.pop("key"), "reply": values | {"usage": usage}})
