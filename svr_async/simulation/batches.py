"""Files and batches of the endpoint, as the Batch API of OpenAI documents them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import BodyPartReader, web

from svr_async.errors import ConfigError
from svr_async.simulation.damage import HTML, error_of, reset
from svr_async.simulation.faults import Fault, Stage
from svr_async.simulation.refusals import ApiError, refuse_settings
from svr_async.simulation.service import CallRecord, Service
from svr_async.simulation.world import draw_bytes

ENDPOINT = "/v1/chat/completions"
WINDOW = "24h"
WINDOW_S = 24 * 3600
MAX_REQUESTS = 50_000
MAX_FILE_BYTES = 200_000_000
MAX_ID_CHARS = 64
MAX_METADATA = 16
LINES_AT_ONCE = 64
EXPIRED = {"code": "batch_expired", "message": "The window of the batch closed before this request was answered."}
CANCELLED = {"code": "batch_cancelled", "message": "The batch was cancelled before this request was answered."}
LOST = {"code": "server_error", "message": "The server had an error while it answered this request."}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How the endpoint treats batches. By default they are done at once; results come in another order than asked.

    `most_lines` is the longest file it takes. `answered` lines are answered before the window closes, −1 for all.
    `seconds` is how long a batch stays in progress; with `held` it stays so until `Batches.release`. `lost_answers`
    is how often a batch is begun without the caller being told.
    """

    shuffle: bool = True
    most_lines: int = MAX_REQUESTS
    answered: int = -1
    seconds: float = 0.0
    held: bool = False
    lost_answers: int = 0

    def __post_init__(self) -> None:
        if self.most_lines < 1:
            raise ConfigError(f"most_lines must be >= 1 (got {self.most_lines})")
        if self.seconds < 0:
            raise ConfigError(f"seconds must be >= 0 (got {self.seconds})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file at the endpoint."""

    id: str
    name: str
    purpose: str
    created: int
    data: bytes

    def payload(self) -> dict[str, Any]:
        """Return the file object."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.data),
            "created_at": self.created,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


@dataclass(slots=True, kw_only=True)
class Batch:
    """A batch at the endpoint. `times` are Unix seconds by state, e.g. `completed_at`."""

    id: str
    input_file: str
    metadata: dict[str, str] | None
    created: int
    status: str = "validating"
    total: int = 0
    completed: int = 0
    failed: int = 0
    output_file: str | None = None
    error_file: str | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def become(self, status: str) -> None:
        """Change the state and note when."""
        self.status = status
        self.times[f"{status}_at"] = int(time.time())

    def payload(self) -> dict[str, Any]:
        """Return the batch object."""
        states = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": ENDPOINT,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file,
            "completion_window": WINDOW,
            "status": self.status,
            "output_file_id": self.output_file,
            "error_file_id": self.error_file,
            "created_at": self.created,
            "expires_at": self.created + WINDOW_S,
            **{f"{state}_at": self.times.get(f"{state}_at") for state in states},
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "metadata": self.metadata,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One request of a batch."""

    custom_id: str
    body: Any


class Batches:
    """Files and batches of one endpoint. `clock` gives seconds since its start, for the history."""

    def __init__(self, service: Service, clock: Callable[[], float], settings: BatchSettings | None = None) -> None:
        self.settings = settings or BatchSettings()
        self.files: dict[str, StoredFile] = {}
        self.batches: dict[str, Batch] = {}
        self.answers_to_lose = self.settings.lost_answers
        self._service = service
        self._clock = clock

    def reset(self) -> None:
        """Forget all files and batches, those under way too."""
        self.release()
        self.files.clear()
        self.batches.clear()

    def release(self) -> None:
        """Let all batches that are held go on."""
        for batch in self.batches.values():
            batch.may_go_on.set()

    def add_file(self, name: str, purpose: str, data: bytes) -> StoredFile:
        """Keep an uploaded file, or one of results; `ApiError` where it is none for a batch."""
        if purpose not in {"batch", "batch_output"}:
            raise ApiError.bad_request(f"purpose has to be batch (got {purpose!r})")
        if purpose == "batch" and len(data) > MAX_FILE_BYTES:
            raise ApiError.bad_request(f"the file is larger than {MAX_FILE_BYTES} bytes")
        made = StoredFile(
            id=self._name("file", len(self.files)), name=name, purpose=purpose, created=int(time.time()), data=data
        )
        self.files[made.id] = made
        return made

    def file(self, file_id: str) -> StoredFile:
        """Return a file; `ApiError` where there is none."""
        if file_id not in self.files:
            raise _missing("file", file_id)
        return self.files[file_id]

    def create(self, asked: Any) -> Batch:
        """Begin a batch; `ApiError` says what of the request is wrong."""
        asked = asked if isinstance(asked, dict) else {}
        if asked.get("endpoint") != ENDPOINT:
            raise ApiError.bad_request(f"endpoint has to be {ENDPOINT} (got {asked.get('endpoint')!r})")
        if asked.get("completion_window") != WINDOW:
            raise ApiError.bad_request(f"completion_window has to be {WINDOW}")
        source = self.files.get(str(asked.get("input_file_id")))
        if source is None or source.purpose != "batch":
            raise ApiError.bad_request("input_file_id names no file that was uploaded for a batch")
        metadata = _metadata(asked.get("metadata"))
        made = Batch(
            id=self._name("batch", len(self.batches)),
            input_file=source.id,
            metadata=metadata,
            created=int(time.time()),
        )
        if not self.settings.held:
            made.may_go_on.set()
        self.batches[made.id] = made
        return made

    def batch(self, batch_id: str) -> Batch:
        """Return a batch; `ApiError` where there is none."""
        if batch_id not in self.batches:
            raise _missing("batch", batch_id)
        return self.batches[batch_id]

    def page(self, limit: int, after: str) -> dict[str, Any]:
        """Return a page of the list of batches, the newest first."""
        newest = list(reversed(self.batches.values()))
        places = {batch.id: place for place, batch in enumerate(newest)}
        start = places[self.batch(after).id] + 1 if after else 0
        rows = newest[start : start + limit]
        ends = {"first_id": rows[0].id, "last_id": rows[-1].id} if rows else {"first_id": None, "last_id": None}
        more = len(newest) > start + limit
        return {"object": "list", "data": [batch.payload() for batch in rows], **ends, "has_more": more}

    def cancel(self, batch_id: str) -> Batch:
        """Begin to end a batch; `ApiError` where it has ended."""
        batch = self.batch(batch_id)
        if batch.status not in {"validating", "in_progress", "finalizing"}:
            raise ApiError(409, f"a batch that is {batch.status} cannot be cancelled", kind="conflict", code=None)
        batch.become("cancelling")
        batch.may_go_on.set()
        return batch

    async def work(self, batch: Batch) -> None:
        """Take a batch from validation to its end."""
        source = self.files[batch.input_file]
        lines, batch.errors = read_lines(source.data, self.settings.most_lines)
        batch.total = len(lines)
        if batch.errors:
            batch.become("failed")
            return
        if batch.status != "cancelling":
            batch.become("in_progress")
        await batch.may_go_on.wait()
        await asyncio.sleep(self.settings.seconds)
        done, left = await self._answer(batch, lines)
        ending = self._ending(batch, left)
        if ending == "completed":
            batch.become("finalizing")
        self._write(batch, done, left, CANCELLED if ending == "cancelled" else EXPIRED)
        batch.become(ending)

    def _ending(self, batch: Batch, left: list[Line]) -> str:
        if batch.status == "cancelling":
            return "cancelled"
        return "expired" if left else "completed"

    async def _answer(self, batch: Batch, lines: list[Line]) -> tuple[list[dict[str, Any]], list[Line]]:
        """Answer lines until all are, the window closes or the batch is cancelled; return results and what is left."""
        most = len(lines) if self.settings.answered < 0 else self.settings.answered
        results: list[dict[str, Any]] = []
        for line in lines:
            if len(results) >= most or batch.status == "cancelling":
                break
            results.append(self._result(batch, line))
            if len(results) % LINES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return results, lines[len(results) :]

    def _result(self, batch: Batch, line: Line) -> dict[str, Any]:
        """Answer one line as a live call is answered, and keep its record."""
        record = CallRecord(t=round(self._clock(), 6), key="")
        try:
            response, error = self._answered(line, record)
        except ApiError as refused:
            record.status = refused.status
            record.fault = record.fault or refused.code or refused.kind
            response, error = {"status_code": refused.status, "body": refused.payload()}, None
        finally:
            self._service.history.end(record)
        good = response is not None and response["status_code"] == 200
        batch.completed += good
        batch.failed += not good
        return self._row(batch, line, response, error)

    def _answered(self, line: Line, record: CallRecord) -> tuple[dict[str, Any] | None, dict[str, str] | None]:
        service = self._service
        chat = service.simulator.read(line.body)
        record.key = chat.key
        if service.config.reasoning:
            refuse_settings(line.body)
        if service.config.quota and service.paid >= service.config.quota:
            raise ApiError.no_quota()
        record.attempt = service.history.begin(record.key)
        fault = service.fault_of(chat, record)
        if fault is not None and fault.stage in (Stage.STATUS, Stage.FINAL):
            raise error_of(fault, service.config.faults)
        record.status = fault.status if fault else 200
        if fault is not None and not fault.paid:
            return _without_work(fault)
        worked = service.work(chat, fault, record)
        if fault is not None and fault.stage is Stage.WIRE:
            return None, LOST
        record.completed = fault is None or fault.stage is Stage.BENIGN
        return {"status_code": 200, "body": worked.reply}, None

    def _write(self, batch: Batch, results: list[dict[str, Any]], left: list[Line], why: Mapping[str, str]) -> None:
        """Write the results that are replies to one file, the rest and what is left to another."""
        good = [row for row in results if row["response"] and row["response"]["status_code"] == 200]
        bad = [row for row in results if not (row["response"] and row["response"]["status_code"] == 200)]
        bad += [self._row(batch, line, None, dict(why)) for line in left]
        if self.settings.shuffle:
            random.Random(f"{batch.id}|order").shuffle(good)  # noqa: S311  (an order, not a secret)
        if good:
            batch.output_file = self.add_file(f"{batch.id}_output.jsonl", "batch_output", _lines(good)).id
        if bad:
            batch.error_file = self.add_file(f"{batch.id}_error.jsonl", "batch_output", _lines(bad)).id

    def _row(
        self, batch: Batch, line: Line, response: dict[str, Any] | None, error: dict[str, str] | None
    ) -> dict[str, Any]:
        mark = draw_bytes(batch.id, line.custom_id).hex()
        if response is not None:
            response = {"status_code": response["status_code"], "request_id": mark, "body": response["body"]}
        return {"id": f"batch_req_{mark}", "custom_id": line.custom_id, "response": response, "error": error}

    def _name(self, kind: str, number: int) -> str:
        return f"{kind}-{draw_bytes(self._service.config.seed, kind, number).hex()[:24]}".replace("batch-", "batch_")


def read_lines(data: bytes, most: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """Read a file of requests; return its lines and what is wrong with it, in the words of validation errors."""
    lines: list[Line] = []
    errors: list[dict[str, Any]] = []
    known: set[str] = set()
    for number, row in enumerate(data.splitlines(), 1):
        problem = _check(row, known)
        if isinstance(problem, Line):
            lines.append(problem)
            known.add(problem.custom_id)
        else:
            errors.append({"code": problem[0], "message": problem[1], "param": None, "line": number})
    if not lines and not errors:
        errors.append({"code": "empty_file", "message": "The input file is empty.", "param": None, "line": None})
    if len(lines) > most:
        message = f"Enqueued request limit reached: the file has {len(lines)} requests, {most} are allowed."
        errors.append({"code": "token_limit_exceeded", "message": message, "param": None, "line": None})
    return lines, errors


def _check(row: bytes, known: set[str]) -> Line | tuple[str, str]:
    try:
        value = orjson.loads(row)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        return "invalid_json_line", "This line is not parseable as a JSON object."
    custom_id, url = value.get("custom_id"), value.get("url")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_ID_CHARS:
        return "invalid_custom_id", f"The custom_id has to be a text of at most {MAX_ID_CHARS} characters."
    rules = (
        (custom_id not in known, ("duplicate_custom_id", f"The custom_id {custom_id} was used before.")),
        (value.get("method") == "POST", ("invalid_method", "The method has to be POST.")),
        (url == ENDPOINT, ("mismatched_url", f"The URL {url!r} does not match the batch's endpoint {ENDPOINT}.")),
    )
    broken = next((problem for kept, problem in rules if not kept), None)
    return broken or Line(custom_id, value.get("body"))


def _without_work(fault: Fault) -> tuple[dict[str, Any] | None, dict[str, str] | None]:
    if fault.name == "html":
        return {"status_code": 200, "body": HTML.decode()}, None
    if fault.name == "error-200":
        return {"status_code": 200, "body": ApiError.server(500, "Upstream failed.").payload()}, None
    return None, LOST


def _metadata(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise ApiError.bad_request(f"metadata has to be an object of at most {MAX_METADATA} entries")
    if not all(len(key) <= 64 and isinstance(text, str) and len(text) <= 512 for key, text in value.items()):
        raise ApiError.bad_request("metadata has keys of at most 64 characters and texts of at most 512")
    return value


def _missing(what: str, name: str) -> ApiError:
    return ApiError(404, f"No such {what}: {name[:80]}", kind="invalid_request_error", code=None)


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


MOST_ON_A_PAGE = 100
USUAL_ON_A_PAGE = 20
Answer = Callable[[web.Request], Awaitable[web.Response]]


class BatchRoutes:
    """Serves the files and batches of one endpoint. `check` raises the `ApiError` for a wrong key."""

    def __init__(self, batches: Batches, check: Callable[[str], None]) -> None:
        self._batches = batches
        self._check = check
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, each behind the check of the key."""
        table: list[tuple[str, str, Answer]] = [
            ("POST", "/v1/files", self._upload),
            ("GET", "/v1/files/{id}", self._file),
            ("GET", "/v1/files/{id}/content", self._content),
            ("POST", "/v1/batches", self._create),
            ("GET", "/v1/batches", self._list),
            ("GET", "/v1/batches/{id}", self._retrieve),
            ("POST", "/v1/batches/{id}/cancel", self._cancel),
        ]
        return [web.route(method, path, self._guarded(answer)) for method, path, answer in table]

    async def close(self) -> None:
        """Stop work on batches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _guarded(self, answer: Answer) -> Answer:
        async def guarded(http: web.Request) -> web.Response:
            try:
                self._check(http.headers.get("Authorization", ""))
                return await answer(http)
            except ApiError as error:
                return _json(error.payload(), error.status)

        return guarded

    async def _upload(self, http: web.Request) -> web.Response:
        if not http.content_type.startswith("multipart/"):
            raise ApiError.bad_request("files are uploaded as multipart/form-data")
        purpose, name, data = "", "", None
        async for part in await http.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            if part.name == "purpose":
                purpose = (await part.text())[:100]
            elif part.name == "file":
                name, data = part.filename or "file", await _content(part)
        if data is None:
            raise ApiError.bad_request("there is no file in the form")
        return _json(self._batches.add_file(name, purpose, data).payload())

    async def _file(self, http: web.Request) -> web.Response:
        return _json(self._found(http).payload())

    async def _content(self, http: web.Request) -> web.Response:
        return web.Response(body=self._found(http).data, content_type="application/octet-stream")

    def _found(self, http: web.Request) -> StoredFile:
        return self._batches.file(http.match_info["id"])

    async def _create(self, http: web.Request) -> web.Response:
        try:
            asked = orjson.loads(await http.read())
        except orjson.JSONDecodeError as error:
            raise ApiError.bad_request(f"the body is not JSON: {error}") from error
        batch = self._batches.create(asked)
        begun = _json(batch.payload())
        task = asyncio.create_task(self._batches.work(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._batches.answers_to_lose:
            self._batches.answers_to_lose -= 1
            if isinstance(http.transport, asyncio.Transport):
                reset(http.transport)
        return begun

    async def _list(self, http: web.Request) -> web.Response:
        limit = http.query.get("limit", str(USUAL_ON_A_PAGE))
        if not limit.isdecimal() or not 1 <= int(limit) <= MOST_ON_A_PAGE:
            raise ApiError.bad_request(f"limit has to be from 1 to {MOST_ON_A_PAGE}")
        return _json(self._batches.page(int(limit), http.query.get("after", "")))

    async def _retrieve(self, http: web.Request) -> web.Response:
        return _json(self._batches.batch(http.match_info["id"]).payload())

    async def _cancel(self, http: web.Request) -> web.Response:
        return _json(self._batches.cancel(http.match_info["id"]).payload())


async def _content(part: BodyPartReader) -> bytes:
    pieces, size = [], 0
    while piece := await part.read_chunk(2**16):
        size += len(piece)
        if size > MAX_FILE_BYTES:
            raise ApiError.bad_request(f"the file is larger than {MAX_FILE_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
