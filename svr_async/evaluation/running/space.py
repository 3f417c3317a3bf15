"""Room on the disk for a run: estimated before the first call, so that no run ends for want of it that need not begin.

A generous bound is enough nearly always. Only where the disk has less are the calls counted, as a dry run counts them:
what the cache holds already needs no more room.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.errors import StorageError
from svr_async.vocabulary.system import NETWORK, file_system_of

BYTES_A_CALL = 600  # a row of the cache: key, index, facts of the reply, the database's slack; measured: 520
BYTES_A_TOKEN = 2.0  # a token of a packed reply; measured: 0.4 (verdicts on many rubrics) to 1.9 (short prose)
BYTES_A_PAIR = (
    20_000  # in the run folder, twice the items; measured: 0.6 (direct verdicts) to 9.1 kB (a bank's rubrics)
)
BASE_BYTES = 16 * 2**20  # the write-ahead log, the report's frame
MOST_CALLS = 8  # a pair and judge: both orders, rubrics, a rephrasing, questions asked again
MOST_TOKENS = 1500  # mean length of such a reply, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes that a run needs in the cache and in its folder."""

    cache: int
    run: int

    @property
    def total(self) -> int:
        """Both."""
        return self.cache + self.run


def room_at_most(pairs: int, judges: int, calls_a_pair: int = MOST_CALLS) -> Room:
    """Return a bound that needs no look at the pairs."""
    calls = pairs * judges * calls_a_pair
    return room_for({"calls": calls, "completion_tokens": calls * MOST_TOKENS}, pairs)


def room_for(count: Mapping[str, Any], pairs: int) -> Room:
    """Return the room for the calls of a dry run and the items of so many pairs."""
    cache = BASE_BYTES + BYTES_A_CALL * count["calls"] + int(BYTES_A_TOKEN * count["completion_tokens"])
    return Room(cache=cache, run=BASE_BYTES + BYTES_A_PAIR * pairs)


def shortage(room: Room, cache: Path, folder: Path) -> StorageError | None:
    """Return the error for a disk with less room than that, or None."""
    needs = {_existing(cache): room.cache, _existing(folder): room.run}
    if len({place.stat().st_dev for place in needs}) == 1:
        needs = {_existing(cache): room.total}
    for place, need in needs.items():
        free = shutil.disk_usage(place).free
        if free < need:
            return StorageError(
                f"the run may need {words(need)} in {place.absolute()}, and {words(free)} are free",
                hint="make room, name another disk with --cache or --out, or begin all the same with --force",
            )
    return None


def free_bytes(cache: Path) -> int:
    """Return how much room there is where a cache lies, or will."""
    return shutil.disk_usage(_existing(cache)).free


def words(count: int) -> str:
    """Return a number of bytes as people say it."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def network_note(cache: Path) -> str:
    """Return what to say of a cache on a network file system; nothing of any other."""
    kind = file_system_of(_existing(cache))
    if not NETWORK.search(kind):
        return ""
    return (
        f"the cache {cache} lies on {kind}, where locks are not safe: --cache DIR on a disk of this machine is better"
    )


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that is there."""
    return next((one for one in (path, *path.absolute().parents) if one.exists()), Path.cwd())
