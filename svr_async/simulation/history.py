"""What happened at the endpoint: one record a call, counts per request, and the append-only log file."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from svr_async.errors import StorageError


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call. `paid`: the server did the work. `completed`: the whole of an honest answer was handed to the socket.

    `t` is seconds since the start of the server; `attempt` counts the calls for `key` from 0, −1 where the call was
    turned away before it counted; `fault` is "" for none. `reply` is the id of the completion that was written: by it
    a client's copy is recognised.
    """

    t: float
    key: str
    attempt: int = -1
    fault: str = ""
    status: int = 0
    paid: bool = False
    completed: bool = False
    reply: str = ""


@dataclass(slots=True)
class KeyCounts:
    """The calls for one request: all of them, the paid ones, the completed ones, and those still under way."""

    calls: int = 0
    paid: int = 0
    completed: int = 0
    in_flight: int = 0


@dataclass(slots=True)
class History:
    """The endpoint's memory of its calls. `struck` are the content faults that each topic has suffered."""

    path: Path | None = None
    records: list[CallRecord] = field(default_factory=list)
    counts: dict[str, KeyCounts] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    struck: dict[bytes, list[str]] = field(default_factory=dict)
    in_flight: int = 0
    peak: int = 0
    _file: int = -1

    def open(self) -> None:
        """Open the log file for appending; `StorageError` when that cannot be done."""
        if self.path is None:
            return
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"cannot write the call log {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the log file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def clear(self) -> None:
        """Forget all calls; the log file keeps its lines."""
        self.records.clear()
        self.counts.clear()
        self.attempts.clear()
        self.struck.clear()
        self.peak = self.in_flight

    def begin(self, key: str) -> int:
        """Note that work on a request begins; return the number of this attempt, from 0."""
        attempt = self.attempts[key]
        self.attempts[key] += 1
        counts = self.counts.setdefault(key, KeyCounts())
        counts.calls += 1
        counts.in_flight += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        return attempt

    def end(self, record: CallRecord) -> None:
        """Keep the record of a finished call and append it to the log file."""
        if record.attempt >= 0:
            self.in_flight -= 1
            counts = self.counts.setdefault(record.key, KeyCounts())
            counts.in_flight = max(0, counts.in_flight - 1)
            counts.paid += record.paid
            counts.completed += record.completed
        self.records.append(record)
        if self._file >= 0:
            os.write(self._file, orjson.dumps(asdict(record), option=orjson.OPT_APPEND_NEWLINE))

    def by_key(self) -> dict[str, dict[str, int]]:
        """Return the counts of every request as plain values."""
        return {key: asdict(counts) for key, counts in self.counts.items()}
