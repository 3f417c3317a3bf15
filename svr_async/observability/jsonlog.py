"""A log of JSON lines, written by a thread of its own so that the event loop never waits for a disk."""

from __future__ import annotations

import os
import queue
import threading
import time
from datetime import UTC, datetime

import orjson

from svr_async.engine.events import Event, Snapshot
from svr_async.errors import UsageError
from svr_async.observability.records import record_of, wanted
from svr_async.observability.redaction import Redactor

SNAPSHOT_EVERY_S = 10.0
MOST_WAITING = 100_000  # lines; a disk that stalls for longer costs lines, not memory
MOST_IN_A_WRITE = 512
STDERR = "-"
CLOSE_WAIT_S = 10.0


class JsonLog:
    """An observer that appends one line of JSON an event to a file, or to standard error for `-`.

    Each line has `time` (UTC), `run` and `pid`, so that several runs may share a file. Lines are written whole and in
    order, several in one `write`; a torn last line of an earlier run is ended first. What cannot be written is counted
    in `dropped` and never stops the run.
    """

    def __init__(self, target: str, *, level: str = "run", run: str = "", redactor: Redactor | None = None) -> None:
        self.dropped = 0
        self.problem = ""
        self._file = _open(target)
        self._level = level
        self._head = {"run": run, "pid": os.getpid()}
        self._redactor = redactor or Redactor()
        self._next_snapshot: dict[int, float] = {}
        self._waiting: queue.SimpleQueue[tuple[float, Event] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="svr-log", daemon=True)
        self._writer.start()

    def __call__(self, event: Event) -> None:
        """Take note of an event; returns at once."""
        if not wanted(event, self._level) or (isinstance(event, Snapshot) and self._too_soon(event)):
            return
        if self._waiting.qsize() >= MOST_WAITING:
            self.dropped += 1
        else:
            self._waiting.put((time.time(), event))

    def close(self) -> None:
        """Write what is waiting and close the file; a disk that hangs is given ten seconds."""
        self._waiting.put(None)
        self._writer.join(CLOSE_WAIT_S)

    def _too_soon(self, event: Snapshot) -> bool:
        now = time.monotonic()
        if not event.closing and now < self._next_snapshot.get(event.source, 0.0):
            return True
        self._next_snapshot[event.source] = now + SNAPSHOT_EVERY_S
        return False

    def _write(self) -> None:
        while (batch := _take(self._waiting)) is not None:
            lines = [self._line(moment, event) for moment, event in batch]
            try:
                _write_all(self._file, b"".join(lines))
            except OSError as error:
                self.problem = self.problem or (error.strerror or str(error))
                self.dropped += len(lines)
        os.close(self._file)

    def _line(self, moment: float, event: Event) -> bytes:
        stamp = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {"time": stamp, **self._head, **record_of(event)}
        return self._redactor.line(orjson.dumps(record, default=str, option=orjson.OPT_APPEND_NEWLINE))


def _open(target: str) -> int:
    if target == STDERR:
        return os.dup(2)
    try:
        file = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write --log-json {target}: {error.strerror}", hint="name a file in a folder that exists"
        ) from error
    if _is_torn(file):
        os.write(file, b"\n")
    return file


def _is_torn(file: int) -> bool:
    """Whether a file ends within a line; a pipe or a device has no end to look at."""
    try:
        size = os.lseek(file, 0, os.SEEK_END)
        return size > 0 and os.pread(file, 1, size - 1) != b"\n"
    except OSError:
        return False


def _take(waiting: queue.SimpleQueue[tuple[float, Event] | None]) -> list[tuple[float, Event]] | None:
    """Wait for one event and take what else is there; None when the log closes and all is written."""
    first = waiting.get()
    if first is None:
        return None
    batch = [first]
    while len(batch) < MOST_IN_A_WRITE:
        try:
            event = waiting.get_nowait()
        except queue.Empty:
            break
        if event is None:
            waiting.put(None)
            break
        batch.append(event)
    return batch


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
