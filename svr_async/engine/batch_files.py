"""OpenAI Batch files: requests out, results in, and the two state files of an export folder.

`export.json` describes the export. It is written last, so a folder that has it is complete. `batch.json` holds the
state of each request file at the endpoint. It is written before each step, so a killed command can continue.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, TypeVar

import msgspec
import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.engine.classify import classify_status
from svr_async.engine.reply import BadBodyError, Reply, json_value
from svr_async.engine.request import Request
from svr_async.engine.wires.openai import WIRE
from svr_async.errors import ArtefactError, StorageError, SvrError, UsageError

EXPORT = "export.json"
STATE = "batch.json"
MAX_REQUESTS = 50_000  # OpenAI's limits for one file
MAX_BYTES = 200_000_000
MAX_MESSAGES = 3
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
EXPORT_AGAIN = "export again into another folder"
T = TypeVar("T")
FileName = Annotated[str, msgspec.Meta(pattern=r"^requests-[0-9]{4,9}\.jsonl\Z")]
"""Results are written next to a request file under a similar name, so names from a folder are checked."""


class RequestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A request file: its name in the folder, number of requests and size in bytes."""

    name: FileName
    requests: int
    bytes: int


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """The command whose calls were exported, their endpoint, and the request files.

    `id` is random and marks our batches at the endpoint. `key_env` names the variable of the API key.
    """

    id: str
    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    judge: str
    base_url: str
    key_env: str
    files: tuple[RequestFile, ...]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The batch of one request file, with status and counts as the endpoint last reported them.

    `requested` is set before the batch is created: if the answer is lost, the endpoint's list is searched for it.
    `output` and `errors` are the ids of the result files. `created` is in Unix seconds.
    """

    file: FileName
    attempt: int = 1
    file_id: str = ""
    requested: bool = False
    batch_id: str = ""
    status: str = ""
    done: int = 0
    failed: int = 0
    total: int = 0
    created: int = 0
    output: str = ""
    errors: str = ""
    problem: str = ""

    @property
    def ended(self) -> bool:
        """Whether the endpoint has finished with it."""
        return self.status in ENDED

    def downloads(self, folder: Path) -> list[tuple[str, Path]]:
        """Return the file ids at the endpoint that have results, with their local paths."""
        kinds = (("results", self.output), ("errors", self.errors))
        return [(file_id, folder / self.file.replace("requests", kind)) for kind, file_id in kinds if file_id]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The batches of an export at an endpoint, one for each request file."""

    id: str
    base_url: str
    batches: tuple[Batch, ...]


def save(path: Path, value: Export | State) -> None:
    """Write `export.json` or `batch.json`; it is on disk when this returns."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(value)), hint="make the folder writable")


def load_export(folder: Path) -> Export:
    """Read `export.json`; UsageError if it is missing, ArtefactError if it is damaged."""
    if not (folder / EXPORT).exists():
        raise UsageError(f"'{folder}' holds no export", hint="svr batch export FOLDER eval … writes one")
    return _load(folder / EXPORT, Export, EXPORT_AGAIN)


def load_state(folder: Path, export: Export) -> State | None:
    """Read `batch.json`; None if nothing was submitted, ArtefactError if it is damaged or of another export."""
    hint = "restore it, or find the batch ids at the endpoint: submitting again would pay twice"
    if not (folder / STATE).exists():
        return None
    state = _load(folder / STATE, State, hint)
    if state.id != export.id or [batch.file for batch in state.batches] != [file.name for file in export.files]:
        raise ArtefactError(f"{folder / STATE} belongs to another export", hint=hint)
    return state


def _load(path: Path, kind: type[T], hint: str) -> T:
    with storage_errors(f"read {path}"):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ArtefactError(f"{path} is damaged: {error}", hint=hint) from error


def unfinished(folder: Path) -> list[Path]:
    """Return the request files in `folder` that were submitted and whose results are not downloaded yet."""
    with contextlib.suppress(SvrError):
        state = load_state(folder, load_export(folder))
        return [
            folder / batch.file
            for batch in (state.batches if state else ())
            if (batch.batch_id or batch.requested)
            and not (batch.ended and all(path.exists() for _, path in batch.downloads(folder)))
        ]
    return []


@contextlib.contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the action."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {action}: {reason(error)}", hint="check the path and free space") from error


def batch_line(request: Request) -> bytes:
    """Return a request as a line of a batch file; its custom_id is the cache key in hex."""
    line = {"custom_id": request.key.hex(), "method": "POST", "url": request.wire.batch_url}
    return orjson.dumps({**line, "body": orjson.Fragment(request.body_bytes)}, option=orjson.OPT_APPEND_NEWLINE)


class RequestWriter:
    """Writes each request once and starts a new file at the limits; `finish` completes the last file.

    `keys` are the cache keys in hex.
    """

    def __init__(self, folder: Path, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self.keys: set[str] = set()
        self._folder = folder
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._files: list[RequestFile] = []
        self._file: IO[bytes] | None = None
        self._requests = 0
        for path in folder.glob("requests-*.jsonl"):  # of an export that did not finish
            path.unlink()

    def add(self, request: Request) -> bool:
        """Write a request; return False if it was written before."""
        if request.key.hex() in self.keys:
            return False
        line = batch_line(request)
        with storage_errors(f"write requests to {self._folder}"):
            file = self._file
            if file and (self._requests == self._max_requests or file.tell() + len(line) > self._max_bytes):
                self.finish()
            if self._file is None:
                self._file = (self._folder / self._name()).open("wb")
            self._file.write(line)
        self._requests += 1
        self.keys.add(request.key.hex())
        return True

    def finish(self) -> tuple[RequestFile, ...]:
        """Write the open file to disk and return all files."""
        if self._file is not None:
            with storage_errors(f"write requests to {self._folder}"), self._file as file:
                file.flush()
                os.fsync(file.fileno())
                self._files.append(RequestFile(name=self._name(), requests=self._requests, bytes=file.tell()))
            self._file, self._requests = None, 0
        return tuple(self._files)

    def _name(self) -> str:
        return f"requests-{len(self._files) + 1:04d}.jsonl"


def exported_keys(paths: Iterable[Path]) -> set[str]:
    """Return the cache keys of request files, in hex; ArtefactError if a file is damaged."""
    keys: set[str] = set()
    for path in paths:
        try:
            with storage_errors(f"read {path}"), path.open("rb") as lines:
                keys.update(bytes.fromhex(orjson.loads(line)["custom_id"]).hex() for line in lines)
        except (ValueError, KeyError, TypeError) as error:
            raise ArtefactError(f"{path} is damaged", hint=EXPORT_AGAIN) from error
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of a result file: the request it belongs to, and its reply or the reason why it is missing."""

    custom_id: str
    reply: Reply | None = None
    problem: str = ""


def read_line(data: bytes) -> Result:
    """Read a line as written by OpenAI, its clones, or `vllm run-batch`; ValueError or TypeError if it is damaged."""
    value = json_value(data)
    custom_id, response, error = value["custom_id"], value.get("response"), value.get("error")
    if not isinstance(custom_id, str) or not (isinstance(response, dict) or error):
        raise ValueError("not a result")
    response = response if isinstance(response, dict) else {"status_code": 0}
    if "choices" in response:  # some servers omit the envelope
        response = {"body": response}
    status = response.get("status_code", 200)
    status = status if type(status) is int and 0 < status < 1000 else 0
    nested = isinstance(error, dict) and "error" in error  # vLLM puts the error next to an empty body
    body = orjson.dumps(response.get("body") or (error if nested else {"error": error or "no body"}))
    try:
        reply = WIRE.read(body, status)
    except BadBodyError:
        reason = WIRE.error(body)
        code = str(error.get("code") or "") if isinstance(error, dict) else ""
        problem = f"{code or 'error'}: {reason.get('message') or 'no message'}"[:300]
        if status:
            problem = classify_status(status, {}, reason, body_preview="no chat completion").detail
        return Result(custom_id=custom_id, problem=problem)
    return Result(
        custom_id=custom_id,
        reply=msgspec.structs.replace(reply, usage=msgspec.structs.replace(reply.usage, batch=True)),
    )


class Results:
    """Replies of result files by cache key in hex, and counts of all lines by kind.

    The first complete reply to a request counts. Replies stay on disk; only their `positions` are in memory.
    `exported` are the keys of our requests: other lines are foreign.
    """

    def __init__(self, paths: Iterable[Path], exported: Collection[str]) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: set[str] = set()  # requests with an error and no reply
        self.messages: list[str] = []  # the first different error messages
        self.positions: dict[str, tuple[Path, int]] = {}
        self._exported = exported
        for path in paths:
            with storage_errors(f"read {path}"), path.open("rb") as file:
                offset = 0
                for data in file:
                    if data.strip():
                        self.counts[self._add(path, offset, data)] += 1
                    offset += len(data)

    def get(self, key: str) -> Reply | None:
        """Read the reply to a request; None if it is missing."""
        if key not in self.positions:
            return None
        path, offset = self.positions[key]
        with storage_errors(f"read {path}"), path.open("rb") as file:
            file.seek(offset)
            return read_line(file.readline()).reply

    def _add(self, path: Path, offset: int, data: bytes) -> str:
        try:
            result = read_line(data)
        except (ValueError, KeyError, TypeError, AttributeError):
            return "damaged"
        key = result.custom_id
        if key not in self._exported:
            return "foreign"
        if result.reply is not None:
            kind = "repeated" if key in self.positions else "reply"
            self.positions.setdefault(key, (path, offset))
            self.failed.discard(key)
            return kind
        if key not in self.positions:
            self.failed.add(key)
        if result.problem not in self.messages and len(self.messages) < MAX_MESSAGES:
            self.messages.append(result.problem)
        return "failed"
