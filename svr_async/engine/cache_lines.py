"""A reply outside a cache: the line of JSON that it is there, whose digest names files of replies in any format."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from svr_async.engine.reply import Reply
from svr_async.errors import ArtefactError

KEY = re.compile(r"[0-9a-f]{64}")
NAMED = re.compile(r"replies-([0-9a-f]{32})\.(?:jsonl\.gz|parquet)")
MAX_LINE_BYTES = 64 * 2**20
WRITTEN_BY = "svr cache export writes such a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What an export or import did: rows written or added, those that were there already, those that are damaged.

    `path` is the file that was written.
    """

    rows: int
    known: int = 0
    damaged: int = 0
    path: Path | str | None = None


def line_of(key: bytes, reply: Reply) -> bytes:
    """Return a reply with its key as a line."""
    return orjson.dumps({"key": key.hex(), "reply": asdict(reply)}) + b"\n"


def row_in(line: bytes, where: str) -> tuple[bytes, Reply]:
    """Read a line; ArtefactError where its key is none, or its reply has not the fields of one with the right types."""
    try:
        value = orjson.loads(line)
        return _key(value["key"]), Reply.from_bytes(orjson.dumps(value["reply"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtefactError(f"{where} is no reply: {why}", hint=WRITTEN_BY) from error


def _key(value: object) -> bytes:
    if not isinstance(value, str) or not KEY.fullmatch(value):
        raise ValueError(f"the key is {str(value)[:80]!r}, not 64 hex digits")
    return bytes.fromhex(value)
