"""Final failures of a run, stored apart from the cache: a resumed run does not ask again what could not be answered."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson

from svr_async.core.verdict import Outcome
from svr_async.errors import StorageError

KEPT_CHARS = 4_000  # of a reply that could not be read


class FailureLog:
    """An append-only JSON Lines file of {key, outcome, detail, text}; damaged lines are ignored, as after a kill.

    `text` is the start of a reply that could not be read, if there was one; `texts` are those of the file, by key.
    """

    def __init__(self, path: Path | None = None, *, forget: bool = False) -> None:
        self._path = path
        self._known: dict[str, tuple[Outcome, str]] = {}
        self.texts: dict[str, str] = {}
        if path is not None and path.exists():
            try:
                data = path.read_bytes()
            except OSError as error:
                hint = "move it away; failures are asked again"
                raise StorageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
            for line in () if forget else data.splitlines():
                with suppress(KeyError, ValueError, TypeError):
                    value = orjson.loads(line)
                    self._known[str(value["key"])] = (Outcome(value["outcome"]), str(value["detail"]))
                    self.texts[str(value["key"])] = str(value.get("text", ""))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> tuple[Outcome, str] | None:
        """Return outcome and detail of a question that failed for good, or None."""
        return self._known.get(key)

    def add(self, key: str, outcome: Outcome, detail: str, text: str = "") -> None:
        """Note a failure; StorageError if the file cannot be written."""
        self._known[key] = (outcome, detail)
        if self._path is None:
            return
        value = {"key": key, "outcome": outcome.value, "detail": detail}
        value |= {"text": text[:KEPT_CHARS].encode(errors="replace").decode()} if text else {}
        line = b"\n" + orjson.dumps(value)  # the newline ends a line that was cut off by a full disk or a kill
        try:
            with self._path.open("ab") as file:
                file.write(line)
        except OSError as error:
            hint = "free some space and run the same command again"
            raise StorageError(f"cannot write {self._path}: {error.strerror}", hint=hint) from error
