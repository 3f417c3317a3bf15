"""Final failures of a run, stored apart from the cache: a resumed run does not ask again what could not be answered."""

from __future__ import annotations

from pathlib import Path

import orjson

from svr_async.core.verdict import Outcome
from svr_async.errors import StorageError


class FailureLog:
    """An append-only JSON Lines file of {key, outcome, detail}; a torn last line, left by a kill, is ignored."""

    def __init__(self, path: Path | None = None, *, forget: bool = False) -> None:
        self._path = path
        self._known: dict[str, tuple[Outcome, str]] = {}
        self._torn = False
        if path is not None and path.exists():
            data = _load(path)
            self._torn = not data.endswith(b"\n")
            self._known = {} if forget else _read(data)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> tuple[Outcome, str] | None:
        """Return outcome and detail of a question that failed for good, or None."""
        return self._known.get(key)

    def add(self, key: str, outcome: Outcome, detail: str) -> None:
        """Note a failure; StorageError if the file cannot be written."""
        self._known[key] = (outcome, detail)
        if self._path is None:
            return
        line = orjson.dumps({"key": key, "outcome": outcome.value, "detail": detail}, option=orjson.OPT_APPEND_NEWLINE)
        if self._torn:
            line, self._torn = b"\n" + line, False
        try:
            with self._path.open("ab") as file:
                file.write(line)
        except OSError as error:
            self._torn = True  # a part of the line may be written: the next one starts a new line
            raise StorageError(
                f"cannot write {self._path}: {error.strerror}", hint="free some space and run the same command again"
            ) from error


def _load(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"cannot read {path}: {error.strerror}", hint="move it away; failures are asked again"
        ) from error


def _read(data: bytes) -> dict[str, tuple[Outcome, str]]:
    found = {}
    for line in data.splitlines():
        try:
            value = orjson.loads(line)
            found[str(value["key"])] = (Outcome(value["outcome"]), str(value["detail"]))
        except (KeyError, ValueError, TypeError):
            continue
    return found
