"""Batch files: requests out, results in, submitted once; over real files and the simulated endpoint's batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import orjson
import pytest
from aiohttp import web
from endpoint import SimConfig, SimServer
from rig import Scripted, ask, completion, serving_routes

from svr_async.engine import batch_api
from svr_async.engine.batch_api import BatchClient, fetch, submit
from svr_async.engine.batch_files import (
    EXPORT,
    STATE,
    Batch,
    Export,
    RequestWriter,
    Results,
    State,
    batch_line,
    exported_keys,
    load_export,
    load_state,
    read_line,
    save,
)
from svr_async.engine.cache import Cache
from svr_async.engine.engine import CallEngine
from svr_async.engine.request import Question, Request
from svr_async.engine.secrets import MASK, Secret
from svr_async.errors import ArtefactError, RefusedError
from svr_async.judges.batch import BatchRun, Imported, Opened, Unanswered, import_results
from svr_async.judges.open_judge import OpenJudge
from svr_async.simulation.wire import ApiError

SENTINEL = "sk-sentinel-5e4d3c2b1a"
MODEL = "gpt-oss-120b"


def requests(count: int) -> list[Request]:
    """Return different requests."""
    return [msgspec.structs.replace(ask(f"question {number}").request, model=MODEL) for number in range(count)]


def body(text: str = "fine", **extra: Any) -> dict[str, Any]:
    """Return a chat completion's JSON."""
    made: dict[str, Any] = orjson.loads(completion(text, **extra).body)
    return made


def result(request: Request | str, content: Any = None, **changed: Any) -> bytes:
    """Return a result line as OpenAI writes it."""
    name = request if isinstance(request, str) else request.key.hex()
    response = {"status_code": 200, "request_id": "q", "body": body() if content is None else content}
    return orjson.dumps({"id": "b", "custom_id": name, "response": response, "error": None} | changed) + b"\n"


def results_of(folder: Path, asked: list[Request], *lines: bytes) -> Results:
    """Write lines to a file and read it as the results of some requests."""
    path = folder / "results.jsonl"
    path.write_bytes(b"".join(lines))
    return Results([path], {request.key.hex() for request in asked})


# --- requests out ----------------------------------------------------------------------------------------------------


def test_files_are_split_at_the_limits(tmp_path: Path) -> None:
    """No file exceeds a limit, each request is written once, and files of an unfinished export are removed."""
    made = requests(10)
    size = max(len(batch_line(request)) for request in made)
    for max_requests, max_bytes, count in ((4, 10**9, 3), (10**9, 3 * size, 4)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "requests-0009.jsonl").write_bytes(b"from an export that was killed")
        writer_ = RequestWriter(folder, max_requests=max_requests, max_bytes=max_bytes)
        assert [writer_.add(request) for request in made + made[:3]] == [True] * 10 + [False] * 3
        files = writer_.finish()
        assert len(files) == count
        assert all(file.requests <= max_requests and file.bytes <= max_bytes for file in files)
        assert {path.name: path.stat().st_size for path in folder.iterdir()} == {one.name: one.bytes for one in files}
        assert exported_keys(folder / one.name for one in files) == {request.key.hex() for request in made}


# --- results in ------------------------------------------------------------------------------------------------------

ERROR = {"message": "too long", "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"response": {"status_code": 400, "body": {"error": ERROR}}, "error": None}, "HTTP 400: too long"),
        ({"response": None, "error": {"code": "batch_expired", "message": "late"}}, "batch_expired: late"),
        ({"response": {"status_code": 400, "body": None}, "error": {"error": ERROR}}, "HTTP 400: too long"),
        ({"response": {"status_code": 400, "body": None}, "error": ERROR}, "HTTP 400: too long"),
        ({"error": "it broke"}, "error: it broke"),
        ({"response": {"status_code": 429, "body": {}}}, "HTTP 429: no body"),
        ({"response": {"status_code": "200", "body": {}}}, "error: no body"),
        ({"response": {"status_code": 200, "body": "<html>"}}, "HTTP 200: no chat completion"),
    ],
)
def test_failures_are_read_in_every_shape_that_writers_use(fields: dict[str, Any], says: str) -> None:
    """OpenAI's error files, those of clones, and vLLM's, which has the error next to an empty body."""
    line = read_line(orjson.dumps({"custom_id": "c"} | fields))
    assert (line.reply, line.problem) == (None, says)


@pytest.mark.parametrize(
    "response",
    [{"status_code": 200, "request_id": "r", "body": body("hi")}, {"request_id": "r", "body": body("hi")}, body("hi")],
)
def test_replies_are_read_with_and_without_their_envelope(response: dict[str, Any]) -> None:
    """OpenAI's shape, vLLM's, and that without an envelope give the reply of a live call, marked as a batch's."""
    reply = read_line(orjson.dumps({"id": "x", "custom_id": "c", "response": response, "error": None})).reply
    assert reply is not None
    assert (reply.text, reply.usage.prompt_tokens, reply.usage.batch) == ("hi", 100, True)


DAMAGED = [
    b"null", b"[]", b"{", b"\xff\xfe", b'{"custom_id": 3, "response": {}}', b'{"response": {}}', b'{"custom_id": "c"}',
    b'{"custom_id": "c", "response": [1], "error": null}',
    b'{"custom_id": "c", "response": {"body": ' + b'{"a":' * 5000 + b"1" + b"}" * 5002,
]  # fmt: skip


def test_lines_come_in_any_order_and_each_costs_only_itself(tmp_path: Path) -> None:
    """The first complete reply to a request counts; repeated, foreign, damaged and cut lines are counted."""
    made = requests(6)
    late = {"response": None, "error": {"code": "batch_expired", "message": "late"}}
    broken = {"status_code": 500, "body": {"error": {"message": "oops"}}}
    results = results_of(
        tmp_path,
        made,
        result(made[3]),
        result(made[1], response=broken),
        b"".join(line + b"\n" for line in DAMAGED),
        result("f" * 64),
        result("short"),
        b"\n",
        result(made[0], body("first")),
        result(made[0], body("second")),
        result(made[1], body("after a failure")),
        result(made[3], response=broken),
        result(made[4], **late),
        result(made[5])[:-40],
    )
    counts = {"reply": 3, "failed": 3, "damaged": len(DAMAGED) + 1, "foreign": 2, "repeated": 1}
    assert results.counts == counts
    texts = {place: reply.text for place, one in enumerate(made) if (reply := results.get(one.key.hex()))}
    assert texts == {0: "first", 1: "after a failure", 3: "fine"}
    assert (results.failed, results.messages) == ({made[4].key.hex()}, ["HTTP 500: oops", "batch_expired: late"])


# --- import ----------------------------------------------------------------------------------------------------------


class FakeRun:
    """A run that asks some questions; it must not send anything."""

    profiles = ()
    staged = False

    def __init__(self, cache: Path, questions: list[Question[str]]) -> None:
        self.cache, self.questions = cache, questions

    async def open(self) -> Opened:
        """Open an engine that cannot send."""
        engine = CallEngine(Scripted(_never), Cache.open(self.cache))
        return cast("Opened", SimpleNamespace(judges=(judge_on(engine),), close=engine.close))

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask all questions."""
        for question in self.questions:
            assert opened.judges[0].engine is not None
            await opened.judges[0].engine.complete(question)


def _never(request: Request, number: int) -> Any:
    raise AssertionError(f"call {number} was sent: {request.messages}")


def judge_on(engine: CallEngine) -> OpenJudge:
    """Return an open judge that is only an engine."""
    return OpenJudge(judge=cast("Any", None), engine=engine, prompts={})


def imported(cache: Path, results: Results, questions: list[Question[str]]) -> tuple[Imported, list[str | None]]:
    """Import results; return the report and the texts that the cache then has."""
    exported = {question.request.key.hex() for question in questions}
    report = import_results(cast("BatchRun", FakeRun(cache, questions)), results, exported, "j")
    opened = Cache.open(cache)
    replies = [opened.get(question.request.key) for question in questions]
    opened.close()
    return report, [None if reply is None else reply.text for reply in replies]


def test_only_answers_are_stored(cache_folder: Path, tmp_path: Path) -> None:
    """Unreadable, cut off and refused replies are counted but not stored; a later reply takes their place."""
    questions = [ask(f"question {number}") for number in range(6)]
    made = [question.request for question in questions]
    bad = (result(made[1], body("bad")), result(made[2], body("cut", finish="length")))
    refused = result(made[3], body("no", finish="content_filter"))
    broken = result(made[4], response={"status_code": 500, "body": None})
    results = results_of(tmp_path, made, result(made[0], body("good")), *bad, refused, broken)
    report, texts = imported(cache_folder, results, questions)
    assert (report.answered, report.new, report.unreadable, report.failed, report.missing) == (1, 1, 3, 1, 1)
    assert texts == ["good", None, None, None, None, None]
    later = results_of(tmp_path, made, *(result(request, body(f"later {n}")) for n, request in enumerate(made)))
    report, texts = imported(cache_folder, later, questions)
    assert (report.answered, report.new, report.known, report.next_stage) == (6, 5, 1, 0)
    assert texts == ["good", "later 1", "later 2", "later 3", "later 4", "later 5"]


def test_paid_replies_are_stored_although_the_run_asks_other_questions(cache_folder: Path, tmp_path: Path) -> None:
    """Replies that are no longer asked for are stored; questions that were not exported are the next stage."""
    questions = [ask(f"question {number}") for number in range(3)]
    results = results_of(tmp_path, [questions[0].request], result(questions[0].request))
    run = cast("BatchRun", FakeRun(cache_folder, questions[1:]))
    report = import_results(run, results, {questions[0].request.key.hex()}, "j")
    assert (report.answered, report.new, report.unused, report.next_stage) == (1, 1, 1, 2)


# --- the folder ------------------------------------------------------------------------------------------------------


def export_to(folder: Path, count: int = 6, per_file: int = 2) -> Export:
    """Export requests to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = RequestWriter(folder, max_requests=per_file)
    for request in requests(count):
        files.add(request)
    url = "http://127.0.0.1:1/v1"
    export = Export(id="e" * 32, command=("eval",), judge="j", base_url=url, key_env="", files=files.finish())
    save(folder / EXPORT, export)
    return export


def fresh(export: Export, url: str = "http://127.0.0.1:1/v1") -> State:
    """Return the state of an export before its submission."""
    return State(id=export.id, base_url=url, batches=tuple(Batch(file=file.name) for file in export.files))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (EXPORT, b"}", b""),
        (EXPORT, b'"command"', b'"comand"'),
        (EXPORT, b'"key_env": ""', b'"key_env": {}'),
        (EXPORT, b"requests-0001", b"../requests-1"),
        (EXPORT, b'"eval"', b""),
        (STATE, b'"done": 0', b'"done": "0"'),
        (STATE, b"requests-0001.jsonl", b"requests-0001.jsonl\\u0000"),
        (STATE, b"requests-0001", b"requests-0007"),
        (STATE, b"eeee", b"ffff"),
        ("requests-0001.jsonl", b"custom_id", b"custom"),
        ("requests-0001.jsonl", b'"custom_id":"', b'"custom_id":"z'),
    ],
)
def test_damaged_folders_are_refused(tmp_path: Path, name: str, good: bytes, bad: bytes) -> None:
    """One line names the file; a folder from elsewhere names no path outside itself."""
    save(tmp_path / STATE, fresh(export_to(tmp_path)))
    path = tmp_path / name
    data = path.read_bytes()
    path.write_bytes(data.replace(good, bad))
    assert path.read_bytes() != data
    with pytest.raises(ArtefactError, match=name):
        exported_keys(tmp_path / file.name for file in load_export(tmp_path).files) and load_state(
            tmp_path, load_export(tmp_path)
        )


# --- at the endpoint -------------------------------------------------------------------------------------------------


@pytest.fixture
async def sim() -> AsyncIterator[SimServer]:
    """Serve a simulated endpoint that wants a key."""
    async with SimServer(SimConfig(api_key=SENTINEL)) as server:
        yield server


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_api, "ATTEMPTS", 3)
    monkeypatch.setattr(batch_api, "FIRST_POLL_S", 0.001)


def contents(folder: Path) -> list[bytes]:
    """Return the bytes of all files of a folder."""
    return [path.read_bytes() for path in folder.iterdir()]


def client_of(url: str | SimServer, key: str = SENTINEL) -> BatchClient:
    """Return a client with short waits."""
    return BatchClient(url if isinstance(url, str) else url.base_url, Secret(key), first_wait_s=0.001)


async def submitted(folder: Path, state: State, client: BatchClient) -> State:
    """Submit with short waits."""
    return await submit(folder, state, client, look_every_s=0.0)


async def done(folder: Path, state: State, client: BatchClient) -> State:
    """Wait until all batches have ended, and download their results."""
    return await fetch(folder, state, client, wait=True, on_state=lambda _: None)


async def test_every_file_is_submitted_once(sim: SimServer, tmp_path: Path) -> None:
    """Submitting again creates nothing; results are downloaded once, and belong to the requests."""
    export = export_to(tmp_path)
    async with client_of(sim) as client:
        state = await submitted(tmp_path, fresh(export), client)
        loaded = load_state(tmp_path, export)
        assert loaded == state
        ids = [one.batch_id for one in state.batches]
        assert [one.batch_id for one in (await submitted(tmp_path, state, client)).batches] == ids
        state = await done(tmp_path, state, client)
        paths = [tmp_path / f"results-000{number}.jsonl" for number in (1, 2, 3)]
        times = [path.stat().st_mtime_ns for path in paths]
        await done(tmp_path, state, client)
        assert [path.stat().st_mtime_ns for path in paths] == times
    assert len(sim.batches.batches) == len(export.files) == len(paths) == 3
    assert [(one.status, one.done, one.total) for one in state.batches] == [("completed", 2, 2)] * 3
    keys = exported_keys(tmp_path / file.name for file in export.files)
    assert set(Results(paths, keys).positions) == keys
    assert not any(SENTINEL.encode() in data for data in contents(tmp_path))


@pytest.mark.parametrize("stop", range(1, 7))
async def test_a_submission_that_stops_anywhere_continues_without_a_second_batch(
    sim: SimServer, tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before any of the six writes of its state, the same command ends with one batch for each file."""
    export = export_to(tmp_path)
    left = [stop]

    def stopping_save(path: Path, state: State) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        save(path, state)

    monkeypatch.setattr(batch_api, "save", stopping_save)
    async with client_of(sim) as client:
        with pytest.raises(KeyboardInterrupt):
            await submitted(tmp_path, fresh(export), client)
        state = await submitted(tmp_path, load_state(tmp_path, export) or fresh(export), client)
    assert len(sim.batches.batches) == 3
    inputs = {name: sim.batches.files[batch["input_file_id"]] for name, batch in sim.batches.batches.items()}
    assert [inputs[one.batch_id] for one in state.batches] == [
        (tmp_path / file.name).read_bytes() for file in export.files
    ]


async def test_a_lost_answer_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the endpoint created a batch and its answer was lost, the batch is found in the list."""
    async with SimServer() as sim, client_of(sim, key="") as client:
        create = sim.batches.create
        for number in range(120):  # batches of others: the list has more than one page
            file = sim.batches.add_file(f"{number}".encode())
            wanted = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
            create(wanted | {"metadata": {"svr_export": "other"}})
        lost = 2

        def losing(asked: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal lost
            batch, lost = create(asked), lost - 1
            if lost >= 0:
                raise ApiError(503, "the gateway lost the answer")
            return batch

        monkeypatch.setattr(sim.batches, "create", losing)
        state = await submitted(tmp_path, fresh(export_to(tmp_path)), client)
        assert len(sim.batches.batches) == 120 + 3
        assert {one.batch_id for one in state.batches} <= set(sim.batches.batches)
        assert not any(one.requested for one in state.batches)


def endpoint(answer: Callable[[web.Request], web.Response]) -> AbstractContextManager[str]:
    """Serve one function at every address; yields the address."""

    async def handle(http: web.Request) -> web.Response:
        await http.read()
        return answer(http)

    return serving_routes(web.route("*", "/{path:.*}", handle))


async def test_an_echoed_key_is_written_nowhere(tmp_path: Path) -> None:
    """The key is masked in the state, in downloads and in errors."""

    def echo(http: web.Request) -> web.Response:
        header = http.headers["Authorization"]
        if http.path.endswith("/content"):
            return web.Response(text=f'{{"custom_id": "x", "error": "{header}"}}\n')
        if http.path.endswith("/b-2"):
            return web.json_response({"error": {"message": header}}, status=400)
        errors = {"data": [{"message": header}]}
        return web.json_response({"id": "b-1", "status": "completed", "errors": errors, "error_file_id": "f-1"})

    with endpoint(echo) as url:
        async with client_of(f"{url}/v1") as client:
            state = await done(tmp_path, await submitted(tmp_path, fresh(export_to(tmp_path, count=1)), client), client)
            with pytest.raises(RefusedError) as refused:
                await client.retrieve("b-2")
    assert state.batches[0].problem == f"Bearer {MASK}"
    assert MASK in refused.value.one_line()
    assert MASK.encode() in (tmp_path / "errors-0001.jsonl").read_bytes()
    assert not any(SENTINEL.encode() in data for data in [*contents(tmp_path), refused.value.one_line().encode()])


async def test_temporary_failures_are_retried(tmp_path: Path) -> None:
    """503, 429 and nonsense are retried for uploads and reads; a redirect is refused."""
    replies = [
        web.Response(status=503),
        web.Response(status=429, headers={"Retry-After": "0"}),
        web.json_response({"id": "file-1"}),
        web.Response(text="<html>"),
        web.json_response([]),
        web.json_response({"id": "batch-1", "status": "in_progress"}),
        web.Response(status=307, headers={"Location": "http://127.0.0.1:9/"}),
    ]
    (tmp_path / "f").write_bytes(b"{}\n")
    with endpoint(lambda _: replies.pop(0)) as url:
        async with client_of(f"{url}/v1") as client:
            assert await client.upload(tmp_path / "f") == "file-1"
            assert (await client.retrieve("batch-1"))["status"] == "in_progress"
            with pytest.raises(RefusedError, match="307"):
                await client.retrieve("batch-1")
    assert replies == []
