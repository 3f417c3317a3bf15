"""Looking ahead in the cache: many questions in one look, none of them paid for twice because the look is old."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from rig import ask, completion, scripted_engine

from svr_async.engine import claims as claims_module
from svr_async.engine.cache import Cache
from svr_async.engine.claims import FileClaims, NoClaims
from svr_async.engine.engine import LOOK_AHEAD, CallEngine
from svr_async.engine.request import Question, Request


def echo(request: Request, _: int) -> Any:
    """Answer with the question, a moment later."""

    async def answer() -> Any:
        await asyncio.sleep(0)
        return completion(f"to {request.messages[0][1]}")

    return answer()


def numbered(count: int) -> list[Question[str]]:
    """Return different questions."""
    return [ask(f"question {number}") for number in range(count)]


async def answers(engine: CallEngine, questions: list[Question[str]], *, workers: int = 4) -> dict[int, str | None]:
    """Ask all; return the values by number."""
    async with aclosing(engine.map(questions, workers=workers)) as results:
        return {index: done.value async for index, done in results}


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Have each look for one question noted."""
    looks: list[bytes] = []
    get = Cache.get

    def noting(cache: Cache, key: bytes) -> Any:
        looks.append(key)
        return get(cache, key)

    monkeypatch.setattr(Cache, "get", noting)
    return looks


async def test_who_is_alone_looks_for_many_new_questions_at_once(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the first look, which comes before the first claim, no new question is looked for on its own."""
    looks = count_looks(monkeypatch)
    async with scripted_engine(cache_folder, echo) as (engine, transport):
        found = await answers(engine, numbered(400))
    assert found == {number: f"to question {number}" for number in range(400)}
    assert len(transport.sent) == 400
    assert len(looks) <= 2 * LOOK_AHEAD


async def test_who_may_not_be_alone_looks_for_each(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without claims nobody knows who else writes, so each question is looked for when its turn comes."""
    looks = count_looks(monkeypatch)
    monkeypatch.setattr("svr_async.engine.engine.open_claims", lambda _: NoClaims())
    async with scripted_engine(cache_folder, echo) as (engine, _):
        await answers(engine, numbered(200))
    assert len(looks) >= 200


@pytest.mark.parametrize("seed", range(8))
async def test_a_question_met_again_is_paid_for_once(cache_folder: Path, seed: int) -> None:
    """Questions that come several times, near or far, under way or long answered, are asked once each."""
    draw = random.Random(seed)
    kinds = numbered(60)
    numbers = [draw.randrange(60) for _ in range(500)]
    async with scripted_engine(cache_folder, echo) as (engine, transport):
        found = await answers(engine, [kinds[number] for number in numbers], workers=draw.choice((1, 3, 16)))
    assert found == {place: f"to question {number}" for place, number in enumerate(numbers)}
    assert len(transport.sent) == len(set(numbers))


def asks_elsewhere(place: Callable[[Question[str]], Any], at: int, ahead: Question[str]) -> Callable[..., Any]:
    """Answer like `echo`, but have somebody else ask a question that lies ahead before reply `at` comes."""

    def answer(request: Request, number: int) -> Any:
        async def slowly() -> Any:
            if number == at:
                assert (await place(ahead)).value == "from elsewhere"
            return completion(f"to {request.messages[0][1]}")

        return slowly()

    return answer


@pytest.mark.parametrize("in_a_thread", [False, True], ids=["here", "with claims of its own"])
@pytest.mark.parametrize("at", [0, LOOK_AHEAD, LOOK_AHEAD + 3, 2 * LOOK_AHEAD + 5])
async def test_what_another_engine_has_asked_in_between_is_found(
    cache_folder: Path, at: int, in_a_thread: bool
) -> None:
    """An engine here, or one as another process has it, that asks what was looked for already has not asked in vain."""
    questions = numbered(3 * LOOK_AHEAD)

    async def other(question: Question[str]) -> Any:
        async with scripted_engine(cache_folder, lambda *_: completion("from elsewhere")) as (engine, _):
            return await engine.complete(question)

    async def elsewhere(question: Question[str]) -> Any:
        return await asyncio.to_thread(lambda: asyncio.run(other(question)))

    script = asks_elsewhere(elsewhere if in_a_thread else other, at, questions[at + 20])
    async with scripted_engine(cache_folder, script) as (engine, transport):
        found = await answers(engine, questions, workers=1)
    assert found[at + 20] == "from elsewhere"
    assert len(transport.sent) == len(questions) - 1


async def test_a_look_that_failed_tells_nothing(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many rows cannot be read together, each is looked for on its own, and none that is there is missed."""
    async with scripted_engine(cache_folder, echo) as (engine, _):
        await answers(engine, numbered(150))

    def fail(*_: object) -> Any:
        raise sqlite3.DatabaseError("malformed")

    monkeypatch.setattr("svr_async.engine.cache.read_rows", fail)
    gate = asyncio.Event()

    async def answer(request: Request) -> Any:
        if request.messages[0][1] != "new":
            return completion("paid for twice")
        await gate.wait()
        return completion("new")

    async with scripted_engine(cache_folder, lambda request, _: answer(request)) as (engine, transport):
        found = []
        async with aclosing(engine.map([ask("new"), *numbered(150)], workers=2)) as results:
            async for _, done in results:
                found.append(done.value)
                if len(found) == 150:
                    gate.set()
        assert sorted(map(str, found)) == sorted(["new", *(f"to question {number}" for number in range(150))])
        assert len(transport.sent) == 1


async def test_being_alone_is_counted_anew_whenever_others_may_have_come(tmp_path: Path) -> None:
    """The number changes with every time of being alone, and is 0 for who is not, or has nothing claimed."""
    key = bytes(range(32))
    one, other = FileClaims(tmp_path), FileClaims(tmp_path)
    assert one.alone() == 0
    assert await one.obtain(key, lambda: False)
    first = one.alone()
    assert first
    one.join()
    assert one.alone() == 0
    one.users -= 1
    assert one.alone() not in {0, first}
    one.release(key)
    assert one.alone() == 0
    assert await other.obtain(key, lambda: False)
    other.release(key)
    assert await one.obtain(key, lambda: False)
    assert one.alone() > first
    one.release(key)
    for claims in (one, other):
        await claims.close()


async def test_who_has_slept_through_its_lease_was_not_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped for longer than its lease looks again for what it had looked up before."""
    key = bytes(range(32))
    claims = FileClaims(tmp_path)
    assert await claims.obtain(key, lambda: False)
    before = claims.alone()
    assert before
    slept = time.monotonic() + claims_module.LEASE_S + 1
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: slept)
        assert claims.alone() == 0
        claims._renew()
        assert claims.alone() not in {0, before}
    claims.release(key)
    await claims.close()
