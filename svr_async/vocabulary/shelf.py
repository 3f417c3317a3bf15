"""A shelf: what a long run has to keep and seldom looks at, put away as JSON in a nameless file and read at each look.

What fits into a few MiB stays in memory, so that a small run touches no disk.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar, overload

import orjson

from svr_async.errors import StorageError
from svr_async.vocabulary.atomic import reason

HELD = 4 << 20  # bytes, beyond which they go to the file
T = TypeVar("T")


class Shelf:
    """Texts of JSON by the number that each was given; the file is in `folder`, or among the temporary ones.

    It has no name where the system allows that, so nothing is left of it whatever ends the process. Where it cannot be
    written, all stays in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._ends = array("Q", [0])
        self._held = bytearray()
        self._room = HELD
        self._filed = 0
        self._file: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, *texts: bytes) -> int:
        """Put texts away; return the number of the first, the others follow it."""
        number = len(self)
        for text in texts:
            self._held += text
            self._ends.append(self._ends[-1] + len(text))
        if len(self._held) > self._room:
            self._to_file()
        return number

    def get(self, number: int) -> bytes:
        """Return a text; StorageError where it cannot be read."""
        start, end = self._ends[number], self._ends[number + 1]
        if start >= self._filed:
            return bytes(self._held[start - self._filed : end - self._filed])
        assert self._file is not None
        try:
            found = _read_at(self._file, end - start, start)
        except OSError as error:
            raise self._lost(reason(error)) from error
        if len(found) < end - start:
            raise self._lost("the file was cut")
        return found

    def _lost(self, why: str) -> StorageError:
        place = self._folder or "the folder for temporary files"
        return StorageError(f"cannot read what was put away in {place}: {why}", hint="run the same command again")

    def _to_file(self) -> None:
        try:
            if self._file is None:
                self._file = _nameless_file(self._folder)
                weakref.finalize(self, self._file.close)
            self._file.seek(self._filed)
            left = memoryview(bytes(self._held))
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._room = 2 * len(self._held)
        else:
            self._filed = self._ends[-1]
            self._held.clear()
            self._room = HELD


def _nameless_file(folder: Path | None) -> BinaryIO:
    there = folder is not None and folder.is_dir()
    return tempfile.TemporaryFile(buffering=0, dir=folder if there else None)


def _read_at(file: BinaryIO, size: int, start: int) -> bytes:
    """Read without moving the file's place, which forks share, wherever the system can."""
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), size, start)
    file.seek(start)
    return file.read(size)


class Part(NamedTuple, Generic[T]):
    """One of the lists that are put away together: its place among them, and what makes an element of what was read."""

    place: int
    make: Callable[[Any], T]


class Shelved(Sequence[T], Generic[T]):
    """A tuple of `count` elements that lies on a shelf as a list of JSON: a part of those that begin with a number."""

    __slots__ = ("_count", "_number", "_part", "_shelf")

    def __init__(self, shelf: Shelf, number: int, part: Part[T], count: int) -> None:
        self._shelf, self._number, self._part, self._count = shelf, number, part, count

    @property
    def text(self) -> bytes:
        """The list as JSON."""
        return self._shelf.get(self._number + self._part.place)

    def whole(self) -> tuple[T, ...]:
        """Read it."""
        return tuple(map(self._part.make, orjson.loads(self.text)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return iter(self.whole())

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self.whole()[place]

    def __eq__(self, other: object) -> bool:
        return self.whole() == (other.whole() if isinstance(other, Shelved) else other)

    def __hash__(self) -> int:
        return hash(self.whole())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.whole(),)  # what is copied or sent elsewhere needs no shelf

    def __repr__(self) -> str:
        return repr(self.whole())
