"""The JSON Lines log: events as records, written by a thread, so that the event loop never waits for a disk.

The names, fields and levels of the records are the schema of the log; docs/observability.md lists them.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import threading
import time
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson

from svr_async.engine.events import AttemptEnded, CallEnded, Event, RetryPlanned, Snapshot
from svr_async.engine.secrets import Secrets, environment_secrets
from svr_async.errors import UsageError

SNAPSHOT_EVERY_S = 10.0
MOST_WAITING = 100_000  # lines; a disk that stalls for longer costs lines, not memory
CLOSE_WAIT_S = 10.0
DRY_RUN = "planned_"  # counts of a dry run, which sends nothing


class JsonLog:
    """An observer that appends one JSON line per event to a file, or to standard error for `-`.

    Each line has `time` (UTC), `run` and `pid`, so that several runs can share a file. Lines are written whole and in
    order; a torn last line of an earlier run is ended first. A line that cannot be written is counted in `dropped`.
    """

    def __init__(self, target: str, *, level: str = "run", run: str = "", hidden: Secrets | None = None) -> None:
        self.dropped = 0
        self.problem = ""
        self._file = _open(target)
        self._level = level
        self._head = {"run": run, "pid": os.getpid()}
        self._hidden = hidden or environment_secrets()
        self._next_snapshot: dict[int, float] = {}
        self._waiting: queue.SimpleQueue[tuple[float, Event] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="svr-log", daemon=True)
        self._writer.start()

    def __call__(self, event: Event) -> None:
        """Queue an event; return at once."""
        if isinstance(event, AttemptEnded) or (self._level != "call" and isinstance(event, CallEnded | RetryPlanned)):
            return  # attempts have no line: the lines of calls and retries say as much
        if isinstance(event, Snapshot):
            now = time.monotonic()
            if not event.closing and now < self._next_snapshot.get(event.source, 0.0):
                return
            self._next_snapshot[event.source] = now + SNAPSHOT_EVERY_S
        if self._waiting.qsize() >= MOST_WAITING:
            self.dropped += 1
        else:
            self._waiting.put((time.time(), event))

    def close(self) -> None:
        """Write the waiting lines and close the file; wait ten seconds at most for a disk that hangs."""
        self._waiting.put(None)
        self._writer.join(CLOSE_WAIT_S)

    def _write(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            data = self._line(*waiting)
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                self.problem = self.problem or (error.strerror or str(error))
                self.dropped += 1
        os.close(self._file)

    def _line(self, moment: float, event: Event) -> bytes:
        stamp = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
        record = {"time": stamp.replace("+00:00", "Z"), **self._head, **record_of(event)}
        try:
            line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:  # a text that is not Unicode: half a surrogate pair
            line = json.dumps(record, default=str).encode() + b"\n"
        return self._hidden.mask_bytes(line)


def record_of(event: Event) -> dict[str, Any]:
    """Return the name and fields of an event; the facts of a snapshot are fields of the record itself."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    if isinstance(event, Snapshot):
        facts = values.pop("stats")
        values |= {field.name: getattr(facts, field.name) for field in fields(facts)}
    kept = {name: value for name, value in values.items() if not name.startswith(DRY_RUN)}
    return {"event": _snake(type(event).__name__), **kept}


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _open(target: str) -> int:
    if target == "-":
        return os.dup(2)
    try:
        file = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = "name a file in a folder that exists"
        raise UsageError(f"cannot write --log-json {target}: {error.strerror}", hint=hint) from error
    with contextlib.suppress(OSError):  # a pipe or a device has no end
        size = os.lseek(file, 0, os.SEEK_END)
        if size and os.pread(file, 1, size - 1) != b"\n":  # a kill left a part of a line
            os.write(file, b"\n")
    return file
