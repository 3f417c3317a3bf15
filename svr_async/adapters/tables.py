"""Reads rows from JSON, JSONL, CSV, TSV and Parquet files, gzipped or not, a folder of them, or standard input."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from svr_async.errors import DataError, UsageError

STDIN = Path("-")
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_ACCEPTED = ", ".join(SUFFIXES) + " (each also with .gz), or a folder of such files"
_DELIMITERS = (",", ";", "\t")
_FIELD_BYTES = (1 << 31) - 1
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_FOREIGN_BYTE = re.compile("[\udc80-\udcff]")


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
    """How the text of files was decoded: names of encodings, and how many characters were not as they should be.

    `legacy` counts bytes that are not UTF-8 and were read as Windows-1252; `replaced` counts NUL and lone surrogates,
    which became U+FFFD.
    """

    names: set[str] = field(default_factory=set)
    legacy: int = 0
    replaced: int = 0

    def __str__(self) -> str:
        return ", ".join(sorted(self.names)) + (f"; {self.legacy} bytes read as Windows-1252" if self.legacy else "")


def read_rows(path: Path, encoding: Encoding | None = None, files: Sequence[Path] = ()) -> Iterator[Row]:
    """Yield the rows of a file, of all data files below a folder in sorted order, or of `files` in it.

    A line that is not a JSON object comes as a row with a `problem`. DataError for a file that cannot be read.
    """
    encoding = Encoding() if encoding is None else encoding
    if path == STDIN:
        data = _standard_input()
        yield from _read(_kind_of(data), io.BytesIO(data), "standard input", encoding)
        return
    for file in files or data_files(path):
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        with _one_line_errors(name), file.open("rb") as stream:
            yield from _read(file.name.lower(), stream, name, encoding)


def data_files(path: Path) -> list[Path]:
    """Return the data files below a folder, sorted by path, or the file itself; DataError if there are none."""
    with _one_line_errors(path.name):
        if path.is_dir():
            below = sorted(p for p in path.rglob("*") if _suffix(p.name.lower()) and p.is_file())
            found = [p for p in below if not any(part.startswith(".") for part in p.relative_to(path).parts)]
            if not found:
                raise DataError(f"no data files below {path}", hint=f"accepted: {_ACCEPTED}")
            return found
        if not path.exists():
            raise DataError(f"no such file or folder: {path}", hint="check the path")
    if not _suffix(path.name.lower()):
        raise DataError(f"cannot read {path.name}: unknown suffix", hint=f"accepted: {_ACCEPTED}")
    return [path]


def _suffix(name: str) -> str:
    plain = name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if plain.endswith(suffix)), "")


def _read(name_or_suffix: str, stream: io.BufferedIOBase, name: str, encoding: Encoding) -> Iterator[Row]:
    with _one_line_errors(name):
        opened = gzip.GzipFile(fileobj=stream) if name_or_suffix.endswith(".gz") else stream
        yield from _READERS[_suffix(name_or_suffix)](opened, name, encoding)


@cache
def _standard_input() -> bytes:
    """Read standard input once for the whole process."""
    if sys.stdin.isatty():
        raise UsageError("- reads standard input, but this is a terminal", hint="pipe a file into the command")
    return sys.stdin.buffer.read()


def _kind_of(data: bytes) -> str:
    """Return the suffix of standard input: Parquet, gzipped JSON, JSON, or a table."""
    if data.startswith((b"PAR1", b"\x1f\x8b")):
        return ".parquet" if data.startswith(b"P") else ".json.gz"
    return ".json" if data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[") else ".csv"


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: truncated or damaged gzip file ({error})", hint="fetch it again") from error
    except csv.Error as error:
        raise DataError(f"{name}: not a readable csv file ({error})") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error})") from error


def _utf8(stream: Any, encoding: Encoding) -> Any:
    """Return a stream of UTF-8 lines without a byte order mark; UTF-16, as Excel writes it, is converted."""
    buffered = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    start = buffered.peek(3)[:3]
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding.names.add("UTF-16")
        return io.BytesIO(buffered.read().decode("utf-16", "replace").encode())
    if start == codecs.BOM_UTF8:
        buffered.read(3)
    encoding.names.add("UTF-8 with a byte order mark" if start == codecs.BOM_UTF8 else "UTF-8")
    return buffered


def _decode(raw: bytes, encoding: Encoding) -> str:
    """Decode UTF-8; any other byte is read as Windows-1252, and counted."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        text, count = _FOREIGN_BYTE.subn(
            lambda found: bytes([ord(found[0]) & 0xFF]).decode("cp1252", "replace"),
            raw.decode("utf-8", "surrogateescape"),
        )
        encoding.legacy += count
        return text


def _scrub(value: Any, encoding: Encoding) -> Any:
    """Replace characters that cannot be sent or stored, in every text of a JSON value, and count them."""
    if isinstance(value, str):
        clean, count = _UNSENDABLE.subn("\ufffd", value)
        encoding.replaced += count
        return clean
    if isinstance(value, list):
        return [_scrub(element, encoding) for element in value]
    if isinstance(value, dict):
        return {_scrub(key, encoding): _scrub(element, encoding) for key, element in value.items()}
    return value


def _parse_json(raw: bytes, encoding: Encoding) -> Any:
    """Parse JSON: fast if it is clean, else leniently (NaN, control characters, lone surrogates)."""
    try:
        value = orjson.loads(raw)
        return _scrub(value, encoding) if b"\\u0000" in raw else value
    except orjson.JSONDecodeError:
        return _scrub(json.loads(_decode(raw, encoding), strict=False), encoding)


def _row(name: str, number: int, value: Any) -> Row:
    if isinstance(value, dict):
        return Row(name, number, value)
    return Row(name, number, {}, f"expected an object with columns, found {type(value).__name__}")


def _read_jsonl(stream: Any, name: str, encoding: Encoding) -> Iterator[Row]:
    for number, line in enumerate(_utf8(stream, encoding), 1):
        if not line.strip():
            continue
        try:
            yield _row(name, number, _parse_json(line, encoding))
        except (ValueError, RecursionError) as error:
            yield Row(name, number, {}, f"not valid JSON ({error})")


def _read_json(stream: Any, name: str, encoding: Encoding) -> Iterator[Row]:
    raw = _utf8(stream, encoding).read()
    try:
        value = _parse_json(raw, encoding)
    except (ValueError, RecursionError) as error:
        if not raw.lstrip().startswith(b"{"):
            raise DataError(f"{name}: not valid JSON ({error})") from error
        yield from _read_jsonl(io.BytesIO(raw), name, encoding)  # one object a line in a .json file
        return
    for number, element in enumerate(_records(value, name), 1):
        yield _row(name, number, element)


def _records(value: Any, name: str) -> list[Any]:
    """Return the records of a JSON file: the list itself, the only list of objects in an object, or one record."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise DataError(f"{name}: expected a list of records, found {type(value).__name__}")
    lists = {key: v for key, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    if len(lists) == 1:
        return next(iter(lists.values()))
    if any(isinstance(v, str) for v in value.values()):
        return [value]
    found = ", ".join(map(repr, lists)) or "none"
    raise DataError(f"{name}: expected one list of records in the object, found {found}")


def _read_csv(stream: Any, name: str, encoding: Encoding) -> Iterator[Row]:
    csv.field_size_limit(_FIELD_BYTES)
    text = _decode(_utf8(stream, encoding).read(), encoding)
    widths = {mark: len(next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), [])) for mark in _DELIMITERS}
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=lambda mark: widths[mark]))
    for number, cells in enumerate(table, 1):
        if None in cells:
            yield Row(name, number, {}, "more cells than the header has columns")
        else:
            yield Row(name, number, _scrub(cells, encoding))


def _read_parquet(stream: Any, name: str, encoding: Encoding) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(pa.BufferReader(stream.read()), pre_buffer=False) as file:
            for batch in file.iter_batches(256, use_threads=False):  # a thread left at the end can hang Python
                columns = [_plain_column(column) for column in batch.columns]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield Row(name, number, _scrub(dict(zip(batch.schema.names, cells, strict=True)), encoding))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: damaged or not a parquet file ({first_line})", hint="fetch it again") from error


def _plain_column(column: Any) -> list[Any]:
    """Return a column's values; times as text, since Python has none as fine or as late."""
    import pyarrow as pa

    values: list[Any] = (column.cast("string") if pa.types.is_temporal(column.type) else column).to_pylist()
    return values


_READERS: Mapping[str, Callable[[Any, str, Encoding], Iterator[Row]]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}
