"""Machines that share questions and replies through a real Redis server: it may be lost, flushed, silent, or lie.

A machine is an engine with a cache of its own; the simulated endpoint's counts are the witness of what was paid.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis_server import RedisServer, redis_server
from rig import engine_at, pairs, serving, until, writer

from svr_async.engine.cache_disk import pack
from svr_async.engine.engine import CallEngine
from svr_async.engine.request import Question
from svr_async.engine.shared import claims as shared_claims
from svr_async.engine.shared import link
from svr_async.engine.shared.scripts import CLAIM, PREFIX, REPLY
from svr_async.errors import UsageError
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import Order, present

N = 60
AT_ONCE = 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a Redis server for one test."""
    with redis_server(tmp_path) as running:
        yield running


@pytest.fixture
def sim() -> Iterator[SimServer]:
    """Serve the endpoint, slowly enough for something to happen meanwhile."""
    with serving(SimConfig(latency_ms=60.0)) as running:
        yield running


class Machine:
    """A cache, an engine on it, and what it was told."""

    def __init__(self, engine: CallEngine) -> None:
        self.engine, self.answers, self.words = engine, dict[int, Any](), list[str]()
        engine.tell(lambda word: self.words.append(word.text))

    async def ask(self, asked: Sequence[Question[Any]], numbers: Sequence[int]) -> None:
        """Ask the questions of these numbers, in this order."""
        async for place, done in self.engine.map([asked[number] for number in numbers], workers=AT_ONCE):
            assert done.value is not None, done.detail
            self.answers[numbers[place]] = done.value

    @property
    def told(self) -> list[str]:
        """What was told of the server."""
        return [text for text in self.words if text.startswith("--shared")]


def questions(sim: SimServer) -> list[Question[Any]]:
    """Return questions about planted pairs."""
    return [writer(sim.base_url).direct(present(pair, Order.AB)) for pair in pairs(N)]


@contextlib.asynccontextmanager
async def machine(sim: SimServer, folder: Path, url: str) -> AsyncIterator[Machine]:
    """Open a machine."""
    async with engine_at(sim.base_url, folder, shared=url, concurrency=AT_ONCE) as engine:
        yield Machine(engine)


def shuffled(seed: int) -> list[int]:
    """Return all numbers in an order of its own."""
    return random.Random(seed).sample(range(N), N)


def calls(sim: SimServer) -> list[int]:
    """Return how often each request was paid for."""
    return [row["paid"] for row in sim.counts().values()]


async def test_what_one_machine_asks_no_other_asks(sim: SimServer, server: RedisServer, tmp_path: Path) -> None:
    """Two machines with the same questions pay once for each; both caches have all replies; nothing is told."""
    asked = questions(sim)
    async with machine(sim, tmp_path / "a", server.url) as one, machine(sim, tmp_path / "b", server.url) as two:
        await asyncio.gather(one.ask(asked, shuffled(1)), two.ask(asked, shuffled(2)))
        assert one.answers == two.answers
        assert len(one.answers) == N
        for question in asked:
            assert one.engine.cache.get(question.request.key) == two.engine.cache.get(question.request.key)
    assert calls(sim) == [1] * N
    assert one.told == two.told == []
    with server.client() as client:
        lives = {client.ttl(key) for key in client.keys(PREFIX + b"r:*")}
        assert client.keys(PREFIX + b"c:*") == []
    assert min(lives) > 0


@pytest.mark.parametrize("what", ["flushed", "killed"])
async def test_a_server_that_forgets_costs_no_call(
    sim: SimServer, server: RedisServer, tmp_path: Path, what: str
) -> None:
    """Flushed, or killed and started again empty, twice in a run: at most what was under way is paid for again."""
    asked = questions(sim)

    async def disturb(one: Machine) -> None:
        for share in (3, 2):
            await until(lambda share=share: len(one.answers) > N // share)  # type: ignore[misc]
            if what == "flushed":
                with server.client() as client:
                    client.flushall()
            else:
                server.kill()
                await asyncio.sleep(0.2)
                server.start()

    async with machine(sim, tmp_path / "a", server.url) as one, machine(sim, tmp_path / "b", server.url) as two:
        await asyncio.gather(one.ask(asked, shuffled(1)), two.ask(asked, shuffled(2)), disturb(one))
        assert one.answers == two.answers
    assert len(calls(sim)) == N
    assert sum(calls(sim)) - N <= 2 * 2 * AT_ONCE
    assert len(one.told) == (what == "killed")


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_without_a_server_each_machine_goes_on_by_itself(
    sim: SimServer, server: RedisServer, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost for good, or never there: all questions are answered, machines with shards pay nothing twice, one line."""
    monkeypatch.setattr(shared_claims, "RETURN_S", 0.5)
    asked = questions(sim)
    if when == "before":
        server.kill()
    async with machine(sim, tmp_path / "a", server.url) as one, machine(sim, tmp_path / "b", server.url) as two:

        async def lose() -> None:
            await until(lambda: len(one.answers) > 8)
            server.kill()

        await asyncio.gather(one.ask(asked, range(0, N, 2)), two.ask(asked, range(1, N, 2)), lose())
        assert len(one.answers) + len(two.answers) == N
    assert calls(sim) == [1] * N
    for told in (one.told, two.told):
        assert len(told) == 1
        assert "goes on by itself" in told[0]
        assert "\n" not in told[0]


async def test_a_server_that_lies_is_not_believed(sim: SimServer, server: RedisServer, tmp_path: Path) -> None:
    """Garbage, another request's reply, cut-off rows, other types, claims for ever: the endpoint's answers count."""
    asked = questions(sim)
    async with machine(sim, tmp_path / "true", server.url) as honest:
        await honest.ask(asked, range(N))
    with server.client() as client:
        rows: dict[Any, Any] = {key: client.get(key) for key in client.keys(REPLY + b"*")}
        for number, question in enumerate(asked[:18]):
            key = question.request.key
            client.delete(REPLY + key)
            lie = rows[REPLY + asked[number + 1].request.key]
            match number % 6:
                case 0:
                    client.set(REPLY + key, b"garbage")
                case 1:
                    client.set(REPLY + key, lie)
                case 2:
                    client.set(REPLY + key, rows[REPLY + key][:-3])
                case 3:
                    client.rpush(REPLY + key, b"a list")
                case 4:
                    client.set(CLAIM + key, b"for ever")
                case 5:
                    client.set(REPLY + key, pack(key, b'{"text": 7}'))
    async with machine(sim, tmp_path / "b", server.url) as one:
        await one.ask(asked, range(N))
        assert one.answers == honest.answers
        assert one.told == [shared_claims.LIE]
    assert sorted(calls(sim)) == [1] * (N - 18) + [2] * 18


async def test_claims_that_never_end_hold_nobody_for_long(
    sim: SimServer, server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one long wait questions are asked here too, after a lease each; the wait is told, and so is its end."""
    monkeypatch.setattr(shared_claims, "LONGEST_WAIT_S", 0.6)
    monkeypatch.setattr(shared_claims, "LEASE_S", 0.05)
    asked = questions(sim)
    with server.client() as client:
        for question in asked:
            client.set(CLAIM + question.request.key, b"another", px=30_000)
    async with machine(sim, tmp_path / "a", server.url) as one:
        await one.ask(asked, range(N))
        assert one.told == [shared_claims.SLOW, shared_claims.ENDLESS]
    assert calls(sim) == [1] * N


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n" * 400, b"*-9\r\n$zz", None])
async def test_what_is_no_redis_server_is_as_none(
    sim: SimServer, tmp_path: Path, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hangs up, speaks HTTP, says OK to all, sends garbage or is silent: one line, and the run goes on."""
    monkeypatch.setattr(link, "PATIENCE_S", 0.3)
    monkeypatch.setattr(shared_claims, "RETURN_S", 0.3)

    async def talk(reader: asyncio.StreamReader, writer_: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(64)
            if answer is None:
                await reader.read()
            else:
                writer_.write(answer)
                await writer_.drain()
        writer_.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as liar:
        port = liar.sockets[0].getsockname()[1]
        async with machine(sim, tmp_path / "a", f"redis://127.0.0.1:{port}") as one:
            await one.ask(questions(sim), range(12))
            assert len(one.answers) == 12
        assert 1 <= len(one.told) <= 2
    assert calls(sim) == [1] * 12


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "redis", "", "redis://127.0.0.1:port/0"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """One line, without the address, which may hold a password."""
    with pytest.raises(UsageError, match="is no redis:// address"):
        link.open_client(url)
