"""Batch files in: the lines of result and error files, found by custom_id, read as replies or as failures.

Nothing in a result file is trusted: lines come in any order, may be missing, repeated, foreign, damaged or huge. The
index keeps where a reply lies, not the reply, so memory is flat in the size of the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Self

import orjson

from svr_async.engine.batch.folder import REMOVE
from svr_async.engine.classify import classify_status
from svr_async.engine.reply import BadBodyError, Reply, json_value
from svr_async.engine.secrets import Secret
from svr_async.engine.wires.openai import WIRE
from svr_async.errors import ArtefactError, StorageError
from svr_async.vocabulary.atomic import reason

MAX_LINE_BYTES = 12 * 2**20  # a reply of at most 8 MiB, as over HTTP, with its envelope and escapes
SKIPPED_AT_ONCE = 2**16
MOST_DETAILS = 3
EXPIRED_CODES = frozenset({"batch_expired", "request_expired"})
CANCELLED_CODES = frozenset({"batch_cancelled", "request_cancelled"})


class LineKind(StrEnum):
    """What a line of a result file is."""

    REPLY = "reply"
    FAILED = "failed"
    EXPIRED = "expired"
    FOREIGN = "foreign"
    DAMAGED = "damaged"
    REPEATED = "repeated"
    CONFLICTING = "conflicting"


class DamagedLineError(ValueError):
    """The line is no result of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLine:
    """One line: whose result it is, the HTTP status of the answer (0 where there was none), and its JSON body."""

    custom_id: str
    status: int
    body: bytes
    code: str = ""

    def reply(self) -> Reply:
        """Read the answer as one over HTTP is read; BadBodyError where it is no complete chat completion."""
        reply = WIRE.read(self.body, self.status)
        return replace(reply, usage=replace(reply.usage, batch=True))

    def failure(self) -> str:
        """Say in words why there is no reply."""
        error = WIRE.error(self.body)
        if not self.status:
            return f"{self.code or 'error'}: {error.get('message') or 'no message'}"[:300]
        return classify_status(self.status, {}, error, body_preview="no chat completion").detail


def read_line(data: bytes) -> ResultLine:
    """Read a line as OpenAI's Batch API, its clones and `vllm run-batch` write it; DamagedLineError otherwise."""
    try:
        value = json_value(data)
    except ValueError as problem:
        raise DamagedLineError(f"not JSON ({str(problem)[:80]})") from None
    if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str):
        raise DamagedLineError("no object with a custom_id")
    response, error = value.get("response"), value.get("error")
    if not isinstance(response, dict) and not error:
        raise DamagedLineError("neither a response nor an error")
    status, body = _answer(response, error)
    code = error.get("code") if isinstance(error, dict) else ""
    try:
        written = orjson.dumps(body)
    except TypeError as problem:
        raise DamagedLineError(str(problem)[:80]) from None
    return ResultLine(custom_id=value["custom_id"], status=status, body=written, code=str(code or ""))


def _answer(response: Any, error: Any) -> tuple[int, Any]:
    """Return status and body; some writers leave the envelope of the response out, or put the error beside it."""
    if not isinstance(response, dict):
        return 0, {"error": error}
    if "body" not in response and "choices" in response:
        return 200, response
    status = response.get("status_code", 200)
    body = response.get("body")
    if body is None:
        body = error if isinstance(error, dict) and "error" in error else {"error": error or "no body"}
    return status if type(status) is int and 0 < status < 1000 else 0, body


@dataclass(slots=True)
class Tally:
    """How many lines were what, with the words of the first few of each kind."""

    counts: Counter[LineKind] = field(default_factory=Counter)
    details: dict[LineKind, list[str]] = field(default_factory=dict)

    def note(self, kind: LineKind, detail: str = "") -> None:
        """Count a line; its detail is kept where it is among the first different ones of its kind."""
        self.counts[kind] += 1
        known = self.details.setdefault(kind, [])
        if detail and detail not in known and len(known) < MOST_DETAILS:
            known.append(detail)


class ResultFiles:
    """Results of a batch on disk, by cache key. Open them with `ResultFiles.open`; use it as a context manager.

    `own` are the keys that were asked for: lines of others are counted as foreign and never read as replies.
    """

    def __init__(self, paths: Sequence[Path], own: Collection[bytes], secret: Secret) -> None:
        self.tally = Tally()
        self.by_file: dict[Path, Tally] = {}
        self.failed: dict[bytes, LineKind] = {}
        self._paths = tuple(paths)
        self._own = own
        self._secret = secret
        self._places: dict[bytes, tuple[int, int]] = {}
        self._handles: list[IO[bytes]] = []
        self._stack = ExitStack()

    @classmethod
    def open(cls, paths: Sequence[Path], own: Collection[bytes], secret: Secret | None = None) -> Self:
        """Open the files and find every line; StorageError where a file cannot be read."""
        found = cls(paths, own, secret or Secret(""))
        try:
            for number, path in enumerate(found._paths):
                found._handles.append(found._stack.enter_context(path.open("rb")))
                found._index(number, path)
        except OSError as error:
            found._stack.close()
            raise StorageError(f"cannot read {path}: {reason(error)}", hint="name the file again") from error
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._places)

    def get(self, key: bytes) -> Reply | None:
        """Read the reply to a request, or None where there is none."""
        place = self._places.get(key)
        return None if place is None else self._line_at(place).reply()

    def _line_at(self, place: tuple[int, int]) -> ResultLine:
        handle = self._handles[place[0]]
        handle.seek(place[1])
        return read_line(self._masked(handle.readline()))

    def _index(self, number: int, path: Path) -> None:
        tally = self.by_file.setdefault(path, Tally())
        with path.open("rb") as file:  # a handle of its own: the other moves when an earlier line is looked at again
            for offset, data in _lines(file):
                kind, detail = self._sort((number, offset), data)
                self.tally.note(kind, detail)
                tally.note(kind, detail)

    def _sort(self, place: tuple[int, int], data: bytes | None) -> tuple[LineKind, str]:
        """Tell what a line is and remember where its reply lies; the first complete reply to a request counts."""
        if data is None:
            return LineKind.DAMAGED, f"a line longer than {MAX_LINE_BYTES // 2**20} MiB"
        try:
            line = read_line(self._masked(data))
        except DamagedLineError as error:
            return LineKind.DAMAGED, str(error)
        key = _key_of(line.custom_id)
        if key is None or key not in self._own:
            return LineKind.FOREIGN, f"custom_id {line.custom_id[:80]!r}"
        try:
            reply = line.reply()
        except BadBodyError:
            return self._fail(key, line)
        if key in self._places:
            same = self._line_at(self._places[key]).reply().text == reply.text
            return (LineKind.REPEATED, "") if same else (LineKind.CONFLICTING, f"{line.custom_id[:16]}…")
        self._places[key] = place
        self.failed.pop(key, None)
        return LineKind.REPLY, ""

    def _fail(self, key: bytes, line: ResultLine) -> tuple[LineKind, str]:
        over = line.code in EXPIRED_CODES | CANCELLED_CODES
        kind = LineKind.EXPIRED if over else LineKind.FAILED
        if key not in self._places:
            self.failed[key] = kind
        return kind, line.failure()

    def _masked(self, data: bytes) -> bytes:
        """Mask the API key where an endpoint echoes it, before anything is kept or shown."""
        return self._secret.mask_bytes(data)


def _key_of(custom_id: str) -> bytes | None:
    try:
        return bytes.fromhex(custom_id) if len(custom_id) == 64 else None
    except ValueError:
        return None


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yield (offset, line) for each line that is not blank; None in place of one that is too long to be held."""
    offset = 0
    while data := file.readline(MAX_LINE_BYTES):
        start, offset = offset, offset + len(data)
        if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
            data = b""
            offset += _skip_line(file)
            yield start, None
        elif data.strip():
            yield start, data


def _skip_line(file: IO[bytes]) -> int:
    """Pass over the rest of a line without holding it; return how many bytes that was."""
    skipped = 0
    while part := file.readline(SKIPPED_AT_ONCE):
        skipped += len(part)
        if part.endswith(b"\n"):
            break
    return skipped


def asked_keys(folder: Path, names: Iterable[str]) -> set[bytes]:
    """Return the cache keys of all files of requests of an export; ArtefactError where one is none of ours."""
    try:
        return {key for name in names for key in custom_ids(folder / name)}
    except DamagedLineError as error:
        raise ArtefactError(f"{folder}: {error}", hint=REMOVE) from error


def custom_ids(path: Path) -> Iterator[bytes]:
    """Yield the cache keys of a file of requests, in its order; DamagedLineError where it is none of ours."""
    with path.open("rb") as file:
        for data in filter(bytes.strip, file):
            try:
                key = _key_of(orjson.loads(data)["custom_id"])
            except (orjson.JSONDecodeError, KeyError, TypeError):
                key = None
            if key is None:
                raise DamagedLineError(f"{path.name} holds a line that is no request")
            yield key
