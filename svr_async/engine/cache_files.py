"""The cache's database file: born whole, opened without a write where nothing is to be mended, and held for oneself.

Only this file uses what diskcache keeps to itself; `tests/engine/test_libraries.py` says when an update moves it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import diskcache

from svr_async.engine.cache_disk import DATABASE, SETTINGS, BytesDisk, refuse_foreign_database
from svr_async.errors import StorageError

_UNBORN = ".new-"
_STALE_S = 60.0  # a birth takes a twentieth of a second
_SHARED, _SHARED_BYTES = 0x40000002, 510  # what every open connection of SQLite's locks (os_unix.c)


def open_cache(folder: Path, timeout_s: float) -> diskcache.Cache:
    """Open the database of a cache, or make it; sqlite3.Error, OSError or Timeout where that cannot be done.

    StorageError for a database that is not a cache's alone.
    """
    database = folder / DATABASE
    if not database.exists():
        _bear(folder)
    if refuse_foreign_database(database):
        return _HeldCache(folder, timeout_s)
    return diskcache.Cache(str(folder), timeout=timeout_s, disk=BytesDisk, **SETTINGS)


def connection_of(cache: diskcache.Cache) -> sqlite3.Connection:
    """Return the calling thread's own connection, outside any transaction but `transact`'s."""
    connection: sqlite3.Connection = cache._con  # noqa: SLF001
    return connection


class _HeldCache(diskcache.Cache):  # type: ignore[misc]  # diskcache has no annotations
    """A cache on a file that has all tables and settings already.

    diskcache writes each setting again whenever it opens, which takes forty synchronised commits.
    """

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._directory = str(folder)
        self._timeout = timeout_s
        self._local = threading.local()
        self._txn_id = None
        kept = {name.removeprefix("disk_"): value for name, value in SETTINGS.items() if name.startswith("disk_")}
        self._disk = BytesDisk(str(folder), **kept)
        for name, value in SETTINGS.items():
            setattr(self, name, value)
        ((self._page_size,),) = self._sql("PRAGMA page_size").fetchall()


def _bear(folder: Path) -> None:
    """Make the database aside and give it its name when it is whole: a kill leaves none, never a part of one."""
    for path in leftovers(folder):
        _remove(path)
    with cradle_in(folder) as cradle:
        database = new_database(cradle)
        sync(database)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(database, folder / DATABASE)
        sync(folder)


@contextlib.contextmanager
def cradle_in(folder: Path) -> Iterator[Path]:
    """Make a folder beside a cache for a file that is to take its name, and remove it afterwards."""
    cradle = folder / f"{_UNBORN}{os.getpid()}-{os.urandom(4).hex()}"
    cradle.mkdir(mode=0o700)
    try:
        yield cradle
    finally:
        _remove(cradle)


def new_database(cradle: Path) -> Path:
    """Make an empty cache's database; OSError where the disk is full."""
    cache = diskcache.Cache(str(cradle), disk=BytesDisk, **{**SETTINGS, "sqlite_synchronous": 0})
    cache.reset("sqlite_synchronous", SETTINGS["sqlite_synchronous"])
    cache.close()
    _check_birth(cradle / DATABASE)
    return cradle / DATABASE


def _check_birth(database: Path) -> None:
    """Raise OSError where closing could not fold the log into the file: SQLite says nothing of a full disk there."""
    log = database.with_name(f"{database.name}-wal")
    try:
        whole = not (log.exists() and log.stat().st_size) and refuse_foreign_database(database)
    except StorageError:
        whole = False
    if not whole:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk when this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[None]:
    """Do nothing."""
    yield


def leftovers(folder: Path, *, older_s: float = _STALE_S) -> list[Path]:
    """Return what killed processes have left beside a cache: files on their way to a name that they never took."""
    found = []
    for path in folder.glob(f"{_UNBORN}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime >= older_s:
                found.append(path)
    return found


def _remove(cradle: Path) -> None:
    with contextlib.suppress(OSError):
        for path in cradle.iterdir():
            path.unlink()
        cradle.rmdir()
