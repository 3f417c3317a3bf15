"""One reply of a cache for a person to look at: found by the beginning of its key, with the moment it was kept."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from svr_async.engine.cache_disk import DATABASE, open_for_reading, refuse_foreign_database, unpack
from svr_async.engine.reply import Reply
from svr_async.errors import StorageError, UsageError

FEWEST_DIGITS = 4
MOST_NAMED = 5
KEY_DIGITS = 64
_BEGINS = "SELECT key, store_time, value FROM Cache WHERE key >= ? AND key <= ? AND raw = 1 AND mode = 1 LIMIT ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A row of a cache. `reply` is None where it is damaged; `kept_at` is in seconds since 1970."""

    key: str
    reply: Reply | None
    kept_at: float


def look_up(folder: Path, begins: str) -> Kept | None:
    """Return the row whose key begins with these hex digits, None where there is none; nothing is written.

    UsageError for what is no beginning of a key, or the beginning of several; StorageError for a file that is no cache.
    """
    begins = key_digits(begins)
    database = folder / DATABASE
    if not database.exists():
        raise UsageError(f"there is no cache in {folder}", hint="--cache DIR names another")
    refuse_foreign_database(database)
    first, last = (bytes.fromhex(begins.ljust(KEY_DIGITS, digit)) for digit in "0f")
    try:
        with contextlib.closing(open_for_reading(database)) as connection:
            rows = connection.execute(_BEGINS, (first, last, MOST_NAMED + 1)).fetchall()
    except sqlite3.Error as error:
        raise StorageError(f"cannot read {database}: {error}", hint="svr cache repair saves what is whole") from error
    one_of([bytes(key).hex() for key, *_ in rows], begins, f"{folder}")
    return _kept(*rows[0]) if rows else None


def key_digits(text: str) -> str:
    """Return the hex digits of a key or of its beginning; UsageError for anything else."""
    digits = text.strip().lower()
    if not re.fullmatch(f"[0-9a-f]{{{FEWEST_DIGITS},{KEY_DIGITS}}}", digits):
        hint = f"give {FEWEST_DIGITS} to {KEY_DIGITS} hex digits, as items.jsonl (requests) and the log have them"
        raise UsageError(f"{text!r} is no key of a call", hint=hint)
    return digits


def one_of(keys: Sequence[str], begins: str, where: str) -> str | None:
    """Return the only key of some that begin alike, None where there is none; UsageError for several."""
    if len(keys) > 1:
        some = ", ".join(key[: max(12, len(begins) + 4)] for key in keys[:MOST_NAMED])
        more = " …" if len(keys) > MOST_NAMED else ""
        raise UsageError(f"{begins} begins several keys of {where}: {some}{more}", hint="give more digits")
    return keys[0] if keys else None


def _kept(key: bytes, kept_at: float, value: bytes) -> Kept:
    payload = unpack(bytes(key), value) if isinstance(value, bytes) else None
    reply = None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        reply = None if payload is None else Reply.from_bytes(payload)
    return Kept(key=bytes(key).hex(), reply=reply, kept_at=float(kept_at or 0.0))
