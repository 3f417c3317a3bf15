"""The files of a feature store: npz without pickles or compression, parquet with fixed columns, digests of both."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.core.files import reason, write_atomic, write_atomic_with
from svr_async.errors import ArtefactError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]

META = "meta.json"
MAX_JSON_BYTES = 64 << 20
MAX_FILE_BYTES = 64 << 30
MAX_BLOWN_UP = 400  # how many times its size a parquet file may claim to unpack to
MAX_NPY_HEADER = 4_096
CHUNK_BYTES = 1 << 20
MAPPED_BYTES = 1 << 20  # an array of at least this size is mapped, not read
ALIGNED = 64
LOCAL_HEADER, NAME_LENGTH_AT, ZIP64_FIELD, EXTRA_HEADER = 30, 26, 20, 4  # bytes in a zip archive (APPNOTE 4.3.7)
PADDING_FIELD = 0xD935  # an extra field that says nothing, as Android's aligned archives have it
WRITE_HINT = "choose another folder for the store"


def write_json(path: Path, value: Mapping[str, Any]) -> dict[str, Any]:
    """Write a JSON file whole and return its entry for meta.json."""
    write_atomic(path, orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE), hint=WRITE_HINT)
    return entry_of(path)


def write_npz(path: Path, **arrays: Array) -> dict[str, Any]:
    """Write arrays whole as an uncompressed npz and return its entry for meta.json."""
    write_atomic_with(path, lambda file: _pack(file, arrays), hint=WRITE_HINT)
    return entry_of(path)


def _pack(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write what `numpy.savez` writes, but never a pickle and with a fixed date: the same arrays, the same bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, values in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            if values.nbytes >= MAPPED_BYTES:
                info.extra = _aligned(file.tell(), len(info.filename))
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(values), allow_pickle=False)


def _aligned(start: int, name_bytes: int) -> bytes:
    """Return an extra field of a zip member from `start` that has its data begin at a multiple of `ALIGNED`.

    zipfile adds a field of its own for sizes, since `force_zip64` is set.
    """
    before = start + LOCAL_HEADER + name_bytes + ZIP64_FIELD + EXTRA_HEADER
    return struct.pack("<HH", PADDING_FIELD, -before % ALIGNED) + bytes(-before % ALIGNED)


def write_parquet(path: Path, table: pa.Table) -> dict[str, Any]:
    """Write a table whole and return its entry for meta.json."""
    from pyarrow import parquet

    write_atomic_with(path, lambda file: parquet.write_table(table, file, compression="zstd"), hint=WRITE_HINT)
    return entry_of(path)


def entry_of(path: Path) -> dict[str, Any]:
    """Return a file's name, size and SHA-256."""
    with path.open("rb") as file:
        return {"file": path.name, "bytes": path.stat().st_size, "sha256": _digest(file)}


def _digest(file: BinaryIO) -> str:
    sha = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        sha.update(chunk)
    return sha.hexdigest()


def open_verified(folder: Path, entry: Mapping[str, Any]) -> BinaryIO:
    """Open a file of the store after comparing its size and digest with its entry; ArtefactError where they differ."""
    name, size, wanted = entry.get("file"), entry.get("bytes"), entry.get("sha256")
    if not isinstance(name, str) or not isinstance(wanted, str) or Path(name).name != name or "\0" in name:
        raise refused(folder / META, f"it names a file as {str(entry)[:80]}")
    path = folder / name
    file = open_plain(path, MAX_FILE_BYTES)
    held = os.fstat(file.fileno()).st_size
    found = _digest(file) if held == size else ""
    if found != wanted:
        file.close()
        facts = f"its SHA-256 is {found[:16]}…" if found else f"it has {held:,} bytes"
        expected = f"{wanted[:16]}…" if found else f"{size} bytes"
        raise refused(path, f"{facts}, {META} expects {expected}: damaged, or of another store")
    file.seek(0)
    return file


def open_plain(path: Path, limit: int) -> BinaryIO:
    """Open a plain file of at most `limit` bytes; links, pipes and devices are refused."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError as error:
        raise refused(path, "it is missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:  # by O_NOFOLLOW
            raise refused(path, "it is a symbolic link") from error
        raise StorageError(f"cannot read {path}: {reason(error)}") from error
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
        os.close(handle)
        raise refused(path, f"it is no plain file of at most {limit:,} bytes")
    return os.fdopen(handle, "rb")


def read_json(file: BinaryIO, path: Path) -> dict[str, Any]:
    """Return the object of a JSON file."""
    data = file.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise refused(path, f"it has more than {MAX_JSON_BYTES:,} bytes")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise refused(path, f"it is not JSON ({error.msg})") from error
    if not isinstance(value, dict):
        raise refused(path, f"it holds {type(value).__name__}, not an object")
    return value


def read_npz(
    file: BinaryIO,
    path: Path,
    expected: Mapping[str, type[np.generic]],
    optional: Mapping[str, type[np.generic]] | None = None,
) -> dict[str, Array]:
    """Return the vectors of an uncompressed npz, all those expected and the optional ones it has, each of its type.

    Members must be stored as they are, so no file asks for more memory than its own size; objects are never read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, expected, optional or {})
            types = {**expected, **(optional or {})}
            return {name: _vector(archive, info, types[name]) for name, info in members.items()}
    except (
        ValueError,
        EOFError,
        RuntimeError,
        OSError,
        zipfile.BadZipFile,
    ) as error:  # RuntimeError: encrypted, unknown packing
        raise refused(path, str(error) or type(error).__name__) from error


def _members(
    archive: zipfile.ZipFile, expected: Collection[str], optional: Collection[str]
) -> dict[str, zipfile.ZipInfo]:
    listed = archive.infolist()
    members = {info.filename.removesuffix(".npy"): info for info in listed}
    if len(listed) != len(members) or set(members) - set(optional) != set(expected):
        raise ValueError(f"it must hold {', '.join(expected)} (found {', '.join(members)[:100]})")
    return members


def _vector(archive: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: type[np.generic]) -> Array:
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"the array {info.filename} is compressed")
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version not in {(1, 0), (2, 0)}:
            raise ValueError(f"the array {info.filename} has the unknown format {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, found = read(member, max_header_size=MAX_NPY_HEADER)
        if found != np.dtype(dtype) or len(shape) != 1:
            raise ValueError(f"the array {info.filename} must be a vector of {np.dtype(dtype)} (got {found}, {shape})")
        size = shape[0] * found.itemsize
        if size > info.file_size:
            raise ValueError(f"the array {info.filename} claims {size:,} bytes and has {info.file_size:,}")
        if size >= MAPPED_BYTES:
            return _mapped(archive, info, found, shape[0])
        data = member.read()  # to the end, so that the archive's own check is made
    if len(data) != size:
        raise ValueError(f"the array {info.filename} has {len(data):,} bytes instead of {size:,}")
    return np.frombuffer(data, dtype=found)


def _mapped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: np.dtype[Any], length: int) -> Array:
    """Return a large array as it lies in the file: what is looked at takes memory, and only while there is room."""
    file: Any = archive.fp
    file.seek(info.header_offset + NAME_LENGTH_AT)
    name, extra = struct.unpack("<HH", file.read(4))
    end = info.header_offset + LOCAL_HEADER + name + extra + info.file_size
    start = end - length * dtype.itemsize
    if start % dtype.itemsize or end > os.fstat(file.fileno()).st_size:  # written before arrays were aligned
        file.seek(start)
        return np.frombuffer(file.read(length * dtype.itemsize), dtype=dtype)
    return np.memmap(file, dtype=dtype, mode="r", offset=start, shape=(length,)).view(np.ndarray)


def read_parquet(file: BinaryIO, path: Path, schema: pa.Schema, columns: Sequence[str], n_rows: int) -> pa.Table:
    """Return some columns of a parquet file, which must have this schema and this number of rows.

    It is read in this thread: Arrow's own may hold a Python file until after the interpreter has ended, and abort or
    hang then (apache/arrow issues 34314 and 50482).
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file, pre_buffer=False)
        _check_parquet(opened, schema, n_rows, os.fstat(file.fileno()).st_size)
        return opened.read(columns=list(columns), use_threads=False)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise refused(path, " ".join(str(error).split())[:200]) from error


def _check_parquet(opened: Any, schema: pa.Schema, n_rows: int, size: int) -> None:
    facts = opened.metadata
    if not opened.schema_arrow.equals(schema, check_metadata=False):
        raise ValueError(f"its columns are {', '.join(opened.schema_arrow.names)[:200]}, or their types differ")
    if facts.num_rows != n_rows:
        raise ValueError(f"it has {facts.num_rows} rows, {META} expects {n_rows}")
    claimed = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
    if claimed > MAX_BLOWN_UP * size + CHUNK_BYTES:
        raise ValueError(f"it claims to unpack {size:,} bytes to {claimed:,}")


def refused(path: Path, problem: str) -> ArtefactError:
    """Return the error for a file that fails a check."""
    return ArtefactError(f"{path} is refused: {problem}", hint="judge again; what was judged is in the cache")
