"""Clearing a cache that nobody uses: rows that may go, what killed processes left, and the room that both took."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from svr_async.engine.cache_disk import DATABASE, prepare_folder, refuse_foreign_database, unpack
from svr_async.engine.cache_files import leftovers, unused
from svr_async.engine.reply import Reply
from svr_async.errors import StorageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which rows may go: damaged ones, and those for which all that is said here holds; nothing said: no others.

    `before` is a time in seconds since 1970, `models` are names as the endpoint gave them.
    """

    before: float | None = None
    models: Collection[str] = ()

    def names(self, stored_at: float, model: Callable[[], str]) -> bool:
        """Whether a whole row may go."""
        if self.before is None and not self.models:
            return False
        return (self.before is None or stored_at < self.before) and (not self.models or model() in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Rows that stay, that go by the rule and that go as damaged; leftover files; bytes of the cache before and after.

    Where nothing is removed yet, `bytes_after` is the same as before.
    """

    rows: int
    removed: int
    damaged: int
    files: int
    bytes_before: int
    bytes_after: int


def collect_garbage(folder: Path, rule: Rule, *, remove: bool) -> Collected:
    """Count the rows that may go, and where `remove` says so, remove them, the leftovers, and the room they took."""
    prepare_folder(folder)
    database = folder / DATABASE
    refuse_foreign_database(database)
    try:
        with unused(folder), contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
            before = _size(folder)
            kept, going, damaged = _sort(connection, rule)
            files = leftovers(folder, older_s=0.0)
            if remove:
                _remove_rows(connection, going)
                for path in files:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            return Collected(
                rows=kept,
                removed=len(going) - damaged,
                damaged=damaged,
                files=len(files),
                bytes_before=before,
                bytes_after=_size(folder),
            )
    except sqlite3.DatabaseError as error:
        raise StorageError(f"cannot clear {database}: {error}", hint="svr cache repair mends a damaged one") from error
    except OSError as error:
        raise StorageError(f"cannot clear {database}: {error.strerror}", hint="free some space") from error


def _sort(connection: sqlite3.Connection, rule: Rule) -> tuple[int, list[int], int]:
    """Return how many rows stay, the numbers of those that go, and how many of these are damaged."""
    kept, going, damaged = 0, [], 0
    for number, key, stored_at, value in connection.execute("SELECT rowid, key, store_time, value FROM Cache"):
        payload = unpack(key, value) if isinstance(key, bytes) and isinstance(value, bytes) else None
        if payload is None:
            damaged += 1
            going.append(number)
        elif rule.names(float(stored_at or 0.0), lambda payload=payload: Reply.from_bytes(payload).model):  # type: ignore[misc]
            going.append(number)
        else:
            kept += 1
    return kept, going, damaged


def _remove_rows(connection: sqlite3.Connection, numbers: list[int]) -> None:
    """Delete rows in one transaction and give their room back; SQLite needs as much again for that, for a moment."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("DELETE FROM Cache WHERE rowid = ?", [(number,) for number in numbers])
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / DATABASE, folder / f"{DATABASE}-wal") if path.exists())
