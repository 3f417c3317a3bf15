"""Batch files: requests out, results in, submitted once; over real files and the simulated endpoint's batches."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig import Scripted, ask, completion, writer

from svr_async.engine.batch import submit as batch_submit
from svr_async.engine.batch.client import BatchClient, LostAnswerError, masked
from svr_async.engine.batch.folder import (
    Export,
    State,
    Submission,
    alone,
    awaited_beside,
    awaited_in,
    fresh_state,
    load_export,
    load_state,
    result_paths,
    save_export,
    save_state,
)
from svr_async.engine.batch.reader import BatchReader, CallCount, Readers
from svr_async.engine.batch.requests import BatchLimits, RequestFiles, batch_line, file_sha256
from svr_async.engine.batch.results import (
    MAX_LINE_BYTES,
    DamagedLineError,
    LineKind,
    ResultFiles,
    ResultLine,
    custom_ids,
    read_line,
)
from svr_async.engine.batch.submit import cancel, download, refresh, submit
from svr_async.engine.cache import Cache
from svr_async.engine.engine import CallEngine
from svr_async.engine.money import Price
from svr_async.engine.reply import BadBodyError, Reply
from svr_async.engine.request import CONTINGENT, Question, Request
from svr_async.engine.secrets import MASK, Secret
from svr_async.errors import (
    ArtefactError,
    AuthError,
    EndpointDownError,
    QuotaError,
    RefusedError,
    StorageError,
    UsageError,
)
from svr_async.evaluation.opinions import Case
from svr_async.evaluation.orders import OrderPolicy, Orders
from svr_async.evaluation.plan import Escalated, Seat
from svr_async.judges.model import ModelJudge
from svr_async.scoring.methods.fixed import Fixed
from svr_async.simulation.batches import BatchSettings
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import Order, PreferencePair, present, user_prompt
from svr_async.vocabulary.rubric import Rubric
from svr_async.vocabulary.verdict import Outcome

SENTINEL = "sk-sentinel-5e4d3c2b1a"


def requests(count: int) -> list[Request]:
    """Return different requests."""
    return [ask(f"question {number}").request for number in range(count)]


def body(text: str = "fine", **extra: Any) -> dict[str, Any]:
    """Return a chat completion's JSON."""
    made: dict[str, Any] = orjson.loads(completion(text, **extra).body)
    return made


def result(request: Request | str, content: Any = None, **changed: Any) -> bytes:
    """Return a result line as OpenAI writes it."""
    name = request if isinstance(request, str) else request.key.hex()
    response = {"status_code": 200, "request_id": "q", "body": body() if content is None else content}
    return orjson.dumps({"id": "b", "custom_id": name, "response": response, "error": None} | changed) + b"\n"


def write(folder: Path, *lines: bytes, name: str = "results-0001.jsonl") -> Path:
    """Write lines to a file."""
    path = folder / name
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., ResultFiles]]:
    """Return a function that opens lines as the results of some requests."""
    held: list[ResultFiles] = []

    def open_(asked: list[Request], *lines: bytes, secret: str = "") -> ResultFiles:
        path = write(tmp_path, *lines)
        held.append(ResultFiles.open([path], {request.key for request in asked}, Secret(secret)))
        return held[-1]

    yield open_
    for results in held:
        results.__exit__()


# --- requests out ----------------------------------------------------------------------------------------------------


def test_a_line_is_the_request_as_it_is_sent() -> None:
    """A line has the documented fields; its body is byte for byte what a live call sends, its name the cache key."""
    (request,) = requests(1)
    line = batch_line(request)
    value = orjson.loads(line)
    assert list(value) == ["custom_id", "method", "url", "body"]
    assert (value["custom_id"], value["method"], value["url"]) == (request.key.hex(), "POST", "/v1/chat/completions")
    assert request.body_bytes in line
    assert len(value["custom_id"]) == 64
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


def test_files_are_split_at_the_limits(tmp_path: Path) -> None:
    """No file has more requests or bytes than allowed; each request is written once; digests are those of the bytes."""
    made = requests(10)
    size = max(len(batch_line(request)) for request in made)
    for limits, count in ((BatchLimits(requests=4), 3), (BatchLimits(bytes=3 * size), 4)):
        folder = tmp_path / str(count)
        folder.mkdir()
        with RequestFiles(folder, limits) as files:
            added = [files.add(request) for request in made + made[:3]]
            written = files.finish()
        assert added == [True] * 10 + [False] * 3
        assert len(written) == count
        assert all(file.requests <= limits.requests and file.bytes <= limits.bytes for file in written)
        assert [file_sha256(folder / file.name) for file in written] == [file.sha256 for file in written]
        assert [(folder / file.name).stat().st_size for file in written] == [file.bytes for file in written]
        found = [key for file in written for key in custom_ids(folder / file.name)]
        assert found == [request.key for request in made]


def test_a_request_longer_than_a_file_is_left_out_and_counted(tmp_path: Path) -> None:
    """What no file can hold is not written, and said."""
    with RequestFiles(tmp_path, BatchLimits(bytes=1000)) as files:
        assert not files.add(ask("x" * 2000).request)
        assert files.add(ask("x").request)
        assert files.too_long == 1
        assert sum(file.requests for file in files.finish()) == 1


def test_an_export_that_fails_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """A file that was not finished is gone, finished ones are whole; the next export removes what is not its own."""

    def export_some() -> None:
        with RequestFiles(tmp_path, BatchLimits(requests=3)) as files:
            for request in requests(5):
                files.add(request)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        export_some()
    assert [path.name for path in tmp_path.iterdir()] == ["requests-0001.jsonl"]
    export_to(tmp_path, count=3, per_file=3)
    (tmp_path / "requests-0002.jsonl").write_bytes(b"left by a kill")
    export_to(tmp_path, count=3, per_file=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export.json", "requests-0001.jsonl"]


def test_the_digest_does_not_depend_on_the_order(tmp_path: Path) -> None:
    """The same set of requests has the same digest, however it came; a dry run writes nothing."""
    made = requests(6)
    with RequestFiles(tmp_path, dry=True) as one, RequestFiles(tmp_path, dry=True) as other:
        for request, last in zip(made, reversed(made), strict=True):
            one.add(request)
            other.add(last)
    assert one.digest == other.digest
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    """One line says which folder."""
    with pytest.raises(StorageError, match="nowhere"), RequestFiles(tmp_path / "nowhere") as files:
        files.add(requests(1)[0])


# --- result lines ----------------------------------------------------------------------------------------------------

ERROR = {"message": "too long", "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"response": {"status_code": 400, "body": {"error": ERROR}}, "error": None}, 400, "HTTP 400: too long"),
        ({"response": None, "error": {"code": "batch_expired", "message": "late"}}, 0, "batch_expired: late"),
        ({"response": {"status_code": 400, "body": None}, "error": {"error": ERROR}}, 400, "HTTP 400: too long"),
        ({"response": {"status_code": 400, "body": None}, "error": ERROR}, 400, "HTTP 400: too long"),
        ({"error": "it broke"}, 0, "error: it broke"),
        ({"response": {"status_code": 429, "body": {}}}, 429, "HTTP 429: no chat completion"),
        ({"response": {"status_code": "200", "body": {}}}, 0, "error: no message"),
        ({"response": {"status_code": 200, "body": "<html>"}}, 200, "HTTP 200: no chat completion"),
    ],
)
def test_failures_are_read_in_every_shape_that_writers_use(fields: dict[str, Any], status: int, says: str) -> None:
    """OpenAI's error files, those of clones, and vLLM's, which puts the error beside an empty body."""
    line = read_line(orjson.dumps({"custom_id": "c"} | fields))
    assert (line.status, line.failure()) == (status, says)
    with pytest.raises(BadBodyError):
        line.reply()


@pytest.mark.parametrize(
    "response",
    [
        {"status_code": 200, "request_id": "r", "body": body("hi")},
        {"request_id": "r", "body": body("hi")},
        body("hi"),
    ],
)
def test_replies_are_read_with_and_without_their_envelope(response: dict[str, Any]) -> None:
    """OpenAI's shape, vLLM's, and that of writers who leave the envelope out give the same reply as over HTTP."""
    line = read_line(orjson.dumps({"id": "x", "custom_id": "c", "response": response, "error": None}))
    assert (line.custom_id, line.reply().text, line.reply().usage.prompt_tokens) == ("c", "hi", 100)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"custom_id": 3, "response": {}}', b'{"response": {}}',
        b'{"custom_id": "c"}', b'{"custom_id": "c", "response": [1], "error": null}',
        b'{"custom_id":' + b"[" * 200_000, b'{"custom_id": "c", "response": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    ],
)  # fmt: skip
def test_damaged_lines_are_told_apart(data: bytes) -> None:
    """Cut, binary, wrongly typed or deeply nested lines are damaged, and nothing else happens."""
    with pytest.raises(DamagedLineError):
        read_line(data)


KEYS = ["custom_id", "response", "error", "body", "status_code", "choices", "message", "content", "code", "usage"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 600) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(value=st.fixed_dictionaries({"custom_id": st.text(max_size=5), "response": json_values, "error": json_values}))
def test_any_json_is_a_reply_a_failure_or_damaged(value: dict[str, Any]) -> None:
    """Whatever stands in a line, reading it gives one of three things."""
    try:
        line = read_line(orjson.dumps(value))
    except DamagedLineError:
        return
    try:
        assert isinstance(line.reply().text, str)
    except BadBodyError:
        assert isinstance(line.failure(), str)


# --- result files ----------------------------------------------------------------------------------------------------


def test_results_come_in_any_order_with_gaps_repeats_and_strangers(opened: Callable[..., ResultFiles]) -> None:
    """Each line is sorted for itself; the first complete reply to a request counts, whatever else there is."""
    made = requests(6)
    late = {"response": None, "error": {"code": "batch_expired", "message": "late"}}
    broken = {"status_code": 500, "body": {"error": {"message": "oops"}}}
    results = opened(
        made,
        result(made[3]),
        result(made[1], response=broken),
        b"{ not json\n",
        result("f" * 64),
        result("short"),
        b"\n",
        result(made[0], body("first")),
        result(made[0], body("first")),
        result(made[0], body("second")),
        result(made[1], body("after a failure")),
        result(made[3], response=broken),
        result(made[4], **late),
    )
    assert results.tally.counts == {
        LineKind.REPLY: 3,
        LineKind.FAILED: 2,
        LineKind.DAMAGED: 1,
        LineKind.FOREIGN: 2,
        LineKind.REPEATED: 1,
        LineKind.CONFLICTING: 1,
        LineKind.EXPIRED: 1,
    }
    texts = {place: reply.text for place, request in enumerate(made) if (reply := results.get(request.key))}
    assert texts == {0: "first", 1: "after a failure", 3: "fine"}
    assert results.failed == {made[4].key: LineKind.EXPIRED}
    assert results.tally.details[LineKind.FAILED] == ["HTTP 500: oops"]
    assert (made[2].key in results, len(results)) == (False, 3)


def test_a_cut_last_line_costs_only_itself(opened: Callable[..., ResultFiles]) -> None:
    """A download that was cut in its last line gives all the others."""
    made = requests(3)
    lines = b"".join(result(request) for request in made)
    results = opened(made, lines[:-40])
    assert len(results) == 2
    assert results.tally.counts[LineKind.DAMAGED] == 1


def test_a_line_of_100_mb_is_passed_over_without_being_held(tmp_path: Path) -> None:
    """It is counted as damaged, the lines after it are read, and memory stays within a few lines' worth."""
    made = requests(2)
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(result(made[0]))
        file.seek(100 * 2**20, os.SEEK_CUR)  # a hole: zeros without the time to write them
        file.write(b"\n" + result(made[1]))
    tracemalloc.start()
    with ResultFiles.open([path], {request.key for request in made}) as results:
        peak = tracemalloc.get_traced_memory()[1]
        assert all(results.get(request.key) for request in made)
    tracemalloc.stop()
    assert results.tally.counts == {LineKind.REPLY: 2, LineKind.DAMAGED: 1}
    assert peak < 3 * MAX_LINE_BYTES


def test_memory_is_flat_in_the_size_of_the_replies(tmp_path: Path) -> None:
    """20 MB of replies to 5,000 requests are indexed in well under 4 MB: places are kept, not replies."""
    made = requests(5000)
    path = write(tmp_path, *(result(request, body("x" * 4000)) for request in made))
    own = {request.key for request in made}
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    with ResultFiles.open([path], own) as results:
        peak = tracemalloc.get_traced_memory()[1]
        assert len(results) == 5000
        assert results.get(made[-1].key) is not None
    tracemalloc.stop()
    assert peak < 4_000_000


def test_an_echoed_key_is_masked(opened: Callable[..., ResultFiles]) -> None:
    """Where an endpoint echoes the API key, neither replies nor words about failures hold it."""
    made = requests(2)
    broken = {"status_code": 500, "body": {"error": {"message": f"bad header Bearer {SENTINEL}"}}}
    results = opened(made, result(made[0], body(f"key {SENTINEL}")), result(made[1], response=broken), secret=SENTINEL)
    reply = results.get(made[0].key)
    assert reply is not None
    assert reply.text == f"key {MASK}"
    assert SENTINEL not in repr(results.tally)


def test_a_file_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    """One line names it."""
    with pytest.raises(StorageError, match=r"none\.jsonl"):
        ResultFiles.open([tmp_path / "none.jsonl"], set())


# --- through the engine ----------------------------------------------------------------------------------------------


def _never(request: Request, number: int) -> Any:
    raise AssertionError(f"call {number} was sent: {request.messages}")


async def _import(
    cache: Path, results: ResultFiles, questions: list[Question[str]]
) -> tuple[list[bool], list[Any], list[Question[str]], Any]:
    """Ask questions of an engine that may send nothing, keep what answers them."""
    missing: list[Question[str]] = []
    async with CallEngine(Scripted(_never), Cache.open(cache)) as engine:
        reader = BatchReader(engine, results, on_missing=missing.append)
        done = [await engine.complete(question) for question in questions]
        readers = Readers((reader,), results)
        kept = await readers.keep()
        told = [readers.answered(question.request.key) for question in questions]
    return told, done, missing, kept


async def test_only_answers_are_kept(cache_folder: Path, opened: Callable[..., ResultFiles]) -> None:
    """Replies that cannot be read, are cut off, refused or missing stay out of the cache and are told of."""
    questions = [ask(f"question {number}") for number in range(6)]
    made = [question.request for question in questions]
    results = opened(
        made,
        result(made[0], body("good")),
        result(made[1], body("bad")),
        result(made[2], body("cut", finish="length")),
        result(made[3], body("no", finish="content_filter")),
        result(made[5], body("unasked")),
    )
    answered, done, missing, kept = await _import(cache_folder, results, [*questions[:5], *questions[:5]])
    assert [one.value for one in done[:5]] == ["good", None, None, None, None]
    assert {one.outcome for one in done[1:5]} == {Outcome.API_ERROR}
    assert [question.request for question in missing] == made[1:5] * 2
    assert answered == ([True] + [False] * 4) * 2
    assert (kept.new, kept.unreadable, kept.unasked, kept.known) == (2, 3, 1, 0)
    cache = Cache.open(cache_folder)
    texts = [reply and reply.text for reply in map(cache.get, [request.key for request in made])]
    cache.close()
    assert texts == ["good", None, None, None, None, "unasked"]


async def test_a_reply_from_a_batch_is_the_reply_of_a_live_call(
    cache_folder: Path, tmp_path: Path, opened: Callable[..., ResultFiles]
) -> None:
    """The cache's rows are the same but for the mark of how they were bought, whichever way the completion came."""
    question = ask("the same")
    results = opened([question.request], result(question.request, body("answer", system_fingerprint="f")))
    await _import(cache_folder, results, [question])
    scripted = Scripted(lambda _request, _number: completion("answer", system_fingerprint="f"))
    async with CallEngine(scripted, Cache.open(tmp_path / "live")) as engine:
        await engine.complete(question)
    rows = []
    for folder in (cache_folder, tmp_path / "live"):
        cache = Cache.open(folder)
        reply = cache.get(question.request.key)
        cache.close()
        assert reply is not None
        rows.append(reply)
    assert [reply.usage.batch for reply in rows] == [True, False]
    assert replace(rows[0], usage=rows[1].usage) == rows[1]
    assert replace(rows[0].usage, batch=False) == rows[1].usage


async def test_importing_again_changes_nothing(cache_folder: Path, opened: Callable[..., ResultFiles]) -> None:
    """The second import finds every reply in the cache; a live reply is never replaced by a batch's."""
    questions = [ask(f"question {number}") for number in range(3)]
    made = [question.request for question in questions]
    first = opened(made, *(result(request, body("one")) for request in made))
    await _import(cache_folder, first, questions)
    second = opened(made, *(result(request, body("two")) for request in made))
    answered, done, missing, kept = await _import(cache_folder, second, questions)
    assert [one.value for one in done] == ["one"] * 3
    assert (missing, kept.new, kept.known) == ([], 0, 3)
    assert answered == [True] * 3


def test_a_batch_is_half_the_price() -> None:
    """Dollars of a plan are half of what the same tokens cost live; unknown without a price."""
    planned = CallCount(calls=1, prompt_tokens=1_000_000, completion_tokens=500_000, max_completion_tokens=2_000_000)
    price = Price(input=2.0, cached=1.0, output=8.0)
    assert planned.dollars(price) == 0.5 * (2.0 + 4.0)
    assert planned.dollars(price, worst=True) == 0.5 * (2.0 + 16.0)
    assert planned.dollars(None) is None


# --- the folder ------------------------------------------------------------------------------------------------------


def export_to(folder: Path, count: int = 6, per_file: int = 2, body_model: str = "m") -> Export:
    """Export requests to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with RequestFiles(folder, BatchLimits(requests=per_file)) as files:
        for request in requests(count):
            files.add(replace(request, model=body_model))
        export = Export(
            command=("eval", "pairs"),
            judge="j",
            model=body_model,
            base_url="http://127.0.0.1:1/v1",
            key_env="",
            version="0",
            created="now",
            digest=files.digest,
            files=files.finish(),
            plan={},
        )
    save_export(folder, export)
    return export


def test_an_export_is_read_back(tmp_path: Path) -> None:
    """What was saved is loaded; the state of an untouched export has a submission for each file."""
    export = export_to(tmp_path)
    assert load_export(tmp_path, checked=True) == export
    assert load_state(tmp_path, export) is None
    state = fresh_state(export, export.base_url, "24h")
    save_state(tmp_path, state)
    assert load_state(tmp_path, export) == state
    assert [one.file for one in state.batches] == [file.name for file in export.files]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: b"[]",
        lambda data: data.replace(b'"format": 1', b'"format": 9'),
        lambda data: data.replace(b'"command"', b'"comand"'),
        lambda data: data.replace(b"requests-0001", b"../requests-1"),
        lambda data: data.replace(b'"sha256"', b'"sha265"'),
        lambda data: data.replace(b"127.0.0.1:1", b"[2J"),
    ],
)
def test_a_damaged_export_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Exit 7 with one line, whatever is wrong with export.json; no path outside the folder is ever named by it."""
    export_to(tmp_path)
    path = tmp_path / "export.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ArtefactError, match=r"export\.json"):
        load_export(tmp_path)


def test_changed_requests_are_refused(tmp_path: Path) -> None:
    """Requests that are not those that were exported are not submitted, nor are missing ones."""
    export_to(tmp_path)
    path = tmp_path / "requests-0002.jsonl"
    path.write_bytes(path.read_bytes().replace(b"question", b"answer??"))
    with pytest.raises(ArtefactError, match="changed"):
        load_export(tmp_path, checked=True)
    path.unlink()
    with pytest.raises(ArtefactError, match="cannot be read"):
        load_export(tmp_path, checked=True)


def test_a_state_of_another_export_is_refused(tmp_path: Path) -> None:
    """Ids of other batches, or a damaged batch.json, are never taken for ours: that would pay twice or mix replies."""
    export = export_to(tmp_path)
    state = fresh_state(export, export.base_url, "24h")
    save_state(tmp_path, replace(state, digest="0" * 64))
    with pytest.raises(ArtefactError, match="another export"):
        load_state(tmp_path, export)
    save_state(tmp_path, replace(state, batches=state.batches[:1]))
    with pytest.raises(ArtefactError, match="another export"):
        load_state(tmp_path, export)
    for damaged in (replace(state, base_url="http://[2J]/v1"), replace(state, base_url="http://a:b@h/v1")):
        save_state(tmp_path, damaged)
        with pytest.raises(ArtefactError, match="damaged"):
            load_state(tmp_path, export)
    (tmp_path / "batch.json").write_bytes(b'{"format": 1, "batches": [{}]}')
    with pytest.raises(ArtefactError, match="damaged"):
        load_state(tmp_path, export)


def test_requests_whose_results_are_to_come_are_known_beside_a_folder(tmp_path: Path) -> None:
    """A file is awaited from when its batch is asked for until its results are here; damage elsewhere is no bar."""
    export = export_to(tmp_path / "one", count=2)
    state = fresh_state(export, export.base_url, "24h")
    for changed, waits in (
        ({}, False),
        ({"asking": True}, True),
        ({"batch_id": "b", "status": "in_progress"}, True),
        ({"batch_id": "b", "status": "completed", "output": "f"}, True),
        ({"batch_id": "b", "status": "failed"}, False),
    ):
        save_state(tmp_path / "one", state.with_batch(replace(state.batches[0], **changed)))
        assert [path.parent.name for path in awaited_beside(tmp_path / "two")] == ["one"] * waits
        assert len(awaited_in(tmp_path / "one")) == waits
        assert awaited_beside(tmp_path / "one") == []
    done = replace(state.batches[0], batch_id="b", status="completed", output="f")
    save_state(tmp_path / "one", state.with_batch(done))
    (tmp_path / "one" / "results-0001.jsonl").write_bytes(b"")
    assert awaited_beside(tmp_path / "two") == []
    (tmp_path / "one" / "batch.json").write_bytes(b"{")
    assert awaited_beside(tmp_path / "two") == []


def test_one_process_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    """A second one is refused with one line; the hold ends with its holder."""
    with alone(tmp_path), pytest.raises(UsageError, match="another svr batch"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
    with pytest.raises(StorageError), alone(tmp_path / "none"):
        pass
    with pytest.raises(BlockingIOError, match="a full pipe"), alone(tmp_path):
        raise BlockingIOError("a full pipe")


def test_requests_of_others_are_no_requests_of_ours(tmp_path: Path) -> None:
    """A line without a cache key is told apart."""
    for data in (b"{}\n", b'{"custom_id": "r1"}\n', b"[", b'{"custom_id": "' + b"z" * 64 + b'"}'):
        with pytest.raises(DamagedLineError):
            list(custom_ids(write(tmp_path, data)))


async def test_nothing_is_asked_for_sure_on_a_margin_that_lacks_rubrics(cache_folder: Path) -> None:
    """A judge that left a rubric out is asked for it again; until that is answered another judge is only a maybe."""
    url, rubrics = "http://127.0.0.1:9/v1", [Rubric(text=f"Rubric {number} holds.") for number in range(3)]
    asked: list[tuple[str, bool]] = []
    judges, readers = [], []

    def missing(name: str, _: object) -> None:
        asked.append((name, CONTINGENT.get()))

    for name in ("small", "big"):
        engine = CallEngine(Scripted(lambda *_: completion("no")), Cache.open(cache_folder))
        judges.append(ModelJudge(engine, writer(url, name=name, model=name), name))
        readers.append(BatchReader(engine, on_missing=partial(missing, name)))
    pair = PreferencePair(id="x", prompt=user_prompt("q"), chosen="a", rejected="b")
    question = judges[0].writer.compare(present(pair, Order.AB), rubrics, overall=False)
    nonce = question.request.messages[1][1].split("<<svr:")[1].split(":")[0]
    verdicts = {"candidate_a_verdict": "pass", "candidate_b_verdict": "pass"}
    rows = [{"rubric_id": f"R{place}", **verdicts, "better": side} for place, side in ((1, "A"), (2, "B"))]
    text = orjson.dumps({"nonce": nonce, "rubric_comparisons": rows}).decode()
    await judges[0].engine.cache.put(question.request.key, Reply(text=text))
    seats = [Seat(judge=one, orders=Orders(policy=OrderPolicy.AB, audit=0.0), name=one.name) for one in judges]
    case = Case(
        pair=pair,
        method=Fixed(tuple(zip(rubrics, (0.1, 0.1, 5.0), strict=True))),
        guessed=lambda found: any(not one.told.isdisjoint(found.requests) for one in readers),
    )
    await Escalated(first=seats[0], then=seats[1], below=0.5).decide(case)
    for judge in judges:
        await judge.engine.close()
    assert dict(asked) == {"small": False, "big": True}


# --- at the endpoint -------------------------------------------------------------------------------------------------


@pytest.fixture
async def sim() -> AsyncIterator[SimServer]:
    """Serve a simulated endpoint that wants a key."""
    async with SimServer(SimConfig(api_key=SENTINEL)) as server:
        yield server


def contents(folder: Path) -> list[bytes]:
    """Return the bytes of all files of a folder."""
    return [path.read_bytes() for path in folder.iterdir()]


def client_of(sim: SimServer, key: str = SENTINEL, **more: Any) -> BatchClient:
    """Return a client with short waits."""
    return BatchClient(sim.base_url, Secret(key), **{"first_wait_s": 0.001, "attempts": 3, **more})


async def done(sim: SimServer, folder: Path, state: State, client: BatchClient) -> State:
    """Look at batches until all have ended."""
    while not all(one.ended for one in state.batches):
        await asyncio.sleep(0)
        state = await refresh(folder, state, client)
    return state


async def test_every_file_is_submitted_once(sim: SimServer, tmp_path: Path) -> None:
    """Submitting again asks for nothing; results are downloaded once, and are those of the requests."""
    export = export_to(tmp_path, body_model="gpt-oss-120b")
    state = fresh_state(export, sim.base_url, "24h")
    async with client_of(sim) as client:
        state = await submit(tmp_path, state, client)
        assert await submit(tmp_path, state, client) == state
        loaded = load_state(tmp_path, export)
        assert loaded is not None
        assert (await submit(tmp_path, loaded, client)).batches == state.batches
        state = await done(sim, tmp_path, state, client)
        assert len(await download(tmp_path, state, client)) == 3
        assert await download(tmp_path, state, client) == []
    assert len(sim.batches.batches) == len(export.files) == 3
    assert [(one.status, one.done, one.total) for one in state.batches] == [("completed", 2, 2)] * 3
    own = {key for file in export.files for key in custom_ids(tmp_path / file.name)}
    with ResultFiles.open(result_paths(tmp_path), own) as results:
        assert set(results) == own
    assert not any(SENTINEL.encode() in data for data in contents(tmp_path))


@pytest.mark.parametrize("stop", range(1, 10))
async def test_a_submission_that_stops_anywhere_goes_on_without_a_second_batch(
    sim: SimServer, tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before any of the nine writes of its state, the same command ends with one batch a file, each its own."""
    export = export_to(tmp_path, body_model="gpt-oss-120b")
    left = [stop]

    def save(folder: Path, state: State) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        save_state(folder, state)

    monkeypatch.setattr(batch_submit, "save_state", save)
    async with client_of(sim) as client:
        with pytest.raises(KeyboardInterrupt):
            await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client)
        state = load_state(tmp_path, export) or fresh_state(export, sim.base_url, "24h")
        state = await submit(tmp_path, state, client, look_every_s=0.0)
    assert len(sim.batches.batches) == 3
    assert {one.batch_id for one in state.batches} == set(sim.batches.batches)
    inputs = {batch.id: sim.batches.files[batch.input_file].data for batch in sim.batches.batches.values()}
    assert [hashlib.sha256(inputs[one.batch_id]).hexdigest() for one in state.batches] == [
        file.sha256 for file in export.files
    ]


async def test_a_lost_answer_is_looked_up(tmp_path: Path) -> None:
    """Where the endpoint began a batch and the answer was cut, the batch is found in its list and not asked again."""
    settings_ = BatchSettings(lost_answers=2)
    async with SimServer(batch=settings_) as sim, client_of(sim, key="") as client:
        for number in range(120):  # others' batches: the list has more than one page
            file = sim.batches.add_file(f"{number}", "batch", b"{}")
            asked = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
            sim.batches.create(asked | {"metadata": {"svr_export": "other"}})
        export = export_to(tmp_path)
        state = await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client, look_every_s=0.0)
        assert len(sim.batches.batches) == 120 + 3
        assert {one.batch_id for one in state.batches} <= set(sim.batches.batches)
        assert not any(one.asking for one in state.batches)


class Forgetful(BatchClient):
    """A client of an endpoint that answers one submission too late, refuses the next, and lists batches late."""

    def __init__(self, inner: BatchClient) -> None:
        self.inner, self.script, self.listed = inner, ["lost", "refused"], False

    async def upload(self, path: Path) -> str:
        return await self.inner.upload(path)

    async def find(self, mark: Mapping[str, str]) -> dict[str, Any] | None:
        return await self.inner.find(mark) if self.listed else None

    async def create(self, file_id: str, window: str, mark: Mapping[str, str]) -> dict[str, Any]:
        step = self.script.pop(0) if self.script else ""
        if step == "refused":
            raise QuotaError("the account is empty")
        made = await self.inner.create(file_id, window, mark)
        if step == "lost":
            raise LostAnswerError("the connection was cut")
        return made


async def test_a_lost_answer_is_looked_up_after_a_refusal_too(sim: SimServer, tmp_path: Path) -> None:
    """A submission that may be there is looked for by the next command, although the one after it was refused."""
    export = export_to(tmp_path, body_model="gpt-oss-120b")
    async with client_of(sim) as inner:
        client = Forgetful(inner)
        with pytest.raises(QuotaError):
            await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client, look_every_s=0.0)
        client.listed = True
        state = load_state(tmp_path, export)
        assert state is not None
        state = await submit(tmp_path, state, client, look_every_s=0.0)
    assert len(sim.batches.batches) == len(export.files)
    assert {one.batch_id for one in state.batches} == set(sim.batches.batches)


async def test_a_batch_that_failed_as_a_whole_is_asked_anew_only_on_request(tmp_path: Path) -> None:
    """`again` renews a file whose batch failed with nothing done, under another mark; the others are left."""
    async with SimServer(batch=BatchSettings(most_lines=2)) as sim, client_of(sim, key="") as client:
        export = export_to(tmp_path, count=5, per_file=3, body_model="gpt-oss-120b")
        state = await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client)
        state = await done(sim, tmp_path, state, client)
        assert [one.status for one in state.batches] == ["failed", "completed"]
        assert "Enqueued request limit" in state.batches[0].problem
        assert (await submit(tmp_path, state, client)).batches == state.batches
        sim.batches.settings = BatchSettings()
        state = await submit(tmp_path, state, client, again=True)
        state = await done(sim, tmp_path, state, client)
    assert [one.status for one in state.batches] == ["completed", "completed"]
    assert state.batches[0].tries == 1
    assert len(sim.batches.batches) == 3


async def test_batches_can_be_cancelled(tmp_path: Path) -> None:
    """Cancelling ends what has not ended; files of what is left can be downloaded."""
    async with SimServer(batch=BatchSettings(held=True)) as sim, client_of(sim, key="") as client:
        export = export_to(tmp_path)
        state = await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client)
        state = await done(sim, tmp_path, await cancel(tmp_path, state, client), client)
        assert {one.status for one in state.batches} == {"cancelled"}
        assert [path.name for path in await download(tmp_path, state, client)] == [
            f"errors-000{number}.jsonl" for number in (1, 2, 3)
        ]


async def test_a_refused_key_stops_at_once(sim: SimServer, tmp_path: Path) -> None:
    """Exit 4, and nothing of it is taken for submitted; the right key then submits."""
    export = export_to(tmp_path)
    async with client_of(sim, key="sk-wrong") as client:
        with pytest.raises(AuthError):
            await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client)
    async with client_of(sim) as client:
        await submit(tmp_path, fresh_state(export, sim.base_url, "24h"), client)
    assert len(sim.batches.batches) == 3


async def test_an_endpoint_without_batches_says_so(sim: SimServer, tmp_path: Path) -> None:
    """A 404 names the way without such an endpoint; an endpoint that is down is exit 6."""
    (tmp_path / "f").write_bytes(b"{}\n")
    async with BatchClient(f"{sim.base_url}/elsewhere", Secret(SENTINEL), first_wait_s=0.0) as client:
        with pytest.raises(RefusedError, match="404") as refused:
            await client.upload(tmp_path / "f")
    assert "vllm run-batch" in refused.value.hint
    await sim.go_down()
    async with client_of(sim) as client:
        with pytest.raises(EndpointDownError):
            await client.retrieve("batch_1")
        with pytest.raises(LostAnswerError):
            await client.create("file-1", "24h", {})


@contextlib.asynccontextmanager
async def endpoint(answer: Callable[[web.Request], web.Response]) -> AsyncIterator[str]:
    """Serve one function at every address; yields the base URL."""

    async def handle(http: web.Request) -> web.Response:
        await http.read()
        return answer(http)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def test_an_endpoint_that_echoes_the_key_finds_it_written_nowhere(tmp_path: Path) -> None:
    """The key is masked in the state, in downloaded files and in errors, whatever repeats it."""

    def echo(http: web.Request) -> web.Response:
        said = http.headers["Authorization"]
        if http.path.endswith("/content"):
            return web.Response(text=f'{{"custom_id": "x", "error": "{said}"}}\n')
        if http.path.endswith("/cancel"):
            return web.json_response({"error": {"message": said}}, status=400)
        errors = {"data": [{"message": said}]}
        return web.json_response({"id": "b-1", "status": "completed", "errors": errors, "error_file_id": "f-1"})

    export = export_to(tmp_path, count=1)
    async with endpoint(echo) as url, BatchClient(url, Secret(SENTINEL)) as client:
        state = await submit(tmp_path, fresh_state(export, url, "24h"), client)
        await download(tmp_path, state, client)
        with pytest.raises(RefusedError) as refused:
            await client.cancel("b-1")
    assert state.batches[0].problem == f"Bearer {MASK}"
    assert MASK in refused.value.one_line()
    assert SENTINEL not in refused.value.one_line()
    assert MASK.encode() in (tmp_path / "errors-0001.jsonl").read_bytes()
    assert not any(SENTINEL.encode() in data for data in contents(tmp_path))


def counted(folder: Path, url: str, lines: int) -> State:
    """Return the state of one batch that has ended, of which the endpoint counts so many replies."""
    state = fresh_state(export_to(folder, count=1), url, "24h")
    ended = replace(state.batches[0], batch_id="b-1", status="completed", done=lines, output="f-1")
    return state.with_batch(ended)


async def test_a_download_that_was_cut_off_is_not_kept(tmp_path: Path) -> None:
    """Without a length nothing else tells: a file that ends within a line is exit 6 and fetched again later on."""
    replies = [b'{"custom_id": "x"}\n{"custom', b'{"custom_id": "x"}\n{"custom_id": "y"}\n']
    async with endpoint(lambda _: web.Response(body=replies.pop(0))) as url, BatchClient(url, Secret("")) as client:
        state = counted(tmp_path, url, 2)
        with pytest.raises(EndpointDownError, match="cut off in line 2"):
            await download(tmp_path, state, client)
        assert result_paths(tmp_path) == ()
        assert [path.read_bytes().count(b"\n") for path in await download(tmp_path, state, client)] == [2]


@pytest.mark.parametrize("second", [2, 1])
async def test_a_download_with_too_few_lines_is_fetched_once_more(tmp_path: Path, second: int) -> None:
    """Whole lines but fewer than the endpoint counts: asked again at once; where it stays so, its count is wrong."""
    replies = [b'{"custom_id": "x"}\n', b'{"custom_id": "x"}\n' * second]
    async with endpoint(lambda _: web.Response(body=replies.pop(0))) as url, BatchClient(url, Secret("")) as client:
        (made,) = await download(tmp_path, counted(tmp_path, url, 2), client)
    assert (made.read_bytes().count(b"\n"), replies) == (second, [])


async def test_what_fails_for_the_moment_is_tried_again(tmp_path: Path) -> None:
    """503, 429 and nonsense are outlasted when uploading and looking; a redirect, or a page, is no answer."""
    replies = [
        web.Response(status=503),
        web.Response(status=429, headers={"Retry-After": "0"}),
        web.json_response({"id": "file-1"}),
        web.Response(text="<html>"),
        web.json_response({"id": "batch-1", "status": "in_progress"}),
        web.Response(status=307, headers={"Location": "http://127.0.0.1:9/"}),
        web.json_response([]),
    ]
    (tmp_path / "f").write_bytes(b"{}\n")
    async with (
        endpoint(lambda _: replies.pop(0)) as url,
        BatchClient(url, Secret(""), first_wait_s=0.001) as client,
    ):
        assert await client.upload(tmp_path / "f") == "file-1"
        assert (await client.retrieve("batch-1"))["status"] == "in_progress"
        for says in ("redirects", "no object"):
            with pytest.raises(RefusedError) as refused:
                await client.retrieve("batch-1")
            assert says in refused.value.one_line()
    assert replies == []


@settings(deadline=None, max_examples=200)
@given(
    parts=st.lists(st.sampled_from(["abababab", "abab", "ab", "a", "b", "k"]), max_size=20),
    cuts=st.lists(st.integers(1, 9), max_size=30),
)
def test_a_key_is_masked_however_the_stream_is_cut(parts: list[str], cuts: list[int]) -> None:
    """A download has the key masked also where it is split over pieces, and every other byte as it came."""
    key, text = "abababab", "".join(parts)
    data, pieces = text.encode(), []
    while data:
        size = cuts.pop() if cuts else 3
        pieces.append(data[:size])
        data = data[size:]

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def joined() -> bytes:
        return b"".join([piece async for piece in masked(stream(), Secret(key))])

    assert asyncio.run(joined()).decode() == text.replace(key, MASK)


def test_the_state_of_a_batch_is_read_with_care() -> None:
    """Whatever an endpoint says of a batch, counts are numbers and ids are fit for a URL, or are left out."""
    known = Submission(file="requests-0001.jsonl", sha256="0", batch_id="batch_1")
    odd = {
        "id": "../../etc",
        "status": None,
        "request_counts": [1],
        "output_file_id": "file/../x",
        "error_file_id": 7,
        "errors": {"data": ["x"]},
        "created_at": -1,
    }
    seen = batch_submit.seen(known, odd)
    assert (seen.batch_id, seen.status, seen.done, seen.output, seen.errors) == ("batch_1", "unknown", 0, "", "")
    with pytest.raises(LostAnswerError):
        batch_submit.seen(replace(known, batch_id=""), odd)
    assert ResultLine(custom_id="c", status=0, body=b"{}").failure() == "error: no message"
