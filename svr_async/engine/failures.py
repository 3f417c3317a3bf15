"""Final failures of a run, kept apart from the cache: a resumed run does not ask again what could not be answered."""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from svr_async.errors import StorageError
from svr_async.vocabulary.plainfile import read_plain
from svr_async.vocabulary.verdict import Outcome

_MOST_BYTES = 2**31  # some ten million failures
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a link beside the cache would have lines written elsewhere


class FailureLog:
    """An append-only JSON Lines file of {key, outcome, detail}; a torn last line, left by a kill, is ignored."""

    def __init__(self, path: Path | None = None, *, forget: bool = False) -> None:
        self._path = path
        self._known: dict[str, tuple[Outcome, str]] = {}
        self._torn = False
        self._read_up_to = 0
        if path is not None and path.exists():
            data = _load(path)
            self._torn = not data.endswith(b"\n")
            self._known = {} if forget else dict(_read(data))
            self._read_up_to = len(data)

    def __len__(self) -> int:
        return len(self._known)

    def reload(self) -> None:
        """Take in what other processes have added since."""
        if self._path is not None and self._path.exists():
            self._known |= _read(_load(self._path)[self._read_up_to :])

    def get(self, key: str) -> tuple[Outcome, str] | None:
        """Return outcome and detail of a question that failed for good, or None."""
        return self._known.get(key)

    def add(self, key: str, outcome: Outcome, detail: str) -> None:
        """Note a failure; StorageError where the file cannot be written."""
        self._known[key] = (outcome, detail)
        if self._path is None:
            return
        line = orjson.dumps({"key": key, "outcome": outcome.value, "detail": detail}) + b"\n"
        if self._torn:
            line, self._torn = b"\n" + line, False
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK, 0o600)
            try:
                while line:
                    line = line[os.write(handle, line) :]  # a full disk takes a part, and says so the second time
            finally:
                os.close(handle)
        except OSError as error:
            self._torn = True  # a part of the line may be there: the next one begins a line of its own
            raise StorageError(
                f"cannot write {self._path}: {error.strerror}", hint="free some space and run the same command again"
            ) from error


def _load(path: Path) -> bytes:
    try:
        return read_plain(path, _MOST_BYTES, follow=False)
    except OSError as error:
        raise StorageError(
            f"cannot read {path}: {error.strerror}", hint="move it away; failures are asked again"
        ) from error


def _read(data: bytes) -> list[tuple[str, tuple[Outcome, str]]]:
    found = []
    for line in data.splitlines():
        try:
            value = orjson.loads(line)
            found.append((str(value["key"]), (Outcome(value["outcome"]), str(value["detail"]))))
        except (orjson.JSONDecodeError, KeyError, ValueError, TypeError):
            continue
    return found
