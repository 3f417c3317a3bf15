"""The cache: replies by the key of their request, in a folder (diskcache) or on a Redis server.

A reply is handed over only after its commit is on the disk. Reads and commits take microseconds a reply and happen on
the event loop: a thread would compete with it for Python's lock. A thread only waits for the disk, once per commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import diskcache
import msgspec
import zstandard
from diskcache.core import MODE_RAW

from svr_async.engine.reply import Reply
from svr_async.errors import StorageError, UsageError

if TYPE_CHECKING:
    from svr_async.engine.cache_redis import RedisStore

DATABASE = "cache.db"
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
VARIABLE = "SVR_CACHE"
PROJECT, PROJECT_MARK = Path("cache/replies"), Path("cache/.svr")

KEY_BYTES = 32
ROW_VERSION = b"\x02"
DIGEST_BYTES = 32
COMPRESS_ABOVE = 1024
MAX_ROW_BYTES = 64 * 2**20

BATCH_ROWS = 512  # 7 ms
GATHER_S, SLICE_S = 0.05, 0.002  # a commit costs as much as 20 rows, so it waits while more replies come
WAKE_AT_ONCE = 128  # waking all tasks in one round would hold up the event loop
PATIENCE_S = 30.0
LOCK_TIMEOUT_S = 0.2  # another process holds the lock for milliseconds; the event loop waits for it
MAX_LOG_BYTES = 4 * 2**20
FEW_KEYS = 20_000  # read in 20 ms; all keys of a larger cache are looked up in SQLite

# Settings stored in a database would otherwise win over diskcache's defaults. What SQLite would do on the event loop,
# `DiskStore.sync` does in a thread: synchronise each commit, and copy the log into the database.
SETTINGS: dict[str, Any] = {
    "eviction_policy": "none",
    "cull_limit": 0,
    "statistics": 0,
    "sqlite_auto_vacuum": 0,
    "sqlite_journal_mode": "wal",
    "sqlite_synchronous": 1,
    "sqlite_wal_autocheckpoint": 0,
}


def cache_place() -> Path | str:
    """Return the default place of the cache: $SVR_CACHE, ./cache/replies, or the user's cache folder.

    ./cache/replies is used if it exists, or if the file ./cache/.svr allows to create it.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        return place_of(named)
    return PROJECT if PROJECT.is_dir() or PROJECT_MARK.is_file() else user_cache() / "replies"


def place_of(text: Path | str) -> Path | str:
    """Return a Redis URL as text, anything else as a folder; UsageError for a password: manifests hold the place."""
    if not isinstance(text, str) or not text.startswith(REDIS_SCHEMES):
        return Path(text).expanduser()
    if urlsplit(text).password is not None or "password=" in text:
        raise UsageError("the address of a Redis cache must not hold a password", hint="set $SVR_REDIS_PASSWORD")
    return text


def user_cache() -> Path:
    """Return this user's cache folder for svr-async on this platform; it may not exist."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "svr-async" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "svr-async"
    named = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (named if named.is_absolute() else home / ".cache") / "svr-async"  # XDG ignores relative folders


class _Zstd(threading.local):
    """zstandard's contexts, one per thread: they are not thread-safe, and expensive to create."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=1).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(Reply).decode


def pack(key: bytes, reply: Reply) -> bytes:
    """Return a row: version, digest of the key and the rest, flag (raw or zstandard), payload."""
    payload = _encode(reply)
    kept = b"r" + payload if len(payload) <= COMPRESS_ABOVE else b"s" + _zstd.compress(payload)
    return ROW_VERSION + _digest(key, kept) + kept


def unpack(key: bytes, row: bytes) -> Reply | None:
    """Return the reply in a row, or None if the row is damaged or belongs to another request."""
    kept = row[1 + DIGEST_BYTES :]
    if row[: 1 + DIGEST_BYTES] != ROW_VERSION + _digest(key, kept):
        return None
    payload = kept[1:]
    try:
        if kept[:1] == b"s":
            payload = _zstd.decompress(payload) if zstandard.frame_content_size(payload) <= MAX_ROW_BYTES else b""
        return _decode(payload)
    except (ValueError, KeyError, TypeError, zstandard.ZstdError):
        return None


def _digest(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(key + data, digest_size=DIGEST_BYTES).digest()


class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no annotations
    """A diskcache disk for bytes only: it never unpickles, and never reads, writes or deletes a file.

    diskcache's own disk unpickles rows by their `mode` column, so a hostile database could run code.
    """

    def get(self, key: Any, raw: Any) -> bytes:
        """Return a stored key; b"" for one that is not ours."""
        return key if raw and isinstance(key, bytes) else b""

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, bytes]:  # noqa: ARG002
        """Return a value as stored; TypeError if it is not bytes."""
        if not isinstance(value, bytes) or read:
            raise TypeError("cache values must be bytes")
        return 0, MODE_RAW, None, value

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> bytes:  # noqa: ARG002
        """Return a stored value; b"", a damaged row, for any other kind of value."""
        return value if mode == MODE_RAW and filename is None and isinstance(value, bytes) else b""

    def remove(self, file_path: Any) -> None:
        """Delete nothing: rows have no files."""


class DiskStore:
    """Rows by key in diskcache's database.

    `write` commits rows together; StorageError if trying again cannot help. `sync` is called in a thread.
    """

    slow = False  # a slow store is read and written in a thread

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        try:
            self.disk = diskcache.Cache(str(folder), timeout=LOCK_TIMEOUT_S, disk=BytesDisk, **SETTINGS)
        except (sqlite3.Error, OSError, diskcache.Timeout) as error:
            raise storage_error(str(folder), error) from error
        self.close = self.disk.close
        self._log = folder / f"{DATABASE}-wal"  # every commit changes its size or time
        self._log_state: tuple[int, int] | None = (0, 0)
        self._keys: set[bytes] = set()  # of all rows of a small cache: a set is faster than SQLite
        self._small = True

    def read(self, key: bytes) -> bytes | None:
        """Return a row, or None."""
        if self._small and key not in self._keys:
            state = _size_and_time(self._log)
            if state == self._log_state:
                return None
            self._log_state = state
            self._read_keys()
        row: bytes | None = self.disk.get(key)
        return row

    def _read_keys(self) -> None:
        """Read the keys of all rows, unless they are known: other processes may write here too."""
        count = len(self.disk)
        if count > len(self._keys):
            self._small = count <= FEW_KEYS
            self._keys = {*self._keys, *self.disk.iterkeys()} if self._small else set()

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all rows."""
        return ((key, self.disk.get(key, b"")) for key in self.disk.iterkeys())

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Commit rows in one transaction, which survives the death of this process."""
        if self._small:
            self._keys.update(key for key, _ in rows)
        store = self.disk.set
        with self.disk.transact():
            for key, row in rows:
                store(key, row)

    def sync(self) -> None:
        """Wait until all commits are on the disk; copy a long log into the database."""
        with self._log.open("rb+") as log:
            os.fsync(log.fileno())
            size = os.fstat(log.fileno()).st_size
        if size > MAX_LOG_BYTES:
            with contextlib.closing(sqlite3.connect(self._log.with_name(DATABASE))) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def open_for_reading(database: Path) -> sqlite3.Connection:
    """Open a database read-only; StorageError if it cannot be read."""
    try:
        connection = sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        connection.execute("SELECT 1 FROM Cache LIMIT 1")
    except sqlite3.Error as error:
        raise storage_error(str(database.parent), error) from error
    return connection


def is_corrupt(error: BaseException | None) -> bool:
    """Return whether SQLite calls the file corrupt or not a database, now or before a failed rollback."""
    while error is not None:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return True
        error = error.__context__
    return False


def storage_error(place: str, error: BaseException) -> StorageError:
    """Return the StorageError for an error of SQLite or of the file system."""
    if is_corrupt(error):
        hint = (
            f"svr cache export FILE --cache {place} saves what can be read, svr cache clear --cache {place} resets it"
        )
        return StorageError(f"the cache {place} is damaged ({error})", hint=hint)
    while isinstance(error.__context__, sqlite3.Error | OSError):  # a failed ROLLBACK hides the first error
        error = error.__context__
    text = getattr(error, "strerror", None) or str(error) or "another process holds its lock"
    if "full" in text or getattr(error, "errno", None) == errno.ENOSPC:
        return StorageError(f"the disk of the cache {place} is full", hint="free some space and run the command again")
    return StorageError(f"the cache {place} cannot be used: {text}", hint="choose another with --cache")


_Waiting = tuple[bytes, bytes, "asyncio.Future[None]"]  # key, row, and the future of its commit


class Cache:
    """Replies by request key. Open it with `Cache.open`.

    It is used on one event loop at a time. `folder` holds side files, such as the parameters that endpoints refused.
    `slow`: read it with `find`, so that the event loop does not wait. `damaged` counts unreadable rows.
    """

    def __init__(self, folder: Path, store: DiskStore | RedisStore, *, patience_s: float = PATIENCE_S) -> None:
        self.folder = folder
        self.slow = store.slow
        self.damaged = 0
        self._store = store
        self._patience_s = patience_s
        self._unreadable: set[bytes] = set()
        self._broken: StorageError | None = None
        self._pid = os.getpid()
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None
        self._gathers = False  # whether several replies came together last time

    @classmethod
    def open(cls, place: Path | str, *, patience_s: float = PATIENCE_S) -> Cache:
        """Open or create a cache in a folder or on a Redis server (`redis://HOST:PORT/DB`).

        StorageError if the cache cannot be used.
        """
        place = place_of(place)
        if isinstance(place, str):
            from svr_async.engine.cache_redis import RedisStore

            _make_folder(user_cache())
            return cls(user_cache(), RedisStore(place), patience_s=patience_s)
        _make_folder(place)
        return cls(place, DiskStore(place), patience_s=patience_s)

    def get(self, key: bytes) -> Reply | None:
        """Return the reply to a request, or None; a damaged row is a miss."""
        try:
            row = self._store.read(key)
        except (sqlite3.DatabaseError, diskcache.Timeout) as error:
            if is_corrupt(error) and self._broken is None:
                self._broken = storage_error(self._store.name, error)
            row = b""
        if row is None:
            return None
        reply = unpack(key, row)
        if reply is None and key not in self._unreadable:
            self._unreadable.add(key)
            self.damaged += 1
        return reply

    async def find(self, key: bytes) -> Reply | None:
        """Return the reply to a request, or None, without blocking the event loop for longer than a disk read."""
        return await asyncio.to_thread(self.get, key) if self.slow else self.get(key)

    async def put(self, key: bytes, reply: Reply) -> None:
        """Store a reply and return after its commit; StorageError if it cannot be stored."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)  # raised many times: its traceback must not grow
        if os.getpid() != self._pid:
            raise RuntimeError("this cache was opened before the process forked: open it in each process")
        loop = asyncio.get_running_loop()
        committed = loop.create_future()
        self._waiting.append((key, pack(key, reply), committed))
        if self._writer is None or self._writer.done() or self._writer.get_loop() is not loop:
            self._writer = loop.create_task(self._write())
        await committed

    def write_error(self) -> StorageError | None:
        """Return why a new reply cannot be stored, or None: call it before paying for one."""
        return self._broken

    async def drain(self) -> None:
        """Wait until all waiting replies are committed."""
        if self._writer is not None:
            await asyncio.wait([self._writer])

    def close(self) -> None:
        """Commit waiting replies and close the store; call it from the thread that read from the cache."""
        if self._waiting and self._broken is None:
            with contextlib.suppress(Exception):  # no one waits for them any more
                self._store.write([(key, row) for key, row, _ in self._waiting])
                self._store.sync()
        self._store.close()

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys, in order, with their rows; StorageError for a damaged database."""
        try:
            yield from (row for row in self._store.rows() if len(row[0]) == KEY_BYTES)
        except sqlite3.DatabaseError as error:
            raise storage_error(self._store.name, error) from error

    def stats(self) -> dict[str, int]:
        """Return the numbers of readable `rows` and `damaged` ones, and the `bytes` of all; each row is read."""
        sizes = [(len(row), unpack(key, row) is None) for key, row in self.rows()]
        damaged = sum(bad for _, bad in sizes)
        return {"rows": len(sizes) - damaged, "damaged": damaged, "bytes": sum(size for size, _ in sizes)}

    async def _write(self) -> None:
        """Commit what gathers until nothing waits."""
        while self._waiting:
            if self._gathers:
                await self._gather()
            batch = self._waiting[:BATCH_ROWS]
            error = await self._commit([(key, row) for key, row, _ in batch])
            del self._waiting[: len(batch)]
            self._gathers = len(batch) > 1
            for number, (_, _, committed) in enumerate(batch, 1):
                if not committed.done():
                    committed.set_result(None) if error is None else committed.set_exception(error)
                if number % WAKE_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _gather(self) -> None:
        """Wait while more replies come."""
        end, count = time.monotonic() + GATHER_S, 0
        while count < len(self._waiting) < BATCH_ROWS and time.monotonic() < end:
            count = len(self._waiting)
            await asyncio.sleep(SLICE_S)

    async def _commit(self, rows: list[tuple[bytes, bytes]]) -> StorageError | None:
        deadline, pause_s = time.monotonic() + self._patience_s, 0.05
        while self._broken is None:
            try:
                if self.slow:
                    await asyncio.to_thread(self._store.write, rows)
                else:
                    self._store.write(rows)
                    await asyncio.to_thread(self._store.sync)
            except StorageError as error:
                self._broken = error
            except Exception as error:  # noqa: BLE001  (full disk, held lock, lost server, no memory)
                if is_corrupt(error) or time.monotonic() + pause_s > deadline:
                    self._broken = storage_error(self._store.name, error)
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, 2.0)
            else:
                return None
        return self._broken


def _make_folder(folder: Path) -> None:
    """Create a folder for this user only; StorageError if it cannot be created or other users may write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and folder.stat().st_mode & 0o002:
            raise StorageError(f"other users may write to the cache folder {folder}", hint=f"chmod o-w {folder}")
    except OSError as error:
        raise storage_error(str(folder), error) from error
