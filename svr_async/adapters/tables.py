"""Reads rows from JSON, JSONL, CSV, TSV and Parquet files, gzipped or not, a folder, standard input, or memory."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import orjson

from svr_async.errors import DataError, UsageError

STDIN = Path("-")
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_ACCEPTED = ", ".join(SUFFIXES) + " (each also with .gz), or a folder of such files"
_DELIMITERS = (",", ";", "\t")
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_FOREIGN_BYTE = re.compile("[\udc80-\udcff]")


class Table(Protocol):
    """A pandas DataFrame or an Arrow table."""

    @property
    def columns(self) -> Any:
        """The columns or their names."""


Pairs = str | os.PathLike[str] | Iterable[Mapping[str, Any] | tuple[Any, Any, Any]] | Table
"""A path or hf:org/name; dictionaries, (prompt, a, b), a Hugging Face Dataset, a pandas DataFrame, an Arrow table."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record: its file, its number (from 1), its columns; `problem` says why it could not be read as an object."""

    file: str
    number: int
    values: Mapping[str, Any]
    problem: str = ""

    @property
    def where(self) -> str:
        """The row's place, for messages: "data.jsonl row 17"."""
        return f"{self.file} row {self.number}"


@dataclass(slots=True)
class Encoding:
    """How the text of files was decoded: names of encodings, and how many characters had to be changed.

    `legacy` counts bytes that are not UTF-8 and were read as Windows-1252; `replaced` counts NUL and lone surrogates,
    which became U+FFFD.
    """

    names: set[str] = field(default_factory=set)
    legacy: int = 0
    replaced: int = 0

    def __str__(self) -> str:
        return ", ".join(sorted(self.names)) + (f"; {self.legacy} bytes read as Windows-1252" if self.legacy else "")

    def text(self, data: bytes) -> str:
        """Decode UTF-8, or UTF-16 as Excel writes it; any other byte is read as Windows-1252, and counted."""
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self.names.add("UTF-16")
            return data.decode("utf-16", "replace")
        self.names.add("UTF-8 with a byte order mark" if data.startswith(codecs.BOM_UTF8) else "UTF-8")
        text, count = _FOREIGN_BYTE.subn(
            lambda found: bytes([ord(found[0]) & 0xFF]).decode("cp1252", "replace"),
            data.decode("utf-8-sig", "surrogateescape"),
        )
        self.legacy += count
        return text

    def json(self, text: str) -> Any:
        """Parse JSON: fast if it is clean, else leniently (NaN, control characters, lone surrogates)."""
        try:
            value = orjson.loads(text)
            return self.scrub(value) if "\\u0000" in text else value
        except orjson.JSONDecodeError:
            return self.scrub(json.loads(text, strict=False))

    def scrub(self, value: Any) -> Any:
        """Replace characters that cannot be sent or stored, in every text of a JSON value, and count them."""
        if isinstance(value, str):
            clean, count = _UNSENDABLE.subn("\ufffd", value)
            self.replaced += count
            return clean
        if isinstance(value, list):
            return [self.scrub(element) for element in value]
        if isinstance(value, dict):
            return {self.scrub(key): self.scrub(element) for key, element in value.items()}
        return value


def read_rows(path: Path, encoding: Encoding | None = None, files: Sequence[Path] = ()) -> Iterator[Row]:
    """Yield the rows of a file, of all data files below a folder in sorted order, or of `files` in it.

    A line that is not a JSON object comes as a row with a `problem`. DataError for a file that cannot be read.
    """
    encoding = Encoding() if encoding is None else encoding
    for file in [STDIN] if path == STDIN else files or data_files(path):
        name = "standard input" if file == STDIN else str(file.relative_to(path)) if path.is_dir() else file.name
        try:
            data = _standard_input() if file == STDIN else file.read_bytes()
            data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
            suffix = _kind_of(data) if file == STDIN else _suffix(name)
            if suffix == ".parquet":
                yield from _read_parquet(data, name, encoding)
            else:
                yield from _READERS[suffix](encoding.text(data), name, encoding)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{name}: truncated or damaged gzip file ({error})", hint="fetch it again") from error
        except (csv.Error, OSError) as error:
            raise DataError(f"{name}: cannot be read ({error})") from error


def rows_in_memory(pairs: Any, encoding: Encoding) -> Iterator[Row]:
    """Yield the rows of pairs in memory as a file of them would have them; UsageError if they are not rows."""
    name, records = type(pairs).__name__, pairs
    if hasattr(pairs, "to_pylist"):
        records = _arrow_rows(pairs)
    elif hasattr(pairs, "iloc"):  # pandas
        records = pairs.to_dict("records")
    if isinstance(records, Mapping) or not isinstance(records, Iterable):
        hint = "one split of them, data['train']" if isinstance(records, Mapping) else "rows such as [{'prompt': …}]"
        raise UsageError(f"pairs cannot be a {name}", hint=f"give a path, a table, or {hint}")
    for number, record in enumerate(records, 1):
        three = isinstance(record, tuple) and len(record) == 3
        cells = dict(zip(("prompt", "a", "b"), record, strict=True)) if three else record
        if isinstance(cells, Mapping):  # as JSON has it: NaN is null, arrays are lists, times are text
            plain = {key: None if isinstance(cell, float) and math.isnan(cell) else cell for key, cell in cells.items()}
            cells = encoding.json(json.dumps(plain, default=_plain_cell))
        yield _row(name, number, cells)


def _plain_cell(cell: Any) -> Any:
    if hasattr(cell, "tolist"):
        return cell.tolist()
    return None if str(cell) in {"<NA>", "NaT"} else str(cell)


def data_files(path: Path) -> list[Path]:
    """Return the data files below a folder, sorted by path, or the file itself; DataError without any."""
    if path.is_dir():
        names = ((p, p.relative_to(path).parts) for p in sorted(path.rglob("*")) if _suffix(p.name) and p.is_file())
        found = [p for p, parts in names if not any(part.startswith(".") for part in parts)]
        if not found:
            raise DataError(f"no data files below {path}", hint=f"accepted: {_ACCEPTED}")
        return found
    if not path.exists():
        raise DataError(f"no such file or folder: '{path}'", hint="check the path")
    if not _suffix(path.name):
        raise DataError(f"cannot read '{path.name}': unknown suffix", hint=f"accepted: {_ACCEPTED}")
    return [path]


def _suffix(name: str) -> str:
    plain = name.lower().removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if plain.endswith(suffix)), "")


@cache
def _standard_input() -> bytes:
    """Read standard input once for the whole process."""
    if sys.stdin.isatty():
        raise UsageError("- reads standard input, but this is a terminal", hint="pipe a file into the command")
    return sys.stdin.buffer.read()


def _kind_of(data: bytes) -> str:
    """Return the suffix that fits the content of standard input."""
    if data.startswith(b"PAR1"):
        return ".parquet"
    return ".json" if data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[") else ".csv"


def _row(name: str, number: int, value: Any) -> Row:
    if isinstance(value, dict):
        return Row(name, number, value)
    return Row(name, number, {}, f"expected an object with columns, found {type(value).__name__}")


def _read_jsonl(text: str, name: str, encoding: Encoding) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield _row(name, number, encoding.json(line))
            except (ValueError, RecursionError) as error:
                yield Row(name, number, {}, f"not valid JSON ({error})")


def _read_json(text: str, name: str, encoding: Encoding) -> Iterator[Row]:
    """Read a list of records, also as the only list of objects in an object; one record; or one object a line."""
    try:
        value = encoding.json(text)
    except (ValueError, RecursionError) as error:
        if not text.lstrip().startswith("{"):
            raise DataError(f"{name}: not valid JSON ({error})") from error
        yield from _read_jsonl(text, name, encoding)
        return
    if isinstance(value, dict):
        lists = {key: v for key, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
        if len(lists) != 1 and not any(isinstance(v, str) for v in value.values()):
            found = ", ".join(map(repr, lists)) or "none"
            raise DataError(f"{name}: expected one list of records in the object, found {found}")
        value = next(iter(lists.values())) if len(lists) == 1 else [value]
    if not isinstance(value, list):
        raise DataError(f"{name}: expected a list of records, found {type(value).__name__}")
    yield from (_row(name, number, element) for number, element in enumerate(value, 1))


def _read_csv(text: str, name: str, encoding: Encoding) -> Iterator[Row]:
    csv.field_size_limit((1 << 31) - 1)
    widths = {mark: len(next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), [])) for mark in _DELIMITERS}
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=lambda mark: widths[mark]))
    for number, cells in enumerate(table, 1):
        if None in cells:
            yield Row(name, number, {}, "more cells than the header has columns")
        else:
            yield Row(name, number, encoding.scrub(cells))


def _read_parquet(data: bytes, name: str, encoding: Encoding) -> Iterator[Row]:
    """Read a Parquet file; times become text, since Python's are less precise and end in 9999."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = _arrow_rows(pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: damaged or not a parquet file ({first_line})", hint="fetch it again") from error
    yield from (Row(name, number, encoding.scrub(cells)) for number, cells in enumerate(rows, 1))


def _arrow_rows(table: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    columns = [c.cast("string") if pa.types.is_temporal(c.type) else c for c in table.columns]
    rows: list[dict[str, Any]] = pa.table(columns, names=table.column_names).to_pylist()
    return rows


_READERS: Mapping[str, Callable[[str, str, Encoding], Iterator[Row]]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_csv,
}
