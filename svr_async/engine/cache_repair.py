"""Repairing a cache that nobody uses: a new file of all rows that can still be read; the old one is kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from svr_async.engine.cache_carve import Carver, FileBytes, Row
from svr_async.engine.cache_corrupt import forget
from svr_async.engine.cache_disk import (
    DATABASE,
    FIELDS,
    open_for_reading,
    prepare_folder,
    read_row,
    refuse_foreign_database,
    unpack,
)
from svr_async.engine.cache_files import cradle_in, new_database, sync, unused
from svr_async.errors import StorageError

CORRUPT = f"{DATABASE}.corrupt"
LOG = "-wal"
AT_ONCE = 512
_KEEP = (
    f"INSERT INTO Cache ({FIELDS}) VALUES (?, 1, ?2, NULL, ?2, 0, NULL, 0, 1, NULL, ?3)"  # noqa: S608  (names only)
    " ON CONFLICT (key, raw) DO UPDATE SET value = excluded.value, store_time = excluded.store_time"
    " WHERE excluded.store_time > store_time"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair did: rows in the new file, rows that are lost as far as they can be told, and the old file.

    `kept_as` is None where nothing was damaged and nothing was done.
    """

    rows: int
    lost: int
    kept_as: Path | None


def repair_cache(folder: Path) -> Repaired:
    """Make a new file of all rows that can be read and give it the cache's name; the old one is kept beside it.

    At every moment there is a whole file of the cache's name. StorageError where no row can be read.
    """
    prepare_folder(folder)
    database = folder / DATABASE
    try:
        with unused(folder):
            whole = _count_whole(database)
            if whole is not None:
                forget(folder)
                return Repaired(rows=whole, lost=0, kept_as=None)
            expected = _count_expected(database)
            with cradle_in(folder) as cradle:
                new = new_database(cradle)
                rows, damaged = _salvage(database, new)
                if not rows:
                    raise StorageError(f"no reply in {database} can be read", hint="restore it, or move it away")
                sync(new)
                kept_as = _exchange(database, new)
                forget(folder)
                sync(folder)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"cannot repair {database}: {error}", hint="nothing is lost; free some space") from error
    return Repaired(rows=rows, lost=max(damaged, (expected or 0) - rows), kept_as=kept_as)


def _count_whole(database: Path) -> int | None:
    """Return the number of rows where all of the file is in order, or None."""
    try:
        refuse_foreign_database(database)
        with contextlib.closing(open_for_reading(database)) as connection:
            if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                return None
            rows = connection.execute("SELECT key, value FROM Cache")
            return sum(1 for key, value in rows if _whole(key, value))
    except (StorageError, sqlite3.Error, _DamagedError):
        return None


class _DamagedError(Exception):
    """A row that does not match its digest."""


def _whole(key: object, value: object) -> bool:
    if not (isinstance(key, bytes) and isinstance(value, bytes)) or unpack(key, value) is None:
        raise _DamagedError
    return True


def _count_expected(database: Path) -> int | None:
    """Return how many rows the file says that it had, or None where that cannot be read."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(open_for_reading(database)) as connection:
        found = connection.execute("SELECT value FROM Settings WHERE key = 'count'").fetchone()
        return found[0] if found and type(found[0]) is int else None
    return None


def _salvage(database: Path, new: Path) -> tuple[int, int]:
    """Write the newest version of each whole row into a new file; return how many, and how many are damaged."""
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(contextlib.closing(FileBytes(database)))
        log = stack.enter_context(contextlib.closing(FileBytes(database.with_name(DATABASE + LOG))))
        connection = stack.enter_context(contextlib.closing(sqlite3.connect(new, isolation_level=None)))
        carver = Carver(data, log)
        for rows in _some(carver.rows()):
            connection.execute("BEGIN")
            connection.executemany(_KEEP, [(row.key, row.stored_at, row.value) for row in rows])
            connection.execute("COMMIT")
        ((count,),) = connection.execute("SELECT count(*) FROM Cache")
        lost = sum(read_row(connection, key) is None for key in carver.damaged)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(count), lost


def _some(rows: Iterable[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == AT_ONCE:
            yield part
            part = []
    yield part


def _exchange(database: Path, new: Path) -> Path:
    """Put the new file in the old one's place; the old one, and its log, get another name."""
    number = 1
    while (kept_as := database.with_name(CORRUPT + (f".{number}" if number > 1 else ""))).exists():
        number += 1
    try:
        os.link(database, kept_as)
    except OSError:  # a file system without hard links
        shutil.copyfile(database, kept_as)
    log = database.with_name(DATABASE + LOG)
    if log.exists():
        log.rename(kept_as.with_name(kept_as.name + LOG))
    database.with_name(f"{DATABASE}-shm").unlink(missing_ok=True)
    new.replace(database)
    return kept_as
