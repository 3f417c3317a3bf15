"""The reasons of a run, in a columnar file beside its items: `reasons.parquet`, a row for each text.

Its columns are `item` and the fields of `Reason`, all texts; its rows are in the order of the items. It is made of the
replies as a whole, so that a run that was killed and gone on with has the file of one that was not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from svr_async.errors import ArtefactError, StorageError
from svr_async.evaluation.items import Item, Reason
from svr_async.vocabulary.atomic import reason, write_atomic_with

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "reasons.parquet"
NAMES = ("item", "rubric", "shown", "judge")  # what repeats; `text` is the last column
ROWS_AT_ONCE = 16_384


def write_reasons(folder: Path, items: Sequence[Item]) -> None:
    """Write the reasons of these items into a run folder, whole; without any there is no file. StorageError."""
    path = folder / FILE
    if any(item.reasons for item in items):
        write_atomic_with(path, lambda file: _write(file, items))
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {reason(error)}", hint="choose another place with --out") from error


def with_reasons(folder: Path, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items read from a run folder with the reasons that it keeps of them; ArtefactError for a garbled file."""
    path = folder / FILE
    found = _read(path, {item.id for item in items}) if items and path.exists() else {}
    return tuple(replace(item, reasons=tuple(found.get(item.id, ()))) for item in items)


def _write(file: BinaryIO, items: Sequence[Item]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetWriter(file, _schema(), compression="zstd", use_dictionary=list(NAMES)) as writer:
        for rows in _in_parts(items):
            writer.write_table(pa.Table.from_pylist(rows, schema=_schema()))


def _in_parts(items: Sequence[Item]) -> Iterator[list[dict[str, str]]]:
    rows: list[dict[str, str]] = []
    for item in items:
        rows += ({"item": item.id, **asdict(one)} for one in item.reasons)
        if len(rows) >= ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, pa.string()) for name in (*NAMES, "text")])


def _read(path: Path, ids: Collection[str]) -> Mapping[str, list[Reason]]:
    import pyarrow as pa

    found: dict[str, list[Reason]] = defaultdict(list)
    try:
        for row in _rows_of(path, ids):
            found[row.pop("item")].append(Reason(**row))
    except (OSError, ValueError, pa.ArrowException) as error:
        said = " ".join(str(error).split())[:200]
        hint = "run svr eval again; what was judged is in the memo"
        raise ArtefactError(f"{path}: not the reasons of a run ({said})", hint=hint) from error
    return found


def _rows_of(path: Path, ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of these items; the file is read a part at a time."""
    import pyarrow as pa
    from pyarrow import compute, parquet

    with path.open("rb") as file, parquet.ParquetFile(file) as opened:
        if not opened.schema_arrow.equals(_schema(), check_metadata=False):
            raise ValueError(f"its columns are {', '.join(opened.schema_arrow.names)[:200]}")
        wanted = pa.array(sorted(ids), pa.string())
        for batch in opened.iter_batches(ROWS_AT_ONCE, use_threads=False):
            yield from batch.filter(compute.is_in(batch["item"], value_set=wanted)).to_pylist()
