"""The cache of a worker: replies are committed here first, and are the driver's once they are in its cache too.

It lies beside the place that --cache names, `DIR.ray/MACHINE-N`, on a disk of the worker's machine. What a worker that
was killed had not handed over is handed over by the next one in its place, or in the next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from svr_async.engine.cache import Cache, reply_in
from svr_async.engine.cache_disk import DATABASE
from svr_async.engine.cache_files import unused
from svr_async.errors import StorageError

AT_ONCE = 1024  # rows that go together
_NAMED = re.compile(r"(.+)-(\d{1,5})")
Rows = list[tuple[bytes, bytes]]


def outbox_place(cache: Path, machine: str, number: int) -> Path:
    """Return the folder of the worker with this number on a machine."""
    return cache.with_name(f"{cache.name}.ray") / f"{_plain(machine)}-{number}"


def left_behind(cache: Path, machine: str, number: int, count: int) -> list[Path]:
    """Return the folders that a worker looks after: its own, and those of earlier runs with more workers than now."""
    own = outbox_place(cache, machine, number)
    found = {own}
    for path in own.parent.glob(f"*/{DATABASE}"):
        named = _NAMED.fullmatch(path.parent.name)
        if named and named[1] == _plain(machine) and int(named[2]) >= count and int(named[2]) % count == number:
            found.add(path.parent)
    return sorted(found)


def _plain(machine: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in machine)[:80] or "machine"


def keys_in(folder: Path) -> list[bytes]:
    """Return the keys of the replies in a folder."""
    cache = Cache.open(folder)
    try:
        return list(cache.keys())
    finally:
        cache.close()


def rows_in(folder: Path, keys: Sequence[bytes]) -> Rows:
    """Return rows of a folder."""
    cache = Cache.open(folder)
    try:
        return rows_of(cache, keys)
    finally:
        cache.close()


def rows_of(cache: Cache, keys: Sequence[bytes]) -> Rows:
    """Return those rows of a cache that there are."""
    parts = [keys[first : first + AT_ONCE] for first in range(0, len(keys), AT_ONCE)]
    return [row for part in parts for row in (cache.rows(part) or {}).items()]


def lacking(cache: Cache, keys: Sequence[bytes]) -> list[bytes]:
    """Return the keys that a cache has no row for."""
    known = {key for key, _ in rows_of(cache, keys)}
    return [key for key in keys if key not in known]


async def take_rows(cache: Cache, rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Commit rows that came from another machine; what does not match its digest is left out, what is there stays."""
    found = {key: reply for key, row in rows if (reply := reply_in(key, row)) is not None}
    missing = lacking(cache, list(found))
    await asyncio.gather(*(cache.put(key, found[key]) for key in missing))


def clear(folder: Path) -> None:
    """Remove a folder whose replies are all in the driver's cache, unless another process has it open."""
    with contextlib.suppress(StorageError, OSError), unused(folder):
        shutil.rmtree(folder)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()  # where it was the last
