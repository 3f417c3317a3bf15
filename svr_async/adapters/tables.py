"""Rows from json, jsonl, csv, tsv and parquet files, plain or gzipped, or a folder of them, within caps on size."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from svr_async.errors import DataError

SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
REPLACED = "characters replaced by U+FFFD (NUL, lone surrogates, bytes that are not UTF-8)"
"""The key under which `read_rows` counts what it replaced."""

_MIB = 1 << 20
_BOM = b"\xef\xbb\xbf"
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DELIMITERS = (",", ";", "\t")
_HEADER_BYTES = 1 << 16
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_LARGE_BATCH_BYTES = 16 * _MIB
_BOMB = "it is packed far more tightly than text ever is; as jsonl it can be read whatever it holds"
_PARQUET_BATCH_ROWS = 64  # small, so that a dictionary page cannot unfold into gigabytes at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much one file may unfold to, in bytes or rows; beyond it reading stops with a DataError.

    `max_ratio` (unpacked to packed size) is looked at once a file has unfolded to more than `free_bytes`.
    `max_whole_bytes` bounds what must be held at once: a JSON array, or a gzipped parquet file.
    """

    max_bytes: int = 4096 * _MIB
    max_whole_bytes: int = 1024 * _MIB
    max_row_bytes: int = 64 * _MIB
    max_rows: int = 20_000_000
    max_ratio: int = 200
    free_bytes: int = 64 * _MIB


DEFAULT_CAPS = Caps()


@dataclass(frozen=True, slots=True)
class Row:
    """One record: its file, its number there, its columns; `problem` is set where it could not be read as an object.

    Numbers count from 1: lines of a jsonl file, elements of a JSON array, records of a csv file below its header.
    """

    file: str
    number: int
    values: Mapping[str, Any]
    problem: str = ""

    @property
    def where(self) -> str:
        """The row's place, for messages: "data.jsonl row 17"."""
        return f"{self.file} row {self.number}"


def read_rows(
    path: Path, repairs: Counter[str] | None = None, caps: Caps = DEFAULT_CAPS, files: Sequence[Path] = ()
) -> Iterator[Row]:
    """Yield the rows of a file, or of all data files below a folder in sorted order; DataError says what is wrong.

    With `files` only these of the folder are read.

    NUL, lone surrogates and bytes that are not UTF-8 become U+FFFD and are counted in `repairs[REPLACED]`.
    A line that is not a JSON object comes as a row with a `problem`; a file that cannot be read at all raises.
    """
    repairs = Counter() if repairs is None else repairs
    for file in files or data_files(path):
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        with _one_line_errors(name):
            yield from _READERS[_kind(file)](file, name, repairs, caps)


def data_files(path: Path) -> list[Path]:
    """Return the files that `read_rows` reads, sorted by their path; DataError where there are none."""
    with _one_line_errors(path.name):
        folder, there = path.is_dir(), path.exists()
        below = path.rglob("*") if folder else ()
        found = sorted(p for p in below if _kind(p) and p.is_file() and not _hidden(p.relative_to(path)))
    if folder:
        if not found:
            raise DataError(f"no data files below {path}", hint=f"accepted: {_accepted()}")
        return found
    if not there:
        raise DataError(f"no such file or folder: {path}", hint="check the path")
    if not _kind(path):
        raise DataError(f"cannot read {path.name}: unknown suffix", hint=f"accepted: {_accepted()}")
    return [path]


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _accepted() -> str:
    return ", ".join(SUFFIXES) + " (each also with .gz), or a folder of such files"


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """Turn what the readers raise on broken files into a DataError that names the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: truncated or damaged gzip file ({error})", hint="fetch it again") from error
    except csv.Error as error:
        raise DataError(f"{name}: not a readable csv file ({error})") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error})") from error


class _Capped(io.RawIOBase):
    """A byte stream that raises DataError once more than `allowed` bytes came out of it."""

    def __init__(self, raw: IO[bytes] | gzip.GzipFile, name: str, allowed: int) -> None:
        self._raw, self._name, self._allowed = raw, name, allowed
        self._left = allowed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self._left -= len(data)
        if self._left < 0:
            raise DataError(
                f"{self._name}: unfolds to more than {self._allowed / _MIB:.0f} MiB, too much for its size",
                hint="check the file; split it if it is right",
            )
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _open(path: Path, name: str, caps: Caps, most: int) -> io.BufferedReader:
    """Open a file for reading its unpacked bytes, at most `most` of them and within the caps on packing."""
    if not path.name.lower().endswith(".gz"):
        return io.BufferedReader(_Capped(path.open("rb"), name, most), _MIB)
    allowed = min(most, max(caps.free_bytes, caps.max_ratio * path.stat().st_size))
    return io.BufferedReader(_Capped(gzip.open(path, "rb"), name, allowed), _MIB)


class _Narrowed(io.RawIOBase):
    """The UTF-8 bytes of a stream of UTF-16, as Excel and PowerShell write it; what is not UTF-16 becomes U+FFFD."""

    def __init__(self, raw: IO[bytes], encoding: str) -> None:
        self._raw, self._left = raw, b""
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and (chunk := self._raw.read(len(buffer))):
            self._left = self._decoder.decode(chunk).encode()
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _open_text(path: Path, name: str, caps: Caps, most: int) -> io.BufferedReader:
    """Open a file of text for reading its unpacked bytes in UTF-8."""
    stream = _open(path, name, caps, most)
    encoding = _WIDE.get(stream.peek(2)[:2])
    return io.BufferedReader(_Narrowed(stream, encoding), _MIB) if encoding else stream


def _scrub(value: Any, repairs: Counter[str]) -> Any:
    """Replace characters that cannot be sent or stored, in every text of a JSON value, and count them."""
    if isinstance(value, str):
        if not _UNFIT.search(value):
            return value
        clean, count = _UNFIT.subn("\ufffd", value)
        repairs[REPLACED] += count
        return clean
    if isinstance(value, list):
        return [_scrub(element, repairs) for element in value]
    if isinstance(value, dict):
        return {_scrub(key, repairs): _scrub(element, repairs) for key, element in value.items()}
    return value


def _parse_json(raw: bytes, repairs: Counter[str]) -> Any:
    """Parse JSON: fast where it is clean, leniently (NaN, control characters, lone surrogates) where it is not."""
    raw = raw.removeprefix(_BOM)
    try:
        value = orjson.loads(raw)
        return _scrub(value, repairs) if b"\\u0000" in raw else value
    except orjson.JSONDecodeError:
        return _scrub(json.loads(raw.decode("utf-8", "surrogateescape"), strict=False), repairs)


def _row(name: str, number: int, value: Any) -> Row:
    if isinstance(value, dict):
        return Row(name, number, value)
    return Row(name, number, {}, f"expected an object with columns, found {type(value).__name__}")


def _read_jsonl(path: Path, name: str, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
    with _open_text(path, name, caps, caps.max_bytes) as stream:
        yield from _json_lines(stream, name, repairs, caps)


def _json_lines(stream: IO[bytes], name: str, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
    number = 0
    while line := stream.readline(caps.max_row_bytes + 1):
        number += 1
        if len(line) > caps.max_row_bytes:
            raise DataError(f"{name} row {number}: longer than {caps.max_row_bytes / _MIB:.0f} MiB")
        if number > caps.max_rows:
            raise DataError(f"{name}: more than {caps.max_rows:,} rows")
        if line.strip() in (b"", _BOM):
            continue
        try:
            yield _row(name, number, _parse_json(line, repairs))
        except (ValueError, RecursionError) as error:
            yield Row(name, number, {}, f"not valid JSON ({error})")


def _read_json(path: Path, name: str, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
    with _open_text(path, name, caps, caps.max_whole_bytes) as stream:
        raw = stream.read()
    try:
        value = _parse_json(raw, repairs)
    except (ValueError, RecursionError) as error:
        if not raw.removeprefix(_BOM).lstrip().startswith(b"{"):
            raise DataError(f"{name}: not valid JSON ({error})") from error
        yield from _json_lines(io.BytesIO(raw), name, repairs, caps)  # lines of JSON under the name of an array
        return
    for number, element in enumerate(_records(value, name), 1):
        yield _row(name, number, element)


def _records(value: Any, name: str) -> list[Any]:
    """Return the list of records in a JSON file: the array itself, or the only list of objects inside an object."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise DataError(f"{name}: expected a list of records, found {type(value).__name__}")
    lists = {key: v for key, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    if len(lists) == 1:
        return next(iter(lists.values()))
    if _scalar(value):
        return [value]  # a jsonl file of one line
    found = ", ".join(map(repr, lists)) or "none"
    raise DataError(f"{name}: expected one list of records in the object, found {found}")


def _scalar(value: Mapping[str, Any]) -> bool:
    return any(isinstance(v, str) for v in value.values())


def _read_csv(path: Path, name: str, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
    csv.field_size_limit(caps.max_row_bytes)
    with _open_text(path, name, caps, caps.max_bytes) as stream:
        delimiter = _delimiter(stream.peek(_HEADER_BYTES)[:_HEADER_BYTES])
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        for number, cells in enumerate(csv.DictReader(text, delimiter=delimiter), 1):
            if None in cells:
                yield Row(name, number, {}, "more cells than the header has columns")
            else:
                yield Row(name, number, _scrub(cells, repairs))


def _delimiter(start: bytes) -> str:
    """Return what parts the header of a table into most columns: a comma, or what Excel writes in its place."""
    lines = start.decode("utf-8-sig", "replace").splitlines(keepends=True)
    widths = {mark: len(next(csv.reader(lines, delimiter=mark), [])) for mark in _DELIMITERS}
    return max(_DELIMITERS, key=lambda mark: widths[mark])


def _read_parquet(path: Path, name: str, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
    import pyarrow as pa

    try:
        yield from _parquet_rows(_parquet_source(path, name, caps), name, repairs, caps)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # no UTF-8, times that no value can hold
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: damaged or not a parquet file ({first_line})", hint="fetch it again") from error


def _parquet_source(path: Path, name: str, caps: Caps) -> Any:
    """Return what a parquet file is opened from, as often as wanted: its path, or what a packed one holds."""
    if not path.name.lower().endswith(".gz"):
        return path
    import pyarrow as pa

    with _one_line_errors(name), _open(path, name, caps, caps.max_whole_bytes) as stream:
        return pa.py_buffer(stream.read())


def _opened(source: Any, **settings: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(source if isinstance(source, Path) else pa.BufferReader(source), pre_buffer=False, **settings)


def _parquet_rows(source: Any, name: str, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
    size = source.stat().st_size if isinstance(source, Path) else source.size
    allowed = min(caps.max_bytes, max(caps.free_bytes, caps.max_ratio * size))
    with _opened(source) as file:
        _check_parquet_size(file.metadata, name, caps, allowed)
        with _opened(source, read_dictionary=_text_columns(file.metadata)) as coded:
            number = unfolded = 0
            for batch in _batches(file, coded):
                for values in _values_of(batch):
                    unfolded += _text_bytes(values)
                    if unfolded > allowed:
                        raise DataError(f"{name}: unfolds to more than {allowed / _MIB:,.0f} MiB", hint=_BOMB)
                    number += 1
                    yield Row(name, number, _scrub(values, repairs))


def _text_columns(metadata: Any) -> list[str]:
    """Return the columns of text. Arrow ends the process where a damaged file's groups are asked for their columns."""
    columns = map(metadata.schema.column, range(metadata.num_columns if metadata.num_row_groups else 0))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _batches(file: Any, coded: Any) -> Iterator[Any]:
    """Yield the rows of a file, fewer at once where a value is large that may stand once for many of them.

    `coded` is the same file read as values and their places. Only the first row is read so, for all the values of a
    group come with it: with each batch they would come again.
    """
    for group in range(file.num_row_groups):
        only = {"row_groups": [group], "use_threads": False}
        held = next((batch.nbytes for batch in coded.iter_batches(1, **only)), 0)
        rows = max(1, min(_PARQUET_BATCH_ROWS, _LARGE_BATCH_BYTES // max(1, held)))
        yield from file.iter_batches(rows, **only)


def _values_of(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, of a large one each by itself."""
    step = batch.num_rows if batch.nbytes <= _LARGE_BATCH_BYTES else 1
    for first in range(0, batch.num_rows, max(1, step)):
        yield from _plain_rows(batch.slice(first, step))


def _plain_rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch; times that Python has no value for, finer than a microsecond or too late, as text."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, OverflowError):
        told = [_plain_column(column) for column in batch.columns]
        return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*told, strict=True)]
    return rows


def _plain_column(column: Any) -> list[Any]:
    import pyarrow as pa

    values: list[Any] = (column.cast("string") if pa.types.is_temporal(column.type) else column).to_pylist()
    return values


def _text_bytes(value: Any) -> int:
    """Return how much text a value holds, at any depth."""
    if isinstance(value, str | bytes):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_text_bytes, parts))


def _check_parquet_size(metadata: Any, name: str, caps: Caps, allowed: int) -> None:
    if metadata.num_rows > caps.max_rows:
        raise DataError(f"{name}: says that it has {metadata.num_rows:,} rows, more than {caps.max_rows:,}")
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if size > allowed:
        raise DataError(
            f"{name}: says that it unfolds to {size / _MIB:,.0f} MiB, more than {allowed / _MIB:,.0f}", hint=_BOMB
        )


_READERS: Mapping[str, Callable[[Path, str, Counter[str], Caps], Iterator[Row]]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}
