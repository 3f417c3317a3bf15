"""Replies of a cache as a file of JSON lines or of Parquet, to be taken to another machine and put into cache there.

In a folder that several machines share, each export is a file that has a digest of its replies in its name: none goes
over another's, the same replies give the same file, and one that did not arrive whole is refused before it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import re
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from svr_async.engine.cache import Cache
from svr_async.engine.cache_lines import MAX_LINE_BYTES, NAMED, WRITTEN_BY, Counts, line_of, row_in
from svr_async.engine.cache_parquet import read_replies, write_replies
from svr_async.engine.reply import Reply
from svr_async.errors import ArtefactError, ConfigError, StorageError
from svr_async.vocabulary.atomic import write_atomic_with

PACKED, TABLE = ".gz", ".parquet"
AT_ONCE, AT_ONCE_CHARS = 1024, 16 * 2**20  # most rows that are put together, and of their texts
FILES = (".jsonl", ".jsonl.gz", TABLE)  # of a folder
PLACE = re.compile(r"([a-z][a-z0-9+.-]*)://.+")


def export_cache(cache: Cache, place: str | Path, *, table: bool = False) -> Counts:
    """Write all whole replies, in the order of their keys, so that equal caches give equal files.

    `place` is a file (.gz is packed, .parquet a table), a folder, or the URI of a folder that pyarrow knows, as
    `s3://bucket/folder`. Into a folder, a file is written that is named by its replies: with `table`, and always at a
    URI, as Parquet, else packed lines. StorageError where nothing can be written there.
    """
    if PLACE.fullmatch(str(place)):
        return _export_far(cache, str(place))
    path, rows, kind = Path(place), _Replies(cache), TABLE if table else f".jsonl{PACKED}"
    if not path.is_dir():
        if table and path.suffix != TABLE:
            raise ConfigError(f"{path} is no folder, and not called .parquet", hint=f"mkdir {path}, or {path}.parquet")
        return _export(path, rows)
    part = path / f".{secrets.token_hex(8)}{kind}"
    counts = _export(part, rows)
    whole = part.replace(path / f"replies-{rows.digest.hexdigest()}{kind}")
    return replace(counts, path=whole)


class _Replies:
    """The whole replies of a cache, in the order of their keys; going through them counts them and takes the digest."""

    def __init__(self, cache: Cache) -> None:
        self._cache, self.keys, self.written = cache, sorted(cache.keys()), 0
        self.digest = hashlib.blake2b(digest_size=16)

    def __iter__(self) -> Iterator[tuple[bytes, Reply]]:
        self.written, self.digest = 0, hashlib.blake2b(digest_size=16)
        for key in self.keys:
            reply = self._cache.get(key)
            if reply is not None:
                self.digest.update(line_of(key, reply))
                self.written += 1
                yield key, reply

    def counts(self, path: Path | str) -> Counts:
        return Counts(rows=self.written, damaged=len(self.keys) - self.written, path=path)


def _export(path: Path, rows: _Replies) -> Counts:
    write_atomic_with(path, lambda file: _write(file, path.name, rows), hint="name another file")
    return rows.counts(path)


def _write(file: BinaryIO, name: str, rows: _Replies) -> None:
    if name.endswith(TABLE):
        write_replies(file, rows)
        return
    with _packed(file, name) as out:
        for key, reply in rows:
            out.write(line_of(key, reply))


def _packed(file: BinaryIO, name: str) -> AbstractContextManager[Any]:
    """Return where lines go: the file, or through gzip without a time or name in it; the file stays open."""
    if not name.endswith(PACKED):
        return nullcontext(file)
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)


def _export_far(cache: Cache, uri: str) -> Counts:
    """Write a table where there is no rename: the replies are gone through twice, since its name has to be known first.

    A store shows an object when all of it is there; elsewhere a part has a name that its replies do not match.
    """
    store, folder = _store(uri)
    rows = _Replies(cache)
    for _ in rows:
        pass
    name = f"replies-{rows.digest.hexdigest()}{TABLE}"
    try:
        store.create_dir(folder, recursive=True)
        with store.open_output_stream(f"{folder}/{name}") as file:
            write_replies(file, rows)
    except OSError as error:
        raise StorageError(f"cannot write to {uri}: {_in_short(error)}", hint="name another place") from error
    return rows.counts(f"{uri.rstrip('/')}/{name}")


def _store(uri: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a URI, and the path there; ConfigError for one that it does not know."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        store, folder = FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError, OSError) as error:
        hint = "write file:///folder, s3://bucket/folder, gs://bucket/folder or abfs://…"
        raise ConfigError(f"{uri} is no place that can be used: {_in_short(error)}", hint=hint) from error
    return store, str(folder).rstrip("/")


def _in_short(error: BaseException) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:200]


async def import_cache(cache: Cache, place: str | Path) -> Counts:
    """Add the replies of a file, or of all files of a folder or URI, that are not there yet.

    ArtefactError for a line or row that is none, and for a file that is not what was exported.
    """
    found = [await _import(cache, source) for source in _sources(place)]
    return Counts(rows=sum(one.rows for one in found), known=sum(one.known for one in found))


Source = tuple[str, Callable[[], Any], int]
"""A file of replies: what it is called, what opens it, and its size in bytes."""


def _sources(place: str | Path) -> list[Source]:
    """Return the files of replies at a place; ConfigError where there is none."""
    if PLACE.fullmatch(str(place)):
        found = _far_sources(str(place))
    elif Path(place).is_dir():
        found = [_source(path) for path in Path(place).iterdir() if _is_one(path.name) and path.is_file()]
    else:
        return [_source(Path(place))]
    if not found:
        hint = f"svr cache export {place} writes a file of them there"
        raise ConfigError(f"there are no replies in {place}", hint=hint)
    return sorted(found, key=lambda source: source[0])


def _is_one(name: str) -> bool:
    return name.endswith(FILES) and not name.startswith(".")


def _source(path: Path) -> Source:
    return str(path), lambda: path.open("rb"), path.stat().st_size if path.is_file() else 0


def _far_sources(uri: str) -> list[Source]:
    from pyarrow.fs import FileSelector, FileType

    store, place = _store(uri)
    try:
        there = store.get_file_info(place)
        wide = there.type == FileType.Directory
        found = store.get_file_info(FileSelector(place)) if wide else [there]
    except OSError as error:
        raise ConfigError(f"cannot read {uri}: {_in_short(error)}", hint=WRITTEN_BY) from error
    files = [one for one in found if one.type == FileType.File and _is_one(one.base_name)]
    return [(one.path, lambda path=one.path: store.open_input_file(path), one.size) for one in files]  # type: ignore[misc]


async def _import(cache: Cache, source: Source) -> Counts:
    name = source[0]
    named = NAMED.fullmatch(name.rpartition("/")[2])
    if named and _digest_of(source) != named[1]:
        raise ArtefactError(f"{name} is not what was exported: its replies have another digest", hint="export it again")
    added = known = size = 0
    batch: dict[bytes, Reply] = {}
    for key, reply in _rows(source):
        if key in batch or cache.get(key) is not None:
            known += 1
            continue
        batch[key] = reply
        size += len(reply.text) + len(reply.reasoning)
        if len(batch) == AT_ONCE or size >= AT_ONCE_CHARS:
            added += await _put(cache, batch)
            batch, size = {}, 0
    return Counts(rows=added + await _put(cache, batch), known=known)


async def _put(cache: Cache, batch: dict[bytes, Reply]) -> int:
    await asyncio.gather(*(cache.put(key, reply) for key, reply in batch.items()))
    return len(batch)


def _rows(source: Source) -> Iterator[tuple[bytes, Reply]]:
    name, _, size = source
    try:
        with _opened(source) as file:
            yield from read_replies(file, size, name) if name.endswith(TABLE) else _rows_of_lines(file, name)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(
            f"cannot read {name}: {getattr(error, 'strerror', None) or error}", hint=WRITTEN_BY
        ) from error


def _rows_of_lines(file: BinaryIO, name: str) -> Iterator[tuple[bytes, Reply]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        if line.strip():
            yield row_in(line, f"{name} line {number}")


def _digest_of(source: Source) -> str:
    """Return the digest of the replies of a file; of one that is cut off, that of none."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        if source[0].endswith(TABLE):
            for key, reply in _rows(source):
                digest.update(line_of(key, reply))
            return digest.hexdigest()
        with _opened(source) as file:
            while data := file.read(2**20):
                digest.update(data)
    except (OSError, EOFError, zlib.error):
        return ""
    return digest.hexdigest()


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    with source[1]() as file:
        if source[0].endswith(PACKED):
            with gzip.open(file, "rb") as lines:
                yield cast("BinaryIO", lines)
        else:
            yield file
