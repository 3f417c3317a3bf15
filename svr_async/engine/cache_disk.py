"""diskcache made safe: bytes in, bytes out, no pickle, no files, no eviction, settings that a file cannot override.

diskcache's own disks unpickle rows by their `mode` and `raw` columns and read and delete files named in a row, so a
hostile or damaged database could run code. This disk knows one mode and refuses the rest.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import MODE_RAW

from svr_async.engine.cache_place import PROJECT
from svr_async.errors import StorageError

DATABASE = "cache.db"
LOGS = ("", "-wal", "-shm", "-journal")  # what stands behind its name in those of SQLite's files
HELD = (*(DATABASE + ending for ending in LOGS), "claims", "refused.json", f"{DATABASE}.damaged")
"""What a cache's folder holds by name, none of which may be a link."""
ROW_VERSION = b"\x02"
_FIRST_VERSION = b"\x01"  # its digest is that of the payload before it was compressed
DIGEST_SIZE = 32
_HEAD = 1 + DIGEST_SIZE
COMPRESS_ABOVE = 512
MAX_ROW_BYTES = 64 * 1024 * 1024

SETTINGS: dict[str, Any] = {
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "statistics": 0,
    "tag_index": 0,
    "disk_min_file_size": 2**62,
    "disk_pickle_protocol": 5,
    "sqlite_auto_vacuum": 0,
    "sqlite_cache_size": 8192,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 2**26,
    "sqlite_synchronous": 2,
}
_COUNTERS = {"count", "size", "hits", "misses"}
_TABLES = {"Settings", "Cache", "sqlite_stat1", "sqlite_sequence"}
_PLAIN_TABLE = re.compile(
    r"CREATE TABLE (?!.*\b(?:AS|CHECK|GENERATED|REFERENCES)\b)[\w\s(),]+", re.IGNORECASE | re.DOTALL
)
_PLAIN_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX Cache_\w+ ON Cache ?\([\w, ]+\)")
_COUNTING = re.compile(
    r"CREATE TRIGGER Settings_\w+ AFTER (?:INSERT|UPDATE|DELETE) ON Cache FOR EACH ROW BEGIN"
    r" UPDATE Settings SET value = value(?: [+-] (?:1|NEW\.size|OLD\.size))+ WHERE key = \"(?:count|size)\"; END"
)
_WHOLE = {
    "Settings", "Cache", "Cache_key_raw", "Cache_expire_time", "Settings_count_insert", "Settings_count_delete",
    "Settings_size_insert", "Settings_size_update", "Settings_size_delete",
}  # fmt: skip


class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no annotations
    """Rows of bytes only: any row that claims to be something else is refused, and no file is ever touched."""

    def hash(self, key: bytes) -> int:
        """Return a hash of the key for sharding."""
        return int.from_bytes(key[:8], "big")

    def put(self, key: Any) -> tuple[sqlite3.Binary, bool]:
        """Accept bytes as a key."""
        if not isinstance(key, bytes):
            raise TypeError("cache keys are bytes")
        return sqlite3.Binary(key), True

    def get(self, key: Any, raw: Any) -> bytes:
        """Return a stored key."""
        if not raw or not isinstance(key, bytes):
            raise StorageError("the cache holds a row with a foreign key", hint="move it away; it is not ours alone")
        return key

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, sqlite3.Binary]:  # noqa: ARG002  (diskcache calls it with key)
        """Accept bytes as a value, kept inside the database."""
        if not isinstance(value, bytes) or read:
            raise TypeError("cache values are bytes")
        return 0, MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> bytes | None:
        """Return a stored value; None, a miss, for a row of any other form."""
        if mode != MODE_RAW or filename is not None or not isinstance(value, bytes) or read:
            return None
        return value

    def remove(self, file_path: Any) -> None:
        """Remove nothing: rows never have files."""


FIELDS = "key, raw, store_time, expire_time, access_time, access_count, tag, size, mode, filename, value"
_OF_BYTES = "raw = 1 AND mode = 1 AND filename IS NULL"
_READ = f"SELECT value FROM Cache WHERE key = ? AND {_OF_BYTES}"  # noqa: S608  (constants only)
_blob = bytearray  # bound as it is; before it binds bytes, sqlite3 looks for an adapter each time
_ROWS_A_STATEMENT = 128  # SQLite takes at least 999 values a statement; a row has two


def read_row(connection: sqlite3.Connection, key: bytes) -> bytes | None:
    """Return the value of a row of bytes; None, a miss, for no row or one of any other form."""
    found = connection.execute(_READ, (_blob(key),)).fetchone()
    return found[0] if found and isinstance(found[0], bytes) else None


def read_rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the values of those of the keys that have a row of bytes, in a third of the time a row."""
    found = connection.execute(_select(len(keys)), [_blob(key) for key in keys]).fetchall()
    return {key: value for key, value in found if isinstance(value, bytes)}


@functools.lru_cache(maxsize=_ROWS_A_STATEMENT)
def _select(count: int) -> str:
    marks = ", ".join("?" * count)
    return f"SELECT key, value FROM Cache WHERE key IN ({marks}) AND {_OF_BYTES}"  # noqa: S608  (marks and constants)


def write_rows(connection: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> None:
    """Write rows as diskcache's `set` does, many in one statement; call it within a transaction.

    The interpreter is let go once a statement, not once a row: a busy event loop holds up each return to it.
    """
    now = time.time()
    for first in range(0, len(rows), _ROWS_A_STATEMENT):
        part = rows[first : first + _ROWS_A_STATEMENT]
        connection.execute(_insert(len(part)), [now, *(_blob(value) for row in part for value in row)])


@functools.lru_cache(maxsize=_ROWS_A_STATEMENT)
def _insert(count: int) -> str:
    values = ", ".join(f"(?{2 * n + 2}, 1, ?1, NULL, ?1, 0, NULL, 0, 1, NULL, ?{2 * n + 3})" for n in range(count))
    names = ("store_time", "expire_time", "access_time", "access_count", "tag", "size", "mode", "filename", "value")
    update = ", ".join(f"{name} = excluded.{name}" for name in names)
    return f"INSERT INTO Cache ({FIELDS}) VALUES {values} ON CONFLICT (key, raw) DO UPDATE SET {update}"  # noqa: S608  (numbers only)


def pack(key: bytes, payload: bytes) -> bytes:
    """Return a row: version, digest of all the rest and the key, a flag, the payload, compressed where that helps.

    zstandard makes of a judge's answer what zlib does in a quarter of the time: it was the dearest step of a call.
    """
    kept = b"r" + payload if len(payload) <= COMPRESS_ABOVE else b"s" + _zstd().pack(payload)
    return ROW_VERSION + _digest(key, kept) + kept


def unpack(key: bytes, row: bytes) -> bytes | None:
    """Return the payload of a row, or None where it does not match its digest."""
    version, digest, kept = row[:1], row[1:_HEAD], row[_HEAD:]
    if version == ROW_VERSION:
        return _payload(kept) if _digest(key, kept) == digest else None
    payload = _payload(kept) if version == _FIRST_VERSION else None
    return payload if payload is not None and _digest(key, payload) == digest else None


def _digest(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(key + data, digest_size=DIGEST_SIZE).digest()


def _payload(kept: bytes) -> bytes | None:
    flag, packed = kept[:1], kept[1:]
    if flag == b"s":
        return _zstd().unpack(packed)
    if flag == b"r":
        return packed
    return _inflate(packed) if flag == b"z" else None  # as the first versions packed


class _Zstd(threading.local):
    """zstandard's working space, one a thread, which makes packing a small row quick."""

    def __init__(self) -> None:
        import zstandard

        self.pack = zstandard.ZstdCompressor(level=1).compress
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._size = zstandard.frame_content_size
        self._error = zstandard.ZstdError

    def unpack(self, packed: bytes) -> bytes | None:
        """Return what was packed; None where it is damaged, or would be larger than any row."""
        try:
            if not 0 <= self._size(packed) <= MAX_ROW_BYTES:
                return None
            return self._decompress(packed)
        except self._error:
            return None


@functools.cache
def _zstd() -> _Zstd:
    return _Zstd()


def _inflate(packed: bytes) -> bytes | None:
    inflater = zlib.decompressobj()
    try:
        payload = inflater.decompress(packed, MAX_ROW_BYTES)
    except zlib.error:
        return None
    return payload if inflater.eof else None


def prepare_folder(folder: Path) -> None:
    """Create the cache's folder for this user alone, or refuse one that others could have written to.

    A link that a person names is followed. Where nobody named the folder it is that of a project, which may have come
    with a link in it: that one is refused.
    """
    if folder == PROJECT:
        refuse_links(folder.parent, folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise StorageError(
            f"cannot use {folder} for the cache: {error.strerror}", hint="--cache DIR names another"
        ) from error
    refuse_links(*(folder / name for name in HELD))
    if found.st_uid != os.geteuid():
        raise StorageError(f"the cache folder {folder} belongs to another user", hint="--cache DIR names another")
    if found.st_mode & 0o022:
        raise StorageError(f"others may write to the cache folder {folder}", hint=f"chmod go-w {folder}")


def refuse_links(*paths: Path) -> None:
    """Raise StorageError for a symbolic link: what is written there would go to a place that nobody has named."""
    for path in paths:
        if path.is_symlink():
            hint = "replace it by what it stands for; --cache DIR may name a folder by a link"
            raise StorageError(f"{path} is a symbolic link, which is not followed", hint=hint)


def refuse_foreign_database(path: Path) -> bool:
    """Look at a database before diskcache opens it: only its own tables, triggers and settings may be there.

    Return whether all of them are, so that opening it has nothing to write. StorageError for anything else.
    """
    refuse_links(*(path.with_name(path.name + ending) for ending in LOGS))
    _refuse_empty(path)
    try:
        with contextlib.closing(open_for_reading(path)) as connection:
            objects = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
            _refuse_objects(path, objects)
            known = any(name == "Settings" for _, name, _, _ in objects)
            settings = connection.execute("SELECT key, value FROM Settings").fetchall() if known else []
    except (sqlite3.DatabaseError, OSError) as error:
        raise StorageError(
            f"{path} is not a cache that can be read ({error})",
            hint="svr cache repair saves what can be read of it; or move it away",
        ) from error
    _refuse_settings(path, dict(settings))
    whole = {name for _, name, _, _ in objects} >= _WHOLE
    return whole and {key for key, _ in settings} == SETTINGS.keys() | _COUNTERS


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a database read-only; where SQLite cannot share it (a read-only file system), as a file nobody changes."""
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=5, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if "immutable" in mode:
                raise
        except sqlite3.DatabaseError:
            connection.close()
            raise
        except UnicodeDecodeError as error:  # of SQLite's own words, where they quote what is damaged
            connection.close()
            raise sqlite3.DatabaseError(f"its schema is no UTF-8: {error}") from error
        else:
            return connection
    raise AssertionError("the last mode returns or raises")


def _refuse_empty(path: Path) -> None:
    """Refuse a database of zero bytes: something cut it off, and all that it held would be paid for again."""
    if path.stat().st_size == 0:
        raise StorageError(f"{path} is empty: it was cut off", hint="restore it, or delete it to start afresh")


def _refuse_objects(path: Path, objects: list[tuple[str, str, str, str | None]]) -> None:
    for kind, name, table, sql in objects:
        known = table in _TABLES and (
            (kind == "table" and name in _TABLES and _PLAIN_TABLE.fullmatch(str(sql)))
            or (kind == "index" and (sql is None or _PLAIN_INDEX.fullmatch(sql)))
            or (kind == "trigger" and _COUNTING.fullmatch(str(sql)))
        )
        if not known:
            raise StorageError(
                f"{path} holds a {kind} {name!r} that no cache has", hint="move the file away; it is not ours"
            )


def _refuse_settings(path: Path, settings: dict[str, Any]) -> None:
    for key, value in settings.items():
        if key not in SETTINGS and key not in _COUNTERS:
            raise StorageError(f"{path} holds the foreign setting {key!r}", hint="move the file away; it is not ours")
        if key not in _COUNTERS and value != SETTINGS[key]:
            raise StorageError(
                f"{path} was opened with {key}={value!r}, which would lose replies",
                hint="move the file away, or restore it",
            )
