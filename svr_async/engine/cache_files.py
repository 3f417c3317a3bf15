"""Replies outside the cache: export and import as files, and clearing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, BinaryIO, cast

import msgspec

from svr_async.core.files import write_atomic_with
from svr_async.engine.cache import (
    DATABASE,
    Cache,
    DiskStore,
    is_corrupt,
    open_for_reading,
    place_of,
    storage_error,
    unpack,
)
from svr_async.engine.reply import Reply
from svr_async.errors import ArtefactError, ConfigError, StorageError, UsageError

AT_ONCE = 1024
MAX_LINE_BYTES = 64 * 2**20
WRITTEN_BY = "svr cache export writes such a file"


def export_cache(place: Path | str, path: Path) -> tuple[int, int]:
    """Write all readable replies to a file; return their number and that of damaged rows.

    The file is JSON lines, gzipped if it ends in .gz; equal caches give equal files. Of a damaged database it gets the
    rows that SQLite can still read.
    """
    try:
        with contextlib.closing(Cache.open(place)) as cache:
            return _export(cache.rows(), path)
    except StorageError as error:
        if not is_corrupt(error):
            raise
        return _export(_salvaged(Path(place)), path)


async def import_cache(cache: Cache, path: Path) -> tuple[int, int]:
    """Add the replies of a file; return how many were new and how many known. ArtefactError for an invalid row."""
    added, known, rows = 0, 0, _read(path)
    while some := dict(islice(rows, AT_ONCE)):
        new = {key: reply for key, reply in some.items() if await cache.find(key) is None}
        await asyncio.gather(*(cache.put(key, reply) for key, reply in new.items()))
        added, known = added + len(new), known + len(some) - len(new)
    return added, known


class _Row(msgspec.Struct):
    key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    reply: Reply


def _export(rows: Iterable[tuple[bytes, bytes]], path: Path) -> tuple[int, int]:
    counts = [0, 0]

    def readable() -> Iterator[tuple[bytes, Reply]]:
        for key, row in rows:
            reply = unpack(key, row)
            counts[reply is None] += 1
            if reply is not None:
                yield key, reply

    def write(file: BinaryIO) -> None:
        lines = (msgspec.json.encode(_Row(key.hex(), reply)) + b"\n" for key, reply in readable())
        if path.suffix == ".gz":  # without a time or name, so that equal replies give equal bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)

    write_atomic_with(path, write, hint="name another file")
    return counts[0], counts[1]


def _salvaged(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of a damaged database that SQLite can still read, skipping ever further where it cannot."""
    with contextlib.closing(open_for_reading(folder / DATABASE)) as connection:
        after, step = 0, 1
        while step < 2**40:
            query = "SELECT rowid, key, value FROM Cache WHERE rowid > ? AND raw = 1 AND mode = 1 ORDER BY rowid"
            try:
                for rowid, key, row in connection.execute(query, (after,)):
                    after, step = rowid, 1
                    yield key, row
            except sqlite3.DatabaseError:
                after, step = after + step, 2 * step
            else:
                return


def _read(path: Path) -> Iterator[tuple[bytes, Reply]]:
    try:
        with cast("IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                if line.strip():
                    yield _row(line, f"{path} line {number}")
    except (OSError, EOFError, zlib.error) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read '{path}': {text}", hint=WRITTEN_BY) from error


def _row(line: bytes, where: str) -> tuple[bytes, Reply]:
    try:
        row = msgspec.json.decode(line, type=_Row)
    except ValueError as error:
        raise ArtefactError(f"{where} is not a reply: {error}", hint=WRITTEN_BY) from error
    return bytes.fromhex(row.key), row.reply


def refuse_missing(place: Path | str) -> Path | str:
    """Return the place of a cache; UsageError if no cache exists there."""
    place = place_of(place)
    if isinstance(place, Path) and not (place / DATABASE).exists():
        raise UsageError(f"no cache in {place}", hint="choose another with --cache")
    return place


def clear_cache(place: Path | str, before: float = float("inf")) -> int:
    """Delete the replies stored before a time in seconds since 1970; return how many there were.

    Without a time, a damaged database is deleted as a file. UsageError for a Redis server.
    """
    place = refuse_missing(place)
    if isinstance(place, str):
        hint = "delete the keys svr:* with the server's own tools"
        raise UsageError("svr cache clear works on a cache in a folder", hint=hint)
    try:
        disk, reading = DiskStore(place).disk, open_for_reading(place / DATABASE)
        with contextlib.closing(disk), contextlib.closing(reading) as connection:
            old = connection.execute("SELECT key FROM Cache WHERE raw = 1 AND store_time < ?", (before,)).fetchall()
            with disk.transact(retry=True):
                count = sum(disk.delete(key) for (key,) in old)
        with contextlib.closing(sqlite3.connect(place / DATABASE)) as connection:
            connection.execute("VACUUM")  # gives the room back to the disk
    except (StorageError, sqlite3.DatabaseError) as error:
        failed = error if isinstance(error, StorageError) else storage_error(str(place), error)
        if before < float("inf") or not is_corrupt(error):
            raise failed from error
        for ending in ("", "-wal", "-shm"):
            (place / f"{DATABASE}{ending}").unlink(missing_ok=True)
        return 0
    return int(count)
