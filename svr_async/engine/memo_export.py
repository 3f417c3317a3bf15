"""Replies of a memo as a file of JSON lines, to be taken to another machine and put into the memo there.

In a folder that several machines share, each export is a file that has a digest of its lines in its name: none goes
over another's, the same replies give the same file, and one that did not arrive whole is refused before it is read.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import secrets
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import orjson

from svr_async.engine.memo import Memo
from svr_async.engine.reply import Reply
from svr_async.errors import ArtefactError, ConfigError
from svr_async.vocabulary.atomic import write_atomic_with

PACKED = ".gz"
KEY = re.compile(r"[0-9a-f]{64}")
AT_ONCE = 1024  # rows that are put together
MAX_LINE_BYTES = 64 * 2**20
WRITTEN_BY = "svr cache export writes such a file"
FILES = ("*.jsonl", "*.jsonl.gz")  # of a folder
NAMED = re.compile(r"replies-([0-9a-f]{32})\.jsonl\.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What an export or import did: rows written or added, those that were there already, those that are damaged.

    `path` is the file that was written.
    """

    rows: int
    known: int = 0
    damaged: int = 0
    path: Path | None = None


def export_memo(memo: Memo, path: Path) -> Counts:
    """Write all whole replies, in the order of their keys, so that equal memos give equal files; .gz is packed.

    Into a folder, a packed file is written that is named by its lines.
    """
    if not path.is_dir():
        return _export(memo, path, hashlib.blake2b(digest_size=16))
    digest, part = hashlib.blake2b(digest_size=16), path / f"{secrets.token_hex(8)}.part{PACKED}"
    counts = _export(memo, part, digest)
    whole = part.replace(path / f"replies-{digest.hexdigest()}.jsonl{PACKED}")
    return replace(counts, path=whole)


def _export(memo: Memo, path: Path, digest: hashlib.blake2b) -> Counts:
    keys = sorted(memo.keys())
    written = 0

    def write(file: BinaryIO) -> None:
        nonlocal written
        with _packed(file, path) as out:
            for key in keys:
                reply = memo.get(key)
                if reply is not None:
                    line = orjson.dumps({"key": key.hex(), "reply": asdict(reply)}) + b"\n"
                    digest.update(line)
                    out.write(line)
                    written += 1

    write_atomic_with(path, write, hint="name another file")
    return Counts(rows=written, damaged=len(keys) - written, path=path)


def _packed(file: BinaryIO, path: Path) -> AbstractContextManager[Any]:
    """Return where lines go: the file, or through gzip without a time or name in it; the file stays open."""
    if path.suffix != PACKED:
        return nullcontext(file)
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)


async def import_memo(memo: Memo, path: Path) -> Counts:
    """Add the replies of a file, or of all files of a folder, that are not there yet.

    ArtefactError for a line that is none, and for a file that is not what was exported.
    """
    found = [await _import(memo, file) for file in _files_of(path)]
    return Counts(rows=sum(one.rows for one in found), known=sum(one.known for one in found))


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for pattern in FILES for file in path.glob(pattern) if not file.name.startswith("."))
    if not files:
        raise ConfigError(
            f"there are no replies in {path}", hint=f"svr cache export {path} writes a file of them there"
        )
    return files


async def _import(memo: Memo, path: Path) -> Counts:
    named = NAMED.fullmatch(path.name)
    if named and _digest_of(path) != named[1]:
        raise ArtefactError(f"{path} is not what was exported: its lines have another digest", hint="export it again")
    added = known = 0
    batch: dict[bytes, Reply] = {}
    for key, reply in _rows(path):
        if key in batch or memo.get(key) is not None:
            known += 1
            continue
        batch[key] = reply
        if len(batch) == AT_ONCE:
            added += await _put(memo, batch)
            batch = {}
    return Counts(rows=added + await _put(memo, batch), known=known)


async def _put(memo: Memo, batch: dict[bytes, Reply]) -> int:
    await asyncio.gather(*(memo.put(key, reply) for key, reply in batch.items()))
    return len(batch)


def _rows(path: Path) -> Iterator[tuple[bytes, Reply]]:
    try:
        with _opened(path) as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                if line.strip():
                    yield _row(line, f"{path} line {number}")
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}", hint=WRITTEN_BY
        ) from error


def _digest_of(path: Path) -> str:
    """Return the digest of the lines of a packed file; of one that is cut off, that of none."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with _opened(path) as file:
            while data := file.read(2**20):
                digest.update(data)
    except (OSError, EOFError, zlib.error):
        return ""
    return digest.hexdigest()


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == PACKED else path.open("rb")


def _row(line: bytes, where: str) -> tuple[bytes, Reply]:
    """Read a line; its key has to be one, and its reply to have the fields of one with the right types."""
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
