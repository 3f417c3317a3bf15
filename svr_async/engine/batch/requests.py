"""Batch files out: requests as lines of OpenAI Batch JSONL, split into files that an endpoint takes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

import orjson

from svr_async.engine.request import Request
from svr_async.errors import StorageError
from svr_async.vocabulary.atomic import reason, sync_folder

NAME = "requests-{:04d}.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The most that an endpoint takes in one file. The defaults are OpenAI's: 50,000 requests, 200 MB."""

    requests: int = 50_000
    bytes: int = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFile:
    """One file of requests: its name in the folder, how many and how large it is, and the SHA-256 of its bytes."""

    name: str
    requests: int
    bytes: int
    sha256: str


def batch_line(request: Request) -> bytes:
    """Return a request as a line of a batch file; its custom_id is the cache key in hex, 64 characters."""
    line = {"custom_id": request.key.hex(), "method": "POST", "url": request.wire.batch_url}
    return orjson.dumps({**line, "body": orjson.Fragment(request.body_bytes)}, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(slots=True)
class _OpenFile:
    path: Path
    handle: IO[bytes]
    requests: int = 0
    bytes: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)


class RequestFiles:
    """Writes requests to a folder one by one, each once, and begins another file where a limit would be passed.

    A file appears under its name when it is whole. Memory: a line, and 32 bytes a request to know it again.
    Use it as a context manager; `files` is what was written, once `finish` was called. With `dry` nothing is written.
    """

    def __init__(self, folder: Path, limits: BatchLimits | None = None, *, dry: bool = False) -> None:
        self.dry = dry
        self.files: tuple[RequestFile, ...] = ()
        self.too_long = 0
        self.keys: set[bytes] = set()
        self._folder = folder
        self._limits = limits or BatchLimits()
        self._open: _OpenFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.handle.close()
            self._open.path.unlink(missing_ok=True)

    @property
    def digest(self) -> str:
        """The SHA-256 of all keys in order of value: equal for the same set of requests, however they came."""
        return hashlib.sha256(b"".join(sorted(self.keys))).hexdigest()

    def add(self, request: Request) -> bool:
        """Write a request unless it was written before or is longer than a file may be; tell whether it was."""
        if request.key in self.keys:
            return False
        line = batch_line(request)
        if len(line) > self._limits.bytes:
            self.too_long += 1
            return False
        try:
            if not self.dry:
                self._write(line)
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        self.keys.add(request.key)
        return True

    def finish(self) -> tuple[RequestFile, ...]:
        """Put the last file in its place and return all of them; those of an export that was cut off are removed."""
        try:
            self._seal()
            for path in self._folder.glob("requests-*.jsonl"):
                if path.name not in {file.name for file in self.files}:
                    path.unlink()
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        return self.files

    def _write(self, line: bytes) -> None:
        held = self._open
        if held is not None and (held.requests >= self._limits.requests or held.bytes + len(line) > self._limits.bytes):
            self._seal()
        if self._open is None:
            path = self._folder / f".{NAME.format(len(self.files) + 1)}.tmp"
            self._open = _OpenFile(path, path.open("wb"))
        self._open.handle.write(line)
        self._open.digest.update(line)
        self._open.requests += 1
        self._open.bytes += len(line)

    def _seal(self) -> None:
        held = self._open
        if held is None:
            return
        held.handle.flush()
        os.fsync(held.handle.fileno())
        held.handle.close()
        name = NAME.format(len(self.files) + 1)
        held.path.replace(self._folder / name)
        sync_folder(self._folder)
        self._open = None
        sealed = RequestFile(name=name, requests=held.requests, bytes=held.bytes, sha256=held.digest.hexdigest())
        self.files = (*self.files, sealed)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, read a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write requests to {folder}: {reason(error)}", hint="free some space or name another folder"
    )
