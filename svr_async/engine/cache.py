"""The cache: replies on disk by the key of their request. A reply is handed over only after its commit.

Reads happen on the event loop (microseconds); writes go through one thread that commits whatever has gathered
while the last commit was under way, with full synchronisation, so that durability costs a fraction of a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import diskcache

from svr_async.engine.cache_corrupt import corrupt_error, is_corrupt, was_corrupt
from svr_async.engine.cache_disk import (
    DATABASE,
    SETTINGS,
    open_for_reading,
    pack,
    prepare_folder,
    read_row,
    read_rows,
    refuse_foreign_database,
    unpack,
    write_rows,
)
from svr_async.engine.cache_files import connection_of, open_cache
from svr_async.engine.reply import Reply
from svr_async.errors import StorageError

BATCH_ROWS = 1024
GATHER_S = 0.003  # a commit costs as much as twenty rows, so it waits for more where replies come quickly
WAKE_AT_ONCE = 128
FULL_DISK_PATIENCE_S = 30.0
_LOCK_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a cache holds: rows that can be read, rows that are damaged, bytes on disk."""

    rows: int
    damaged: int
    bytes: int


class Rows(Protocol):
    """Where rows are read from and written to."""

    def read(self, key: bytes) -> bytes | None:
        """Return a row, or None."""

    def read_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the rows that there are, by key."""

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Commit rows in one transaction."""

    def keys(self) -> Iterator[bytes]:
        """Yield all keys."""

    def close(self) -> None:
        """Close all connections."""


class _WritableRows:
    """diskcache's file on diskcache's own connections, one a thread; rows are read and written in fewer steps."""

    def __init__(self, folder: Path) -> None:
        try:
            self._cache = open_cache(folder, _LOCK_TIMEOUT_S)
        except (sqlite3.Error, OSError, diskcache.Timeout) as error:
            raise StorageError(
                f"cannot open the cache in {folder}: {error}", hint="--cache DIR names another"
            ) from error
        for name, value in SETTINGS.items():
            if getattr(self._cache, name) != value:
                raise StorageError(f"the cache in {folder} insists on {name}={getattr(self._cache, name)!r}")

    def read(self, key: bytes) -> bytes | None:
        return read_row(connection_of(self._cache), key)  # its get() reads the same row in twice the time

    def read_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return read_rows(connection_of(self._cache), keys)

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        with self._cache.transact(retry=False):
            write_rows(connection_of(self._cache), rows)  # its set() takes one row, in twice the time

    def keys(self) -> Iterator[bytes]:
        yield from self._cache.iterkeys()

    def close(self) -> None:
        self._cache.close()


class _ReadOnlyRows:
    """Reads a cache on a file system that cannot be written, where diskcache does not open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_for_reading(path)

    def read(self, key: bytes) -> bytes | None:
        return read_row(self._connection, key)

    def read_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return read_rows(self._connection, keys)

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        raise StorageError(
            f"the cache {self._path} is read-only and {len(rows)} new replies could not be kept",
            hint="--offline uses only what is there; --cache DIR names a folder that can be written",
        )

    def keys(self) -> Iterator[bytes]:
        for (key,) in self._connection.execute("SELECT key FROM Cache WHERE raw = 1"):
            if isinstance(key, bytes):
                yield key

    def close(self) -> None:
        self._connection.close()


class Cache:
    """Replies by request key. Open it with `Cache.open`; use it from one event loop."""

    def __init__(self, folder: Path, rows: Rows, *, writable: bool, patience_s: float = FULL_DISK_PATIENCE_S) -> None:
        self.folder = folder
        self.writable = writable
        self.damaged = 0
        self.on_kept: Callable[[bytes], None] = lambda _: None  # told the key of each reply that is committed
        self._damaged: set[bytes] = set()
        self._rows = rows
        self._patience_s = patience_s
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._reached_end = False  # whether the last writer has written all that was queued
        self._changing = threading.Lock()  # held while a row is queued for a writer
        self._broken: StorageError | None = was_corrupt(folder)
        self._pid = os.getpid()

    @classmethod
    def open(cls, folder: Path, *, patience_s: float = FULL_DISK_PATIENCE_S) -> Cache:
        """Open or create the cache in `folder`; StorageError says why it cannot be used.

        On a file system that cannot be written, an existing cache is opened for reading. One that was found corrupt
        (`engine.cache_corrupt`) serves what can be read of it and keeps nothing new.
        """
        database = folder / DATABASE
        if database.exists() and not _can_write(folder):
            refuse_foreign_database(database)
            return cls(folder, _ReadOnlyRows(database), writable=False)
        prepare_folder(folder)
        return cls(folder, _WritableRows(folder), writable=True, patience_s=patience_s)

    def get(self, key: bytes) -> Reply | None:
        """Return the reply to a request, or None; a damaged row counts and is a miss."""
        try:
            row = self._rows.read(key)
        except (sqlite3.DatabaseError, diskcache.Timeout) as error:
            self._count_damage(key)
            self._refuse_if_corrupt(error)
            return None
        return None if row is None else self.read(key, row)

    async def find(self, key: bytes) -> Reply | None:
        """Return the reply to a request, or None."""
        return self.get(key)

    def rows(self, keys: Sequence[bytes]) -> dict[bytes, bytes] | None:
        """Return the rows of those requests that have one, for `read`; None where only `get` may read some of them."""
        try:
            return self._rows.read_many(keys)
        except (sqlite3.DatabaseError, diskcache.Timeout):
            return None

    def read(self, key: bytes, row: bytes) -> Reply | None:
        """Return the reply in a row; None, counted, for one that is damaged."""
        reply = reply_in(key, row)
        if reply is None:
            self._count_damage(key)
        return reply

    def _refuse_if_corrupt(self, error: Exception) -> bool:
        """Keep nothing new in a file that is corrupt; return whether it is.

        Where a row cannot be looked up, none can be written.
        """
        corrupt = is_corrupt(error)
        if corrupt and self._broken is None:
            self._broken = corrupt_error(self.folder, error)
        return corrupt

    def _count_damage(self, key: bytes) -> None:
        """Count a damaged row once, however often it is looked up."""
        if key not in self._damaged:
            self._damaged.add(key)
            self.damaged += 1

    async def put(self, key: bytes, reply: Reply) -> None:
        """Keep a reply; returns after its commit. StorageError where the disk stays full or the file is broken."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)  # one error is raised many times: its traceback must not grow
        if os.getpid() != self._pid:
            raise RuntimeError("this cache was opened before the process forked: open it in each process")
        loop = asyncio.get_running_loop()
        pending = _Pending(key, pack(key, reply.to_bytes()), loop, loop.create_future())
        with self._changing:
            if self._writer is None:
                self._writer = self._start_writer()
            self._queue.put(pending)
        await pending.done
        self.on_kept(key)

    def _start_writer(self) -> threading.Thread:
        writer = threading.Thread(target=self._write_batches, name="svr-cache", daemon=True)
        writer.start()
        return writer

    def write_error(self) -> StorageError | None:
        """Return why a new reply could not be kept, so that none is paid for; None where one can."""
        if self._broken is None and not self.writable:
            return StorageError(
                f"the cache {self.folder} is read-only: replies that it lacks could not be kept, and are not asked for",
                hint="--offline uses only what is there; --cache DIR names a folder that can be written",
            )
        return self._broken

    def drain(self) -> None:
        """Commit what is waiting, and what comes meanwhile, however long that takes; call it from any thread."""
        while (writer := self._writer) is not None:
            self._queue.put(None)
            writer.join()
            with self._changing:  # what was put behind the end of the line needs another writer, but for one that died
                more = self._reached_end and not self._queue.empty()
                self._writer = self._start_writer() if more else None

    def close(self) -> None:
        """Commit what is waiting and close the files; call it from the thread that read from the cache.

        Each thread has its own connection; SQLite folds its log into the file when the last one closes.
        """
        self.drain()
        self._rows.close()

    def keys(self) -> Iterator[bytes]:
        """Yield the keys of all rows, in no particular order; StorageError where a corrupt file ends them early."""
        try:
            yield from self._rows.keys()
        except sqlite3.DatabaseError as error:
            raise corrupt_error(self.folder, error) from error

    def stats(self) -> CacheStats:
        """Read every row and count what is whole and what is damaged; StorageError for a corrupt file."""
        whole = damaged = 0
        for key in self.keys():
            if self.get(key) is not None:
                whole += 1
            else:
                damaged += 1
        if self._broken is not None:
            raise self._broken
        size = sum(path.stat().st_size for path in self.folder.glob(f"{DATABASE}*"))
        return CacheStats(rows=whole, damaged=damaged, bytes=size)

    def _write_batches(self) -> None:
        gather_s, self._reached_end = 0.0, False
        while (batch := _take(self._queue, gather_s)) is not None:
            gather_s = GATHER_S if len(batch) > 1 else 0.0
            error = self._commit(batch)
            for loop, items in _by_loop(batch).items():
                with contextlib.suppress(RuntimeError):  # a loop that has been closed: nobody waits there
                    loop.call_soon_threadsafe(_resolve, loop, items, error)
        self._reached_end = True
        if self.writable:
            self._rows.close()

    def _commit(self, batch: list[_Pending]) -> StorageError | None:
        if self._broken is not None:
            return self._broken
        deadline = time.monotonic() + self._patience_s
        pause_s = 0.05
        while True:
            try:
                self._rows.write([(item.key, item.row) for item in batch])
            except StorageError as error:
                self._broken = error
                return error
            except (sqlite3.Error, OSError, diskcache.Timeout) as error:
                if self._refuse_if_corrupt(error):
                    return self._broken
                if time.monotonic() + pause_s > deadline or isinstance(error, sqlite3.IntegrityError):
                    self._broken = _storage_error(self.folder, error)
                    return self._broken
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 2.0)
            else:
                return None


@dataclass(slots=True)
class _Pending:
    key: bytes
    row: bytes
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


def _take(pending: queue.SimpleQueue[_Pending | None], gather_s: float) -> list[_Pending] | None:
    """Wait for one row, then a moment for more, and take what is there; None when the cache closes, all written."""
    first = pending.get()
    if first is None:
        return None
    if gather_s:
        time.sleep(gather_s)
    batch = [first]
    while len(batch) < BATCH_ROWS:
        try:
            item = pending.get_nowait()
        except queue.Empty:
            break
        if item is None:
            pending.put(None)
            break
        batch.append(item)
    return batch


def _by_loop(batch: list[_Pending]) -> dict[asyncio.AbstractEventLoop, list[_Pending]]:
    loops: dict[asyncio.AbstractEventLoop, list[_Pending]] = {}
    for item in batch:
        loops.setdefault(item.loop, []).append(item)
    return loops


def _resolve(loop: asyncio.AbstractEventLoop, items: list[_Pending], error: StorageError | None) -> None:
    """Wake who waits for these rows, some in each round of the loop: a thousand at once would hold up all else."""
    if len(items) > WAKE_AT_ONCE:
        loop.call_soon(_resolve, loop, items[WAKE_AT_ONCE:], error)
    for item in items[:WAKE_AT_ONCE]:
        if item.done.done():
            continue
        if error is None:
            item.done.set_result(None)
        else:
            item.done.set_exception(error)


def reply_in(key: bytes, row: bytes) -> Reply | None:
    """Return the reply in a row; None for one that is damaged, or is another request's."""
    payload = unpack(key, row)
    if payload is None:
        return None
    try:
        return Reply.from_bytes(payload)
    except (ValueError, KeyError, TypeError):
        return None


def _can_write(folder: Path) -> bool:
    probe = folder / ".svr-write-probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        return error.errno not in {13, 30}  # EACCES, EROFS: a full disk is not a read-only one
    return True


def _storage_error(folder: Path, error: BaseException) -> StorageError:
    while isinstance(error.__context__, sqlite3.Error | OSError):  # a failed ROLLBACK hides what went wrong first
        error = error.__context__
    text = str(error) or "another process holds it"
    if "full" in text or getattr(error, "errno", None) == 28:
        return StorageError(
            f"the disk that holds the cache {folder} is full", hint="free some space and run the same command again"
        )
    return StorageError(f"the cache {folder} cannot be written: {text}", hint="svr cache repair saves what is whole")
