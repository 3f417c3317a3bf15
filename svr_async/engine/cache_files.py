"""Replies outside the cache: export and import as files, look-up of one reply, and clearing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import msgspec
import orjson
from msgspec.structs import asdict

from svr_async.core.files import write_atomic_with
from svr_async.engine.cache import (
    DATABASE,
    KEY_BYTES,
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

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 1024
MAX_LINE_BYTES = 64 * 2**20
WRITTEN_BY = "svr cache export writes such a file"
KEY = re.compile(r"[0-9a-f]{64}")
TEXTS = ("key", "text", "reasoning", "finish_reason", "model", "fingerprint", "id")
COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A row of a cache. `reply` is None if it is damaged; `kept_at` is in seconds since 1970, None if not known."""

    key: str
    reply: Reply | None
    kept_at: float | None


def export_cache(place: Path | str, path: Path) -> tuple[int, int]:
    """Write all readable replies to a file; return their number and that of damaged rows.

    The file holds lines of JSON, packed if it ends in .gz, or a table if it ends in .parquet. Equal caches give equal
    files. From a damaged database the rows that SQLite can still read are written.
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


def line_of(key: bytes, reply: Reply) -> bytes:
    """Return a reply with its key as a line of JSON."""
    return msgspec.json.encode({"key": key.hex(), "reply": reply}) + b"\n"


def _export(rows: Iterable[tuple[bytes, bytes]], path: Path) -> tuple[int, int]:
    counts = [0, 0]

    def readable() -> Iterator[tuple[bytes, Reply]]:
        for key, row in rows:
            reply = unpack(key, row)
            counts[reply is None] += 1
            if reply is not None:
                yield key, reply

    def write(file: BinaryIO) -> None:
        if path.suffix == ".parquet":
            _write_table(file, readable())
        elif path.suffix == ".gz":  # without a time or name, so that equal replies give equal bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
                packed.writelines(line_of(*row) for row in readable())
        else:
            file.writelines(line_of(*row) for row in readable())

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
        if path.suffix == ".parquet":
            yield from _read_table(path)
            return
        with cast("IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                if line.strip():
                    yield _row(line, f"{path} line {number}")
    except (OSError, EOFError, zlib.error) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {path}: {text}", hint=WRITTEN_BY) from error


def _row(line: bytes, where: str) -> tuple[bytes, Reply]:
    try:
        value = orjson.loads(line)
        if KEY.fullmatch(value["key"]):
            return bytes.fromhex(value["key"]), Reply.from_bytes(orjson.dumps(value["reply"]))
        why = f"the key {value['key'][:80]!r} is not 64 hex digits"
    except (KeyError, TypeError, ValueError) as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
    raise ArtefactError(f"{where} is not a reply: {why}", hint=WRITTEN_BY)


def _schema() -> pa.Schema:
    import pyarrow as pa

    usage = [*((name, pa.int64()) for name in COUNTS), ("batch", pa.bool_()), ("cost_usd", pa.float64())]
    return pa.schema([*((name, pa.string()) for name in TEXTS), ("tries", pa.int64()), ("usage", pa.struct(usage))])


def _write_table(file: BinaryIO, rows: Iterator[tuple[bytes, Reply]]) -> None:
    from pyarrow import RecordBatch, parquet

    schema = _schema()
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, AT_ONCE)):
            values = [{"key": key.hex(), **asdict(reply), "usage": asdict(reply.usage)} for key, reply in some]
            writer.write_batch(RecordBatch.from_pylist(values, schema=schema))


def _read_table(path: Path) -> Iterator[tuple[bytes, Reply]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as table:
            if not table.schema_arrow.equals(_schema()):
                raise pa.ArrowInvalid(f"its columns are {', '.join(table.schema_arrow.names)[:120]}")
            for batch in table.iter_batches(AT_ONCE, use_threads=False):
                for reply in batch.to_pylist():
                    yield _row(orjson.dumps({"key": reply.pop("key"), "reply": reply}), f"a row of {path}")
    except pa.ArrowException as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise ArtefactError(f"{path} is not a table of replies: {first}", hint=WRITTEN_BY) from error


def refuse_missing(place: Path | str) -> Path | str:
    """Return the place of a cache; UsageError if no cache exists there."""
    place = place_of(place)
    if isinstance(place, Path) and not (place / DATABASE).exists():
        raise UsageError(f"there is no cache in {place}", hint="choose another with --cache")
    return place


def look_up(place: Path | str, begins: str, most: int) -> list[Kept]:
    """Return up to `most` rows whose keys begin with these hex digits."""
    place = refuse_missing(place)
    if isinstance(place, str):
        with contextlib.closing(Cache.open(place)) as cache:
            rows = [(key, row, None) for key, row in cache.rows() if key.hex().startswith(begins)][:most]
    else:
        ends = [bytes.fromhex(begins.ljust(2 * KEY_BYTES, digit)) for digit in "0f"]
        query = "SELECT key, value, store_time FROM Cache WHERE key BETWEEN ? AND ? AND raw = 1 AND mode = 1 LIMIT ?"
        try:
            with contextlib.closing(open_for_reading(place / DATABASE)) as connection:
                rows = connection.execute(query, (*ends, most)).fetchall()
        except sqlite3.Error as error:
            raise storage_error(str(place), error) from error
    return [Kept(key=key.hex(), reply=unpack(key, row), kept_at=at) for key, row, at in rows]


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
        if before < float("inf") or not is_corrupt(error):
            raise error if isinstance(error, StorageError) else storage_error(str(place), error) from error
        for ending in ("", "-wal", "-shm"):
            (place / f"{DATABASE}{ending}").unlink(missing_ok=True)
        return 0
    return int(count)
