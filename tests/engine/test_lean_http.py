"""The default HTTP client against raw sockets: framing, reuse of connections, codings, deadlines, both event loops."""

from __future__ import annotations

import asyncio
import gzip
import select
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import until

from svr_async.engine.classify import Billed, Kind
from svr_async.engine.http import connection, lean
from svr_async.engine.http.client import HttpTransport
from svr_async.engine.http.connection import MAX_HEAD_BYTES, MOST_PARTS, Connection, ReplyHeaders, unpacked
from svr_async.engine.http.lean import LeanTransport
from svr_async.engine.http.on_aiohttp import AiohttpTransport
from svr_async.engine.http.transport import MAX_BODY_BYTES, CallFailedError, RawReply
from svr_async.engine.loops import loop_factory
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret
from svr_async.errors import UsageError

BODY = b'{"choices": [{"message": {"content": "yes"}}]}'
OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
REQUEST = Request(endpoint="e", model="m", messages=(("user", "hello"),), signature="yes")
UNSIGNED = replace(REQUEST, signature="")
Answer = Callable[[int, asyncio.StreamWriter], Awaitable[None] | None]


class Server:
    """Answers each request on a connection by a function of its number; counts connections and requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = self.requests = 0
        self.heads: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(out)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                self.heads.append(head)
                self.requests += 1
                if (waiting := self.answer(self.requests, out)) is not None:
                    await waiting
                await out.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            out.close()


@asynccontextmanager
async def client_of(
    answer: Answer, *, key: str = "", timeout_s: float = 20.0
) -> AsyncIterator[tuple[LeanTransport, Server]]:
    """Open a client on a server of our own."""
    server = Server(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = LeanTransport(server.url, Secret(key), timeout_s=timeout_s)
    async with listening:
        try:
            yield client, server
        finally:
            await client.close()


def writes(*parts: bytes) -> Answer:
    """Return an answer that writes these bytes, a moment apart."""

    async def answer(_: int, out: asyncio.StreamWriter) -> None:
        for part in parts:
            out.write(part)
            await out.drain()
            await asyncio.sleep(0.002)

    return answer


async def test_one_connection_serves_calls_that_follow_each_other() -> None:
    """A hundred calls one after the other, and twenty at once: as many connections as were in use at a time."""
    async with client_of(lambda _, out: out.write(WHOLE)) as (client, server):
        for _ in range(100):
            assert (await client.send(REQUEST)).body == BODY
        assert server.connections == 1
        await asyncio.gather(*(client.send(REQUEST) for _ in range(20)))
        assert server.connections <= 20
        await asyncio.gather(*(client.send(REQUEST) for _ in range(20)))
        assert server.connections <= 20


async def test_chunks_of_two_bytes_are_joined_before_they_take_thirty_times_their_length() -> None:
    """However a body is cut up, it comes whole, and no more than so many of its parts are held one by one."""
    body = BODY + b" " * 9000
    cut = b"".join(b"2\r\n%b\r\n" % body[at : at + 2] for at in range(0, len(body), 2))
    async with client_of(writes(OK + b"Transfer-Encoding: chunked\r\n\r\n", cut, b"0\r\n\r\n")) as (client, _):
        for _ in range(2):
            assert (await client.send(REQUEST)).body == body
        assert [len(one._parts) <= MOST_PARTS for one in client._idle] == [True]


@pytest.mark.parametrize("rest", [b"2\r\n{}\r\n0\r\n" + b"X-Trailer: some\r\n" * 9000, b"1\r\n \r\n" * 20_000])
async def test_trailers_and_chunk_heads_without_end_are_cut_off(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands around a body counts as well: a reply has an end, however little of it is body."""
    monkeypatch.setattr(connection, "MAX_WIRE_BYTES", 100_000)

    async def answer(_: int, out: asyncio.StreamWriter) -> None:
        out.write(OK + b"Transfer-Encoding: chunked\r\n\r\n" + rest)
        await asyncio.sleep(60)

    async with client_of(answer) as (client, _):
        with pytest.raises(CallFailedError, match="larger than"):
            await client.send(REQUEST)


@pytest.mark.parametrize(
    "parts",
    [
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % len(BODY), BODY, b"\r\n0\r\n\r\n"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE),
        tuple(WHOLE[place : place + 1] for place in range(len(WHOLE))),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(BODY)), gzip.compress(BODY)),
    ],
    ids=["chunked", "interim replies", "byte by byte", "gzip"],
)
async def test_a_reply_in_any_framing_is_read_whole_and_its_connection_used_again(parts: tuple[bytes, ...]) -> None:
    """Chunks, interim replies, single bytes and gzip all give the same body, twice over one connection."""
    async with client_of(writes(*parts)) as (client, server):
        for _ in range(2):
            reply = await client.send(REQUEST)
            assert (reply.status, reply.body) == (200, BODY)
        assert server.connections == 1


async def test_a_reply_without_a_length_ends_with_its_connection() -> None:
    """Where neither length nor chunks frame a body, the end of the connection does; it is not used again."""

    def answer(_: int, out: asyncio.StreamWriter) -> None:
        out.write(OK + b"\r\n" + BODY)
        out.close()

    async with client_of(answer) as (client, server):
        assert [(await client.send(REQUEST)).body for _ in range(3)] == [BODY] * 3
        assert server.connections == 3


@pytest.mark.parametrize(
    "raw",
    [
        WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WHOLE + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        WHOLE + b"garbage",
    ],
    ids=["connection: close", "HTTP/1.0", "a second reply", "garbage behind it"],
)
async def test_a_connection_that_ends_or_says_too_much_is_not_used_again(raw: bytes) -> None:
    """The reply counts, but the next call gets a connection of its own, and never the bytes of another reply."""
    async with client_of(writes(raw)) as (client, server):
        assert [(await client.send(REQUEST)).body for _ in range(3)] == [BODY] * 3
        assert server.connections == 3


async def test_bytes_that_nobody_asked_for_close_a_waiting_connection() -> None:
    """What a server sends between calls is never taken for the next reply."""
    late = asyncio.Event()

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        out.write(WHOLE)
        if number == 1:
            await out.drain()
            await late.wait()
            out.write(WHOLE.replace(b"yes", b"bad"))

    async with client_of(answer) as (client, server):
        await client.send(REQUEST)
        late.set()
        await until(lambda: not client._alive)
        assert (await client.send(REQUEST)).body == BODY
        assert server.connections == 2


def numbered(number: int) -> Request:
    """Return a question that is like no other, whose reply repeats nothing."""
    return replace(UNSIGNED, messages=(("user", f"number {number}"),))


@pytest.mark.parametrize("client", [LeanTransport, AiohttpTransport])
async def test_a_question_that_is_answered_twice_never_answers_the_next_one(client: type[LeanTransport]) -> None:
    """Whenever within 30 ms the second reply comes, each of many questions without a signature gets its own reply."""

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                content = orjson.loads(body)["messages"][0]["content"]
                found = orjson.dumps({"choices": [{"message": {"content": content}}]})
                reply = OK + b"Content-Length: %d\r\n\r\n" % len(found) + found
                for after in (0.03, 0.03 + int(content.split()[1]) % 7 * 0.005):
                    asyncio.get_running_loop().call_later(after, out.write, reply)
        out.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    asked = client(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", Secret(""))

    async def told(number: int) -> bool:
        with suppress(CallFailedError):  # more came than one reply: it is asked again
            return f"number {number}".encode() in (await asked.send(numbered(number))).body
        return True

    async with listening:
        for at in range(0, 70, 10):
            assert all(await asyncio.gather(*(told(number) for number in range(at, at + 10))))
        await asked.close()


async def test_a_reply_without_the_signature_of_its_question_ends_its_connection() -> None:
    """What a judge answers without repeating what it was asked to may be to another question: nothing follows it."""
    other = replace(REQUEST, signature="another")
    async with client_of(lambda _, out: out.write(WHOLE)) as (client, server):
        for _ in range(3):
            assert (await client.send(other)).body == BODY
        assert server.connections == 3
        assert not client._alive or not client._idle


async def test_a_connection_rests_after_a_reply_without_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves again when it has been silent for long enough, or where very many rest at once."""
    async with client_of(lambda _, out: out.write(WHOLE)) as (client, server):
        await client.send(UNSIGNED)
        await client.send(UNSIGNED)
        assert server.connections == 2
        monkeypatch.setattr(lean, "REST_S", 0.0)
        await client.send(UNSIGNED)
        assert server.connections == 2
        monkeypatch.setattr(lean, "REST_S", 60.0)
        monkeypatch.setattr(lean, "MOST_RESTING", 1)
        await client.send(UNSIGNED)
        assert server.connections == 2


async def test_more_than_one_reply_on_a_used_connection_is_asked_again() -> None:
    """There it cannot be told which reply is to the last question: the call fails as one that may have been billed."""
    async with client_of(lambda n, out: out.write(WHOLE * min(n, 2))) as (client, _):
        await client.send(REQUEST)
        with pytest.raises(CallFailedError, match="more came than one reply") as caught:
            await client.send(REQUEST)
        assert (caught.value.failure.kind, caught.value.failure.billed) == (Kind.TRANSIENT, Billed.UNKNOWN)
        assert not client._idle


async def test_bytes_before_the_question_are_no_reply_to_it() -> None:
    """What has arrived on an idle connection, unread so far, is seen before the next request is written."""
    async with client_of(lambda _, out: out.write(WHOLE)) as (client, server):
        await client.send(REQUEST)
        (idle,) = client._idle
        ours = idle._transport.get_extra_info("socket")
        idle._transport.pause_reading()  # as while the event loop has no time
        server.writers[0].write(WHOLE.replace(b"yes", b"bad"))
        await until(lambda: bool(select.select([ours], [], [], 0)[0]))
        assert (await client.send(REQUEST)).body == BODY
        assert server.connections == 2


async def test_any_number_of_interim_replies_is_passed_over() -> None:
    """Two thousand 102s before a reply neither end it nor count as its headers."""
    async with client_of(writes(b"HTTP/1.1 102 Processing\r\n\r\n" * 3000, WHOLE)) as (client, _):
        assert (await client.send(REQUEST)).body == BODY


async def test_trailers_are_no_headers() -> None:
    """What follows a body in chunks cannot say how the body is to be read, or how long to wait."""
    chunked = OK + b"Retry-After: 1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
    trailers = b"Retry-After: 500\r\nContent-Encoding: gzip\r\n\r\n"
    async with client_of(writes(chunked + trailers)) as (client, _):
        reply = await client.send(REQUEST)
        assert (reply.body, reply.headers["retry-after"]) == (BODY, "1")


async def test_a_failed_reply_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was closed on a reply that is too large holds no part of it, as long as it is remembered."""
    monkeypatch.setattr(connection, "MAX_BODY_BYTES", 100_000)
    held: list[Connection] = []

    class Remembered(Connection):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            held.append(self)

    monkeypatch.setattr(lean, "Connection", Remembered)
    async with client_of(writes(OK + b"Content-Length: 400000\r\n\r\n" + b"x" * 400_000)) as (client, _):
        with pytest.raises(CallFailedError, match="larger than"):
            await client.send(REQUEST)
        assert [(one._parts, one._blocks) for one in held] == [([], [])]


async def test_connections_idle_for_long_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that the server may be about to close is closed by us first, with those that waited longer."""
    async with client_of(lambda _, out: out.write(WHOLE)) as (client, server):
        await asyncio.gather(*(client.send(REQUEST) for _ in range(3)))
        opened = server.connections
        monkeypatch.setattr(lean, "KEEPALIVE_S", -1.0)
        await client.send(REQUEST)
        assert server.connections == opened + 1
        assert len(client._idle) == 1


@pytest.mark.parametrize(
    ("raw", "needle"),
    [
        (b"", "before a reply"),
        (WHOLE[:-3], "in the middle"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", "in the middle"),
        (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", "not HTTP"),
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "not HTTP"),
        (OK + b"X-Long: " + b"x" * 9000 + b"\r\nContent-Length: 0\r\n\r\n", "a header of"),
        (OK + b"X-Long: " + b"x" * (3 * MAX_HEAD_BYTES), "no end"),
        (OK + b"Content-Length: %d\r\n\r\n" % (2 * MAX_BODY_BYTES) + b"x" * (MAX_BODY_BYTES + 10), "larger than"),
        (OK + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", "not asked for"),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", "cut off"),
    ],
)  # fmt: skip
async def test_a_broken_reply_is_a_failure_that_may_have_been_billed(raw: bytes, needle: str) -> None:
    """Nothing broken is handed over: the failure is transient, perhaps billed, and says what was wrong."""

    async def answer(_: int, out: asyncio.StreamWriter) -> None:
        out.write(raw)
        await out.drain()
        out.close()

    async with client_of(answer) as (client, _):
        with pytest.raises(CallFailedError, match=needle) as caught:
            await client.send(REQUEST)
        assert (caught.value.failure.kind, caught.value.failure.billed) == (Kind.TRANSIENT, Billed.UNKNOWN)
        assert client._due == {}


async def test_one_sweep_ends_all_calls_whose_time_is_up() -> None:
    """Calls that get no reply end together at their deadline; those that get one in time are not touched."""

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        if number % 2:
            out.write(WHOLE)
        else:
            await asyncio.sleep(30)

    async with client_of(answer, timeout_s=0.3) as (client, _):
        found = await asyncio.gather(*(client.send(REQUEST) for _ in range(40)), return_exceptions=True)
        late = [one for one in found if isinstance(one, CallFailedError)]
        assert len(late) == 20
        assert {one.failure.signature for one in late} == {"timeout"}
        assert (await client.send(REQUEST)).body == BODY


async def test_a_call_that_is_cancelled_takes_its_connection_with_it() -> None:
    """The reply to a call that was given up never reaches another one."""
    gate = asyncio.Event()

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        if number == 1:
            await gate.wait()
        out.write(WHOLE if number > 1 else WHOLE.replace(b"yes", b"bad"))

    async with client_of(answer) as (client, server):
        task = asyncio.create_task(client.send(REQUEST))
        await until(lambda: server.requests == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        assert (await client.send(REQUEST)).body == BODY
        assert server.connections == 2


async def test_headers_of_the_caller_replace_ours_and_none_can_be_smuggled() -> None:
    """A header given twice is sent once, as the caller has it; one with a line break ends the run before any call."""
    async with client_of(lambda _, out: out.write(WHOLE), key="sk-1") as (_, server):
        client = LeanTransport(server.url, Secret("sk-1"), headers={"user-agent": "mine", "X-Team": "a"})
        await client.send(REQUEST)
        await client.close()
        head = server.heads[-1]
        assert head.lower().count(b"user-agent:") == 1
        assert b"user-agent: mine\r\n" in head
        assert b"X-Team: a\r\n" in head
        bad = LeanTransport(server.url, Secret(""), headers={"X-Team": "a\r\nX-Other: b"})
        with pytest.raises(CallFailedError, match="control character") as caught:
            await bad.send(REQUEST)
        assert caught.value.failure.kind is Kind.RUN


@pytest.mark.parametrize("url", ["ftp://host/v1", "http:///v1", "http://host:99999/v1", "nonsense"])
async def test_what_is_no_address_ends_the_run(url: str) -> None:
    """An address that cannot be asked is said at the first call, as an error of the run."""
    with pytest.raises(CallFailedError, match="not a URL") as caught:
        await LeanTransport(url, Secret("")).send(REQUEST)
    assert caught.value.failure.kind is Kind.RUN


async def test_a_later_look_up_that_fails_uses_the_known_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked up once a minute; when that fails in the middle of a run, the last address serves."""
    monkeypatch.setattr(lean, "DNS_TTL_S", -1.0)
    async with client_of(lambda _, out: out.write(WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))) as (
        _,
        server,
    ):
        client = LeanTransport(server.url.replace("127.0.0.1", "localhost"), Secret(""))
        await client.send(REQUEST)

        async def fail(*_: object, **__: object) -> list[object]:
            raise OSError("no name server")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
        assert (await client.send(REQUEST)).body == BODY
        await client.close()


async def test_closing_ends_every_connection() -> None:
    """After `close` no connection is left, busy or idle; a call under way fails as a lost one."""

    async def answer(number: int, out: asyncio.StreamWriter) -> None:
        if number <= 3:
            out.write(WHOLE)
        else:
            await asyncio.sleep(30)

    async with client_of(answer) as (client, server):
        await asyncio.gather(*(client.send(REQUEST) for _ in range(3)))
        busy = asyncio.create_task(client.send(REQUEST))
        await until(lambda: server.requests == 4)
        await client.close()
        assert client._alive == set()
        with pytest.raises(CallFailedError, match="closed"):
            await busy


def test_the_client_works_on_the_other_event_loop() -> None:
    """On uvloop, where it is installed, calls, reuse, failures and closing are the same."""

    async def go() -> tuple[int, list[bytes | str]]:
        async with client_of(lambda n, out: out.write(WHOLE if n != 5 else b"nonsense\r\n\r\n")) as (client, server):
            found: list[bytes | str] = []
            for _ in range(10):
                try:
                    found.append((await client.send(REQUEST)).body)
                except CallFailedError as error:
                    found.append(error.failure.signature)
            return server.connections, found

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        connections, found = runner.run(go())
    assert connections == 2
    assert found.count(BODY) == 9


@settings(deadline=None, max_examples=60)
@given(data=st.binary(max_size=3000), coding=st.sampled_from(["gzip", "deflate", "raw", "identity", ""]))
def test_every_coding_gives_back_what_was_packed(data: bytes, coding: str) -> None:
    """Gzip and both kinds of deflate are undone; any cut is a failure, never a part of the body."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = {
        "gzip": gzip.compress(data), "deflate": zlib.compress(data), "raw": packer.compress(data) + packer.flush(),
    }.get(coding, data)  # fmt: skip
    name = "deflate" if coding == "raw" else coding
    assert unpacked(packed, name) == data
    if coding in {"gzip", "deflate"}:
        with pytest.raises(CallFailedError):
            unpacked(packed[:-1], name)


def test_a_body_that_unpacks_to_too_much_is_stopped_at_the_cap() -> None:
    """A bomb costs the cap and no more."""
    with pytest.raises(CallFailedError, match="larger than"):
        unpacked(gzip.compress(bytes(MAX_BODY_BYTES + 1)), "gzip")


def test_the_client_is_chosen_by_name_and_a_wrong_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """SVR_HTTP names the client where the caller does not; what is no client is an error of usage that lists them."""
    monkeypatch.setenv("SVR_HTTP", "aiohttp")
    assert HttpTransport("http://h/v1", Secret("")).client == "aiohttp"
    assert HttpTransport("http://h/v1", Secret(""), client="lean").client == "lean"
    monkeypatch.setenv("SVR_HTTP", "curl")
    with pytest.raises(UsageError, match="curl") as caught:
        HttpTransport("http://h/v1", Secret(""))
    assert "lean, aiohttp" in caught.value.hint


def test_headers_are_asked_for_in_any_case() -> None:
    """Header names have no case, and bytes that are no text do no harm."""
    headers = ReplyHeaders({b"Retry-After": b"3", b"X-ODD": b"\xff"})
    assert (headers["retry-after"], headers.get("RETRY-AFTER"), headers.get("date")) == ("3", "3", None)
    assert sorted(headers) == ["retry-after", "x-odd"]
    assert RawReply(status=200, headers=headers, body=b"").headers.get("x-odd") == "\ufffd"
