"""Rows 1 to 23 of the fault table that no other test carries: network and transport. See `rows.py` for the rest."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from certificates import Authority
from rig import (
    ask,
    completion,
    engine_at,
    judge_at,
    name_judge,
    run_python,
    scripted_engine,
    serving,
    verdict,
    write_bench,
)

from svr_async.engine.engine import Completion
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.http import CLIENTS, lean, on_aiohttp, transport
from svr_async.engine.request import Request
from svr_async.errors import EndpointDownError, RefusedError
from svr_async.simulation.config import SimConfig
from svr_async.simulation.wire import reset
from svr_async.vocabulary.pair import Presentation, Side, user_prompt
from svr_async.vocabulary.rubric import Rubric
from svr_async.vocabulary.verdict import Outcome

HTTP_CLIENTS = (on_aiohttp, lean)  # loaded here, so that their constants can be set
GOOD = b'{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
Answer = Callable[[int, asyncio.StreamWriter], Awaitable[None]]
both_clients = pytest.mark.usefixtures("client")


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with each of the HTTP clients."""
    monkeypatch.setenv("SVR_HTTP", request.param)


def set_everywhere(monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """Set a constant of the engine in every module that has taken it over."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("svr_async.engine.") and hasattr(module, name):
            monkeypatch.setattr(module, name, value)


def trust(monkeypatch: pytest.MonkeyPatch, authority: Authority) -> None:
    """Have both clients trust an authority, as a system does that has it installed."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", ssl.create_default_context())


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one HTTP request and return its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(size)


@asynccontextmanager
async def raw_server(answer: Answer, *, unread: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve connections by a function of (number of the connection, writer); yields the address, without a scheme.

    The first `unread` connections are answered without the question having been read.
    """
    count = 0

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal count
        number, count = count, count + 1
        try:
            if number >= unread:
                await read_request(reader)
            await answer(number, out)
            await out.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def good(_: int, out: asyncio.StreamWriter) -> None:
    """Answer well."""
    out.write(WHOLE)


class Resolver:
    """Stands in for name resolution: fails with `error` while `failing()` says so, else gives loopback."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: Callable[[int], bool], error: int) -> None:
        self.asked = 0
        self._failing, self._error, self._real = failing, error, socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host: Any, port: Any, *args: Any, **named: Any) -> Any:
        """Answer like `socket.getaddrinfo`."""
        if host != "judge.test":
            return self._real(host, port, *args, **named)
        self.asked += 1
        if self._failing(self.asked - 1):
            raise socket.gaierror(self._error, "made to fail")
        return self._real("127.0.0.1", port, *args, **named)


async def test_row_002_unknown_host_at_the_start(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that does not exist ends the run with exit 4 and the host in the line, after one look or two."""
    resolver = Resolver(monkeypatch, lambda _: True, socket.EAI_NONAME)
    async with engine_at("http://judge.test/v1", cache_folder) as engine:
        with pytest.raises(RefusedError, match=r"judge\.test") as caught:
            await engine.complete(ask())
    assert caught.value.exit_code == 4
    assert resolver.asked <= 2


@both_clients
async def test_row_003_names_that_fail_to_resolve_now_and_then(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver that fails for a while costs tries; every question is answered."""
    resolver = Resolver(monkeypatch, lambda number: number < 5, socket.EAI_AGAIN)
    async with raw_server(good) as address:
        port = address.split(":")[1]
        async with engine_at(f"http://judge.test:{port}", cache_folder) as engine:
            found = await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(20)))
            assert {one.value for one in found} == {"yes"}
            assert engine.stats().lost == 0
    assert resolver.asked > 5


@both_clients
async def test_row_004_a_black_hole_that_opens(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that nobody accepts is given up after its own short time and tried again."""
    set_everywhere(monkeypatch, "CONNECT_TIMEOUT_S", 0.2)
    hole = socket.socket()
    hole.bind(("127.0.0.1", 0))
    hole.listen(0)
    port = hole.getsockname()[1]
    fillers = [_filler(port) for _ in range(4)]
    async with engine_at(f"http://127.0.0.1:{port}/v1", cache_folder) as engine:
        task = asyncio.create_task(engine.complete(ask()))
        while engine.stats().retries < 1:  # noqa: ASYNC110  (the engine has no event for it)
            await asyncio.sleep(0.01)
        for filler in fillers:
            filler.close()
        hole.setblocking(False)

        async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
            try:
                await read_request(reader)
                out.write(WHOLE)
                await out.drain()
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                out.close()

        async with await asyncio.start_server(serve, sock=hole, backlog=64):
            assert (await task).value == "yes"


def _filler(port: int) -> socket.socket:
    """Take a place in the queue of connections that wait to be accepted."""
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", port))
    return one


CERTIFICATES = {"self-signed": "self", "expired": "expired", "of another host": "elsewhere"}


@both_clients
@pytest.mark.parametrize("kind", CERTIFICATES.values(), ids=list(CERTIFICATES))
async def test_row_005_certificates(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A certificate that is self-signed, expired or another host's ends the run at once, with OpenSSL's reason."""
    authority = Authority(tmp_path)
    trust(monkeypatch, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue(kind))
    async with (
        raw_server(good, ssl=context) as address,
        engine_at(f"https://{address}", cache_folder) as engine,
    ):
        with pytest.raises(RefusedError, match="certificate") as caught:
            await engine.complete(ask())
        assert engine.stats().sent == 1
    assert caught.value.exit_code == 4
    assert "certificate verify failed" in caught.value.one_line()


@both_clients
async def test_row_006_a_reset_in_the_handshake(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections reset while TLS is being set up are tried again; a good certificate is then accepted."""
    authority = Authority(tmp_path)
    trust(monkeypatch, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("good"))
    seen = 0

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        if seen <= 2:
            await reader.read(1)
            transport = out.transport
            assert isinstance(transport, asyncio.Transport)
            reset(transport)
            return
        await out.start_tls(context)
        await read_request(reader)
        out.write(WHOLE)
        await out.drain()
        out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, engine_at(f"https://127.0.0.1:{port}/v1", cache_folder) as engine:
        assert (await engine.complete(ask())).value == "yes"
        assert engine.stats().retries == 2


@both_clients
async def test_row_009_a_stale_connection_is_no_try(cache_folder: Path) -> None:
    """A kept-alive connection that the server closes on its next use is replaced at once, and that is not a try.

    Waits between tries are set to a minute, and one try is all that a question has: neither is ever come to.
    """
    served = 0

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal served
        try:
            await read_request(reader)
            served += 1
            out.write(WHOLE.replace(b"Connection: close\r\n", b""))
            await out.drain()
            await reader.readexactly(1)  # the next request: closed without an answer
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings: dict[str, Any] = {"attempts": 1, "wait_s": 60.0, "max_wait_s": 60.0, "concurrency": 1}
    async with server, engine_at(f"http://127.0.0.1:{port}/v1", cache_folder, **settings) as engine:
        for number in range(40):
            question = ask(f"q{number}")
            signed = replace(question, request=replace(question.request, signature=GOOD[number : number + 8].decode()))
            done = await asyncio.wait_for(engine.complete(signed), 30)
            assert done.value == "yes"
        again = 39 if os.environ["SVR_HTTP"] == "lean" else 38  # aiohttp keeps connections from the second question on
        assert (served, engine.stats().retries, engine.stats().failed) == (40, again, 0)


async def test_row_009_only_the_first_is_free(cache_folder: Path) -> None:
    """A call that meets nothing but stale connections, while others succeed, is given up like any other."""

    def answer(request: Request, _: int) -> object:
        return transport.stale("reset") if "bad" in request.messages[0][1] else completion("yes")

    async with scripted_engine(cache_folder, answer) as (engine, script):
        bad = asyncio.create_task(engine.complete(ask("bad one")))
        number = 0
        while not bad.done():
            assert (await engine.complete(ask(f"good {number}"))).value == "yes"
            number += 1
            await asyncio.sleep(0.001)
        assert (await bad).outcome is Outcome.API_ERROR
        assert sum("bad" in request.messages[0][1] for request in script.sent) <= 21


@both_clients
async def test_row_011_close_delimited_truncation(cache_folder: Path) -> None:
    """A reply without a length, cut at any byte, is a lost call; what is kept is the whole answer that follows."""
    cuts = len(GOOD)

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        out.write(HEAD + b"\r\n" + GOOD[:number] if number < cuts else WHOLE)

    async with (
        raw_server(answer) as address,
        engine_at(f"http://{address}", cache_folder, attempts=2 * cuts, concurrency=1) as engine,
    ):
        done = await engine.complete(ask())
        assert (done.value, engine.stats().sent, engine.stats().failed) == ("yes", cuts + 1, 0)


@both_clients
async def test_row_013_a_drip_is_closed_and_not_used_again(cache_folder: Path) -> None:
    """When a reply drips past its deadline the connection is closed, its slot is free, and a new one is opened."""
    closed = asyncio.Event()

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        if number:
            out.write(WHOLE)
            return
        out.write(HEAD + b"Content-Length: 1000\r\n\r\n")
        try:
            while not out.is_closing():
                out.write(b" ")
                await out.drain()
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    async with (
        raw_server(answer) as address,
        engine_at(f"http://{address}", cache_folder, timeout_s=0.2, concurrency=1) as engine,
    ):
        assert (await engine.complete(ask())).value == "yes"
        await asyncio.wait_for(closed.wait(), 20)
        assert engine.stats().in_flight == 0


@both_clients
async def test_row_014_a_reply_that_is_always_too_large(cache_folder: Path) -> None:
    """One question whose replies never fit is asked again once and is then an api_error; the others are answered."""
    asked = 0
    blank = b" " * (transport.MAX_BODY_BYTES + 2**16)

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal asked
        try:
            if b"big" in await read_request(reader):
                asked += 1
                out.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(blank) + blank)
            else:
                out.write(WHOLE)
            await out.drain()
        except ConnectionError:
            pass
        finally:
            out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, engine_at(f"http://127.0.0.1:{port}/v1", cache_folder, concurrency=4) as engine:
        large = asyncio.create_task(engine.complete(ask("big")))
        number = 0
        while not large.done():
            assert (await engine.complete(ask(f"small {number}"))).value == "yes"
            number += 1
            await asyncio.sleep(0.002)
        done = await large
        assert (done.outcome, "larger than" in done.detail) == (Outcome.API_ERROR, True)
        assert asked == 2


@both_clients
async def test_row_017_a_sign_in_page_for_ever(cache_folder: Path) -> None:
    """An endpoint that only ever shows an HTML page is given up with exit 6; the line quotes the page harmlessly."""
    page = b"<html>\x1b[2J<title>Sign in</title></html>"

    async def answer(_: int, out: asyncio.StreamWriter) -> None:
        out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + page)

    async with (
        raw_server(answer) as address,
        engine_at(f"http://{address}", cache_folder, attempts=3, first_contact_s=0.1) as engine,
    ):
        with pytest.raises(EndpointDownError, match="Sign in") as caught:
            await engine.complete(ask())
    assert caught.value.exit_code == 6
    assert "\x1b" not in caught.value.one_line()


@both_clients
async def test_row_020_an_answer_before_the_question_was_read(cache_folder: Path) -> None:
    """A 200 that comes before the request was taken, with the connection then closed, is at worst a lost call."""

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
        out.write(empty if number < 2 else WHOLE)

    async with (
        raw_server(answer, unread=2) as address,
        engine_at(f"http://{address}", cache_folder) as engine,
    ):
        assert (await engine.complete(ask("x" * 300_000))).value == "yes"


class SpeaksFirst:
    """A model that signs nothing, behind a proxy that gives every other connection its last reply unasked."""

    def __init__(self) -> None:
        self.last = b""
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Answer each question with its own text."""
        self.connections += 1
        if self.connections % 2:
            out.write(self.last)
        try:
            while True:
                body = completion(orjson.loads(await read_request(reader))["messages"][0]["content"]).body
                self.last = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                out.write(self.last)
        except (ConnectionError, asyncio.IncompleteReadError):
            out.close()


@both_clients
async def test_row_020_what_came_before_anything_was_asked_answers_nothing(cache_folder: Path) -> None:
    """Neither client sends a question on a connection that has something to say already."""
    async with await asyncio.start_server(SpeaksFirst().serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with engine_at(address, cache_folder, concurrency=1, attempts=20) as engine:
            for number in range(8):
                assert (await engine.complete(ask(str(number)))).value == str(number)


class Twice:
    """A judge behind a proxy that repeats itself: a second 200 comes up to 30 ms after each reply, on its connection.

    Every `early`th connection, where there are any, gets the last reply at once, before anything was read from it.
    """

    def __init__(self, *, signs: bool, early: int) -> None:
        self.signs, self.early = signs, early
        self.last = b""
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Answer what comes on a connection."""
        self.connections += 1
        if self.early and self.connections % self.early == 0:
            out.write(self.last)
        try:
            for number in itertools.count():
                content = orjson.loads(await read_request(reader))["messages"][1]["content"]
                side = "A" if content.index("right") < content.index("wrong") else "B"
                text = f"So it is.\n{verdict(content, side) if self.signs else f'[[{side}]]'}"
                body = completion(text, model="gpt-oss-120b").body
                self.last = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                for after_s in (0.003, 0.003 + number % 7 * 0.005):
                    asyncio.get_running_loop().call_later(after_s, out.write, self.last)
        except (ConnectionError, asyncio.IncompleteReadError):
            out.close()


@both_clients
@pytest.mark.parametrize(("signs", "early"), [(True, 0), (True, 5), (False, 0)])
async def test_row_020_no_direct_verdict_is_taken_from_another_pairs_reply(
    cache_folder: Path, signs: bool, early: int
) -> None:
    """Replies sent twice, or before the question was read: of the verdicts on sixty pairs none is another one's."""
    proxy = Twice(signs=signs, early=early)
    texts = [("right", "wrong") if number % 3 else ("wrong", "right") for number in range(60)]
    shown = [
        Presentation(pair_id=f"p{number}", prompt=user_prompt(f"{number}?"), response_a=a, response_b=b)
        for number, (a, b) in enumerate(texts)
    ]
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with judge_at(address, cache_folder, concurrency=4, attempts=20) as judge:
            found = await asyncio.gather(*(judge.prefer(one) for one in shown))
    told = [answer.value and (answer.value.margin, answer.flags) for answer in found]
    flags = () if signs else ("no_nonce",)
    right = [(1.0 if a == "right" else -1.0, flags) for a, _ in texts]
    assert all(one in (None, expected) for one, expected in zip(told, right, strict=True))
    assert len(told) - told.count(None) > 40


class LateCopies:
    """A judge that leaves out all rubrics but the first, behind a proxy that sends each reply again, 20 ms later.

    What R1 is tells the verdict: A on a rubric that names A.
    """

    async def serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Answer what comes on a connection, 40 ms after it came."""
        try:
            while True:
                content = orjson.loads(await read_request(reader))["messages"][1]["content"]
                await asyncio.sleep(0.04)
                side = content.split("R1: names ")[1][0]
                row = {"rubric_id": "R1", "candidate_a_verdict": "pass", "candidate_b_verdict": "pass", "better": side}
                told = orjson.dumps({"nonce": content[6:22], "rubric_comparisons": [row]}).decode()
                body = completion(told, model="gpt-oss-120b").body
                reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                out.write(reply)
                asyncio.get_running_loop().call_later(0.02, out.write, reply)
        except (ConnectionError, asyncio.IncompleteReadError):
            out.close()


@both_clients
async def test_row_020_no_verdict_is_taken_from_a_reply_about_other_rubrics_of_the_same_pair(
    cache_folder: Path,
) -> None:
    """All questions on a pair show one nonce: a reply that is sent twice does not answer the next of them."""
    rubrics = [Rubric(text="names A"), Rubric(text="names B")]
    async with await asyncio.start_server(LateCopies().serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with judge_at(address, cache_folder, concurrency=1) as judge:
            for number in range(4):
                shown = Presentation(
                    pair_id=f"{number}", prompt=user_prompt(f"{number}?"), response_a="x", response_b="y"
                )
                answer = await judge.compare(shown, rubrics, overall=False)
                assert answer.value is not None
                assert [row.better for row in answer.value.rows] == [Side.A, Side.B]


class RepliesLater:
    """A model that signs nothing, behind a proxy that sends each reply again when its connection has rested."""

    async def serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Answer with the number that was asked, 40 ms after it came, and again 20 ms after the rest."""
        try:
            while True:
                body = completion(orjson.loads(await read_request(reader))["messages"][0]["content"]).body
                await asyncio.sleep(0.04)
                reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                out.write(reply)
                asyncio.get_running_loop().call_later(lean.REST_S + 0.02, out.write, reply)
        except (ConnectionError, asyncio.IncompleteReadError):
            out.close()


async def slowly(asked: Awaitable[Completion[str]]) -> Completion[str]:
    """Wait until connections have rested, then ask."""
    await asyncio.sleep(lean.REST_S)
    return await asked


async def test_row_020_an_endpoint_that_once_sent_too_much_gets_a_connection_for_each_unsigned_question(
    cache_folder: Path,
) -> None:
    """Nothing tells whose an unsigned reply is: the first that nobody had asked for is the last that can pass."""
    async with await asyncio.start_server(RepliesLater().serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with engine_at(address, cache_folder, concurrency=1) as engine:
            told = [await slowly(engine.complete(ask(str(number)))) for number in range(5)]
    assert sum(done.value != str(number) for number, done in enumerate(told)) <= 1


def test_row_021_too_few_file_descriptors(tmp_path: Path) -> None:
    """With fewer file descriptors than calls in flight a run completes, and every pair has its verdict."""
    write_bench(tmp_path / "bench.jsonl", 100)
    flags = ["eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "-q", "--out", "run"]
    with serving(SimConfig(latency_ms=50.0)) as server:
        name_judge(tmp_path, server.base_url)
        shell = ("import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
                 "from svr_async.commands import main; main()")  # fmt: skip
        done = run_python(shell, *flags, "--concurrency", "100", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "run" / "items.jsonl").read_bytes().count(b'"outcome":"scored"') == 100


async def test_row_021_fewer_calls_at_a_time_and_said_once(cache_folder: Path) -> None:
    """Where descriptors run out the limit on calls under way is halved, that is said once, and no question is lost."""
    failing = 24
    told: list[Notice] = []

    def answer(*_: object) -> object:
        nonlocal failing
        failing -= 1
        return transport.cannot_connect("OSError", "Too many open files") if failing >= 0 else completion("yes")

    async with scripted_engine(cache_folder, answer, concurrency=32) as (engine, _):
        engine.set_on_notice(told.append)
        found = await asyncio.gather(*(engine.complete(ask(f"q{number}")) for number in range(100)))
        lane = engine.stats().lanes[0]
        assert ({one.value for one in found}, lane.falls >= 1, lane.state) == ({"yes"}, True, "ready")
    notes = [word.text for word in told if word.about is NoticeKind.NOTE]
    assert (len(notes), "ulimit -n" in notes[0]) == (1, True)
