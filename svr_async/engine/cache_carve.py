"""Rows of a cache's file read page by page, without SQLite, so that damage costs what it lies on and nothing else.

Every row carries a digest of its key and payload: whatever looks like a row and matches is one, wherever it lies. The
format is SQLite's (sqlite.org/fileformat2.html): leaf pages of tables, overflow pages, frames of the write-ahead log.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from svr_async.engine.cache_disk import MAX_ROW_BYTES, unpack

LEAF = 0x0D
PAGE_BYTES, SMALLEST_PAGE, LARGEST_PAGE = 4096, 512, 65536
HEADER_BYTES, LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 100, 32, 24
KEY_BYTES = 32
COLUMNS = 12  # of diskcache's table: rowid, key, raw, store_time, …, value
KEY, STORED, VALUE = 1, 3, 11
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a value of each serial type below 10
_REAL = 7


@dataclass(frozen=True, slots=True)
class Row:
    """A whole row: its key, its packed value, and when it was stored (seconds since 1970; 0 where that is not told)."""

    key: bytes
    value: bytes
    stored_at: float


class FileBytes:
    """The bytes of a file, read when they are asked for, none where there is none. What the disk does not give is 0."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY) if path.exists() else -1
        self._size = path.stat().st_size if self._handle >= 0 else 0

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, size: int) -> bytes:
        """Return bytes, as many as there are."""
        size = max(0, min(size, self._size - start))
        with contextlib.suppress(OSError):  # a bad sector costs what is on it
            data = os.pread(self._handle, size, start) if size else b""
            return data + bytes(size - len(data))
        return bytes(size)

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)


@dataclass(slots=True)
class Carver:
    """The file of a database and its log (may be empty). `rows` yields what is whole; `damaged` are keys of the rest.

    Another version of a damaged row may be whole. Memory is flat in the number of whole rows.
    """

    database: FileBytes
    log: FileBytes
    damaged: set[bytes] = field(default_factory=set)
    _page: int = PAGE_BYTES
    _usable: int = PAGE_BYTES
    _frames: dict[int, int] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """Yield each whole row that is found, older versions of one too; afterwards `damaged` is complete."""
        self._page = _page_size(self.database)
        reserved = int.from_bytes(self.database.read(20, 1), "big")
        self._usable = self._page - (reserved if reserved <= self._page - 480 else 0)
        frames = list(self._find_frames())
        self._frames = dict(frames)
        for number in range(1, len(self.database) // self._page + 1):
            yield from self._rows_on(self.database.read((number - 1) * self._page, self._page), number)
        for number, start in frames:
            yield from self._rows_on(self.log.read(start, self._page), number)

    def _find_frames(self) -> Iterator[tuple[int, int]]:
        """Yield page number and place of each page in the log."""
        start = LOG_HEADER_BYTES
        while start + FRAME_HEADER_BYTES + self._page <= len(self.log):
            yield int.from_bytes(self.log.read(start, 4), "big"), start + FRAME_HEADER_BYTES
            start += FRAME_HEADER_BYTES + self._page

    def _rows_on(self, page: bytes, number: int) -> Iterator[Row]:
        head = HEADER_BYTES if number == 1 else 0
        if page[head] != LEAF:
            return
        count = int.from_bytes(page[head + 3 : head + 5], "big")
        for at in range(head + 8, min(head + 8 + 2 * count, self._usable - 1), 2):
            place = int.from_bytes(page[at : at + 2], "big")
            try:
                row = self._row_at(page, place)
            except (IndexError, ValueError, struct.error):
                continue
            if row is not None:
                yield row

    def _row_at(self, page: bytes, place: int) -> Row | None:
        size, place = _varint(page, place)
        _, place = _varint(page, place)
        if not KEY_BYTES < size <= MAX_ROW_BYTES:
            return None
        record = self._payload(page, place, size)
        fields = _fields(record)
        if len(fields) != COLUMNS or fields[KEY][0] != 12 + 2 * KEY_BYTES:
            return None
        key, value = (bytes(record[start:end]) for _, start, end in (fields[KEY], fields[VALUE]))
        if unpack(key, value) is None:
            self.damaged.add(key)
            return None
        kind, start, end = fields[STORED]
        stored_at = struct.unpack(">d", record[start:end])[0] if kind == _REAL else 0.0
        return Row(key, value, stored_at)

    def _payload(self, page: bytes, place: int, size: int) -> bytes:
        """Return the bytes of a record, those on overflow pages too; where these are lost, what there is, and zeros."""
        local = self._local(size)
        parts = [bytes(page[place : place + local])]
        left = size - local
        follow = int.from_bytes(page[place + local : place + local + 4], "big") if left else 0
        while left > 0:
            more = self._page_at(follow)
            take = min(left, self._usable - 4)
            if more is None:
                parts.append(bytes(left))
                break
            parts.append(bytes(more[4 : 4 + take]))
            left -= take
            follow = int.from_bytes(more[:4], "big")
        return b"".join(parts)

    def _local(self, size: int) -> int:
        """Return how many bytes of a record lie on the leaf itself."""
        most, least = self._usable - 35, (self._usable - 12) * 32 // 255 - 23
        if size <= most:
            return size
        fitting = least + (size - least) % (self._usable - 4)
        return fitting if fitting <= most else least

    def _page_at(self, number: int) -> bytes | None:
        if number in self._frames:
            return self.log.read(self._frames[number], self._page)
        start = (number - 1) * self._page
        return self.database.read(start, self._page) if 0 <= start <= len(self.database) - self._page else None


def _page_size(database: FileBytes) -> int:
    """Return the size that the header names; SQLite's own where the header is damaged."""
    head = database.read(0, 18)
    named = int.from_bytes(head[16:], "big")
    size = LARGEST_PAGE if named == 1 else named
    sensible = SMALLEST_PAGE <= size <= LARGEST_PAGE and not size & (size - 1)
    return size if sensible and head[:16] == b"SQLite format 3\x00" else PAGE_BYTES


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return an integer of one to nine bytes and the place behind it; IndexError past the end."""
    value = 0
    for count in range(9):
        byte = data[place + count]
        if count == 8:
            return value << 8 | byte, place + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    raise AssertionError("a varint has at most nine bytes")


def _fields(record: bytes) -> list[tuple[int, int, int]]:
    """Return serial type, start and end of each value of a record; ValueError where they do not fit into it."""
    end, place = _varint(record, 0)
    fields: list[tuple[int, int, int]] = []
    start = end
    while place < end and len(fields) <= COLUMNS:
        kind, place = _varint(record, place)
        size = _SIZES[kind] if kind < len(_SIZES) else max(0, (kind - 12) // 2)
        fields.append((kind, start, start + size))
        start += size
    if place != end or start != len(record):
        raise ValueError("no record")
    return fields
