"""The memo's database file: born whole under its name, and opened without a write when it has nothing to be mended."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from pathlib import Path

import diskcache

from svr_async.engine.memo_disk import DATABASE, SETTINGS, BytesDisk, refuse_foreign_database
from svr_async.errors import StorageError

_UNBORN = ".new-"
_STALE_S = 60.0  # a birth takes a twentieth of a second


def open_cache(folder: Path, timeout_s: float) -> diskcache.Cache:
    """Open the database of a memo, or make it; sqlite3.Error, OSError or Timeout where that cannot be done.

    StorageError for a database that is not a memo's alone.
    """
    database = folder / DATABASE
    if not database.exists():
        _bear(folder)
    if refuse_foreign_database(database):
        return _HeldCache(folder, timeout_s)
    return diskcache.Cache(str(folder), timeout=timeout_s, disk=BytesDisk, **SETTINGS)


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
    _sweep(folder)
    cradle = folder / f"{_UNBORN}{os.getpid()}-{os.urandom(4).hex()}"
    cradle.mkdir(mode=0o700)
    try:
        cache = diskcache.Cache(str(cradle), disk=BytesDisk, **{**SETTINGS, "sqlite_synchronous": 0})
        cache.reset("sqlite_synchronous", SETTINGS["sqlite_synchronous"])
        cache.close()
        _check_birth(cradle / DATABASE)
        _sync(cradle / DATABASE)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(cradle / DATABASE, folder / DATABASE)
        _sync(folder)
    finally:
        _remove(cradle)


def _check_birth(database: Path) -> None:
    """Raise OSError where closing could not fold the log into the file: SQLite says nothing of a full disk there."""
    log = database.with_name(f"{database.name}-wal")
    try:
        whole = not (log.exists() and log.stat().st_size) and refuse_foreign_database(database)
    except StorageError:
        whole = False
    if not whole:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(folder: Path) -> None:
    """Remove what a killed process left."""
    for cradle in folder.glob(f"{_UNBORN}*"):
        with contextlib.suppress(OSError):
            if time.time() - cradle.lstat().st_mtime > _STALE_S:
                _remove(cradle)


def _remove(cradle: Path) -> None:
    with contextlib.suppress(OSError):
        for path in cradle.iterdir():
            path.unlink()
        cradle.rmdir()
