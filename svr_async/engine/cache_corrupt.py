"""A cache's file that SQLite calls corrupt: told at once, and remembered, so that no later run pays for what it loses.

A row that does not match its digest is a miss and is replaced. Where a page of the trees above the rows is damaged,
rows can neither be found nor written: replies would be paid for and thrown away, in each run anew. So the first error
of that kind ends the keeping, and a mark beside the file says so to the runs after it, until `svr cache repair`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from svr_async.engine.cache_disk import DATABASE, open_for_reading
from svr_async.errors import StorageError

MARK = f"{DATABASE}.damaged"
_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PRIMARY = 0xFF  # the bits of a code that name its kind


def is_corrupt(error: BaseException | None) -> bool:
    """Whether SQLite finds a file corrupt, or no database; also where a failed rollback hides it."""
    while error is not None:
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _CODES:
            return True
        error = error.__context__
    return False


def corrupt_error(folder: Path, error: Exception) -> StorageError:
    """Return what to raise for a corrupt cache, and leave the mark beside it."""
    with contextlib.suppress(OSError):  # a full or read-only disk keeps no mark; the next run finds out by itself
        (folder / MARK).touch(mode=0o600)
    return _error(folder, str(error))


def was_corrupt(folder: Path) -> StorageError | None:
    """Return what to raise where an earlier run found the cache corrupt; None where none did."""
    return _error(folder, "found by an earlier run") if (folder / MARK).exists() else None


def refuse_corrupt(folder: Path) -> None:
    """Look through the pages of a cache's file, not its rows; StorageError, and the mark, for a corrupt one."""
    try:
        with contextlib.closing(open_for_reading(folder / DATABASE)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise corrupt_error(folder, error) from error
    if found != "ok":
        raise corrupt_error(folder, sqlite3.DatabaseError(found))


def forget(folder: Path) -> None:
    """Remove the mark: the cache is whole again."""
    (folder / MARK).unlink(missing_ok=True)


def _error(folder: Path, why: str) -> StorageError:
    return StorageError(
        f"the cache {folder} is damaged and keeps nothing new ({why}), so nothing is asked for",
        hint=f"svr cache repair --cache {folder} makes a new file of all that is whole",
    )
