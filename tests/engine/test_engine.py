"""The engine on a scripted transport: cache, joined calls, retries, stops, money, dry runs, failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rig import ask, by_turn, completion, refusal, scripted_engine, until

from svr_async.core.verdict import Outcome
from svr_async.engine.classify import Failure, Kind
from svr_async.engine.endpoint import EngineStoppedError
from svr_async.engine.engine import CallEngine, Completion
from svr_async.engine.failures import FailureLog
from svr_async.engine.money import Budget, Price
from svr_async.engine.request import Question, Request
from svr_async.engine.transport import CallFailedError, RawReply
from svr_async.errors import AuthError, BudgetError, ModelError, QuotaError, RefusedError, StorageError, SvrError


def lost(kind: Kind = Kind.TRANSIENT, billed: bool = True) -> CallFailedError:
    """Return the failure of a call without a reply."""
    return CallFailedError(Failure(kind=kind, detail="gone", billed=billed, signature="gone"))


async def gather_all(engine: CallEngine, questions: list[Question[str]]) -> list[Completion[str] | BaseException]:
    """Ask all at once; exceptions are results."""
    return await asyncio.gather(*(engine.complete(question) for question in questions), return_exceptions=True)


# --- cache and joined calls ------------------------------------------------------------------------------------------


async def test_a_reply_is_paid_for_once(cache_folder: Path) -> None:
    """The second time, and in the next process, the answer comes from the cache; its tokens count once."""
    async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, transport):
        first = await engine.complete(ask())
        second = await engine.complete(ask())
        assert (first.value, first.outcome) == ("yes", Outcome.SCORED)
        assert (second.value, second.reply, engine.stats().cache_hits) == ("yes", first.reply, 1)
        stats = engine.stats()
        assert (len(transport.sent), stats.sent, stats.cache_hits, stats.prompt_tokens) == (1, 1, 1, 100)
    assert transport.closed
    async with scripted_engine(cache_folder, by_turn(AssertionError("a call"))) as (engine, transport):
        again = await engine.complete(ask())
        assert (again.value, again.key) == ("yes", first.key)
        assert not transport.sent
        assert engine.stats().prompt_tokens == 100


async def test_identical_questions_share_one_call(cache_folder: Path) -> None:
    """A hundred callers of one question pay once; a cancelled one disturbs no other."""
    gate = asyncio.Event()

    async def answer() -> RawReply:
        await gate.wait()
        return completion("yes")

    async with scripted_engine(cache_folder, lambda *_: answer()) as (engine, transport):
        tasks = [asyncio.create_task(engine.complete(ask())) for _ in range(100)]
        await asyncio.sleep(0)
        tasks.pop().cancel()
        gate.set()
        found = await asyncio.gather(*tasks)
        assert {one.value for one in found} == {"yes"}
        assert len(transport.sent) == 1
        assert engine.stats().joined == 98


async def test_if_the_caller_is_cancelled_a_joiner_asks(cache_folder: Path) -> None:
    """Cancelling the task that called does not cancel the tasks that joined: one of them calls instead."""
    calls: list[asyncio.Future[RawReply]] = []

    async def answer() -> RawReply:
        calls.append(asyncio.get_running_loop().create_future())
        return await calls[-1]

    async with scripted_engine(cache_folder, lambda *_: answer()) as (engine, transport):
        leader, *joiners = [asyncio.create_task(engine.complete(ask())) for _ in range(4)]
        await until(lambda: bool(calls))
        leader.cancel()
        await until(lambda: len(calls) == 2)
        calls[1].set_result(completion("late"))
        assert [one.value for one in await asyncio.gather(*joiners)] == ["late"] * 3
        assert leader.cancelled()
        assert len(transport.sent) == 2
        assert engine.stats().in_flight == 0


# --- unreadable replies -----------------------------------------------------------------------------------------------


async def test_an_unreadable_reply_is_asked_again(cache_folder: Path) -> None:
    """Once, with a repair turn that names the problem; the first key keeps the reply."""
    turns = by_turn(completion("bad"), completion("good"))
    async with scripted_engine(cache_folder, turns) as (engine, transport):
        done = await engine.complete(ask())
        assert done.value == "good"
        assert done.reply is not None
        assert done.reply.tries == 2
        first, second = transport.sent
        assert (first.no_cache, second.no_cache) == (False, True)
        assert [role for role, _ in second.messages] == ["user", "assistant", "user"]
        assert "Your answer was bad." in second.messages[2][1]
        assert engine.stats().repaired == 1
        await engine.complete(ask())
        assert engine.stats().cache_hits == 1
        assert done.key == first.key.hex()


async def test_a_reply_that_stays_unreadable_is_a_parse_error(cache_folder: Path) -> None:
    """After `repairs` more calls the outcome is parse_error, nothing is kept, and a note shows the reply."""
    notes: list[str] = []
    async with scripted_engine(cache_folder, by_turn(completion("bad")), repairs=3) as (engine, transport):
        engine.set_on_notice(lambda notice: notes.append(notice.text))
        done = await engine.complete(ask())
        assert (done.value, done.outcome, done.detail) == (None, Outcome.PARSE_ERROR, "Your answer was bad.")
        assert len(transport.sent) == 4
        assert engine.cache.get(ask().request.key) is None
    assert notes == ["first unreadable reply: Your answer was bad. It starts: bad"]


async def test_a_truncated_reply_gets_twice_the_tokens_once(cache_folder: Path) -> None:
    """`length` doubles the token limit for one more call; a second one is the outcome truncated."""
    turns = by_turn(completion("half", "length"), completion("whole"))
    async with scripted_engine(cache_folder, turns) as (engine, transport):
        assert (await engine.complete(ask(max_tokens=100))).value == "whole"
        assert [request.max_tokens for request in transport.sent] == [100, 200]
    async with scripted_engine(cache_folder, by_turn(completion("half", "length"))) as (engine, transport):
        done = await engine.complete(ask("other", max_tokens=100))
        assert (done.value, done.outcome, len(transport.sent)) == (None, Outcome.TRUNCATED, 2)


@pytest.mark.parametrize(
    "refused", [completion("x", "content_filter"), completion(None, choices=[{"message": {"refusal": "No."}}])]
)
async def test_a_refusal_is_asked_again_once(cache_folder: Path, refused: RawReply) -> None:
    """One refusal may be chance, two are the outcome refusal; a refusal is never kept."""
    async with scripted_engine(cache_folder, by_turn(refused, completion("yes"))) as (engine, _):
        assert (await engine.complete(ask("q1"))).value == "yes"
    async with scripted_engine(cache_folder, by_turn(refused)) as (engine, transport):
        done = await engine.complete(ask("q2"))
        assert (done.outcome, len(transport.sent)) == (Outcome.REFUSAL, 2)
        assert engine.cache.get(ask("q2").request.key) is None


# --- what ends the run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refusal(401), AuthError), (refusal(403), AuthError), (refusal(402), QuotaError),
        (refusal(429, "no credit", code="insufficient_quota"), QuotaError),
        (refusal(404, "model x not found"), ModelError), (refusal(307), RefusedError),
        (refusal(429, headers={"retry-after": "99999"}), RefusedError),
        (CallFailedError(Failure(kind=Kind.RUN, detail="certificate expired", hint="renew it")), RefusedError),
    ],
)  # fmt: skip
async def test_fatal_replies_end_the_run(cache_folder: Path, reply: Any, error: type[SvrError]) -> None:
    """The first such reply ends the run with its error; no more calls leave than were in flight."""
    gate = asyncio.Event()

    async def late() -> Any:
        await gate.wait()
        return reply

    def answer(_: Request, n: int) -> Any:
        return completion("yes") if n < 3 else late()

    async with scripted_engine(cache_folder, answer, concurrency=4) as (engine, transport):
        for n in range(3):
            assert (await engine.complete(ask(f"paid{n}"))).value == "yes"
        tasks = [asyncio.create_task(engine.complete(ask(f"q{n}"))) for n in range(50)]
        await asyncio.sleep(0.01)
        gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, error | EngineStoppedError) for one in found)
        assert len(transport.sent) <= 3 + 4
        assert isinstance(engine.fatal, error)
        assert engine.fatal.exit_code == 4
        assert engine.fatal.hint
        with pytest.raises(error):
            await engine.complete(ask("one more"))
        assert engine.cache.get(ask("paid2").request.key) is not None


async def test_a_stop_lets_calls_in_flight_end(cache_folder: Path) -> None:
    """After `stop`, calls in flight finish and are kept; calls that wait raise EngineStoppedError."""
    gate = asyncio.Event()

    async def answer() -> RawReply:
        await gate.wait()
        return completion("yes")

    async with scripted_engine(cache_folder, lambda *_: answer(), concurrency=2) as (engine, transport):
        tasks = [asyncio.create_task(engine.complete(ask(f"q{n}"))) for n in range(6)]
        await asyncio.sleep(0.01)
        engine.stop()
        gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [getattr(one, "value", None) for one in found] == ["yes"] * 2 + [None] * 4
        assert len(transport.sent) == 2
        assert engine.cache.get(ask("q1").request.key) is not None


async def test_a_cache_that_cannot_be_written_stops_the_run(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a paid reply cannot be stored, no further call is paid for."""
    async with scripted_engine(cache_folder, by_turn(completion("yes")), concurrency=1) as (engine, transport):

        async def broken(*_: object) -> None:
            raise StorageError("the disk is full")

        monkeypatch.setattr(engine.cache, "put", broken)
        found = await gather_all(engine, [ask(f"q{n}") for n in range(10)])
        assert all(isinstance(one, StorageError | EngineStoppedError) for one in found)
        assert isinstance(engine.fatal, StorageError)
        assert len(transport.sent) <= 2


# --- money ------------------------------------------------------------------------------------------------------------


async def test_the_call_cap_is_never_exceeded(cache_folder: Path) -> None:
    """With `max_calls` 5, five calls leave, retries included; then the run ends with BudgetError."""
    for concurrency in (1, 8):
        turns = by_turn(refusal(500), completion("yes"))
        async with scripted_engine(cache_folder, turns, budget=Budget(max_calls=5), concurrency=concurrency) as (
            engine,
            transport,
        ):
            found = await gather_all(engine, [ask(f"{concurrency}-{n}") for n in range(20)])
            assert len(transport.sent) == 5
            assert isinstance(engine.fatal, BudgetError)
            assert sum(isinstance(one, Completion) for one in found) == 4


async def test_the_dollar_cap_is_exceeded_only_by_calls_in_flight(cache_folder: Path) -> None:
    """Each call costs a dollar: a budget of five stops within five dollars and the calls in flight."""
    price = Price(input=10_000.0, cached=10_000.0, output=0.0)

    async def answer() -> RawReply:
        await asyncio.sleep(0)
        return completion("yes")

    for concurrency in (1, 4):
        async with scripted_engine(
            cache_folder, lambda *_: answer(), budget=Budget(max_usd=5.0), price=price, concurrency=concurrency
        ) as (engine, transport):
            await gather_all(engine, [ask(f"{concurrency}-{n}") for n in range(50)])
            assert isinstance(engine.fatal, BudgetError)
            assert 5 <= len(transport.sent) <= 5 + concurrency
            assert engine.stats().usd == len(transport.sent)


async def test_the_dollar_cap_counts_lost_calls(cache_folder: Path) -> None:
    """Two of three calls are lost and may be billed: each is expected to cost as much as an answered one."""
    price = Price(input=10_000.0, cached=10_000.0, output=0.0)

    def answer(_: Request, number: int) -> RawReply | Exception:
        return lost() if number % 3 else completion("yes")

    async with scripted_engine(cache_folder, answer, budget=Budget(max_usd=9.0), price=price, concurrency=1) as (
        engine,
        transport,
    ):
        await gather_all(engine, [ask(f"q{n}") for n in range(50)])
        assert isinstance(engine.fatal, BudgetError)
        assert 9 <= len(transport.sent) <= 10
        assert engine.stats().usd == sum(number % 3 == 0 for number in range(len(transport.sent)))


# --- dry runs, offline runs, failures ---------------------------------------------------------------------------------


async def test_a_dry_run_counts_and_sends_nothing(cache_folder: Path) -> None:
    """Each different question counts once with its tokens; cached ones are used and not counted."""
    async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, _):
        await engine.complete(ask("paid"))
    async with scripted_engine(cache_folder, by_turn(AssertionError("a call")), dry_run=True) as (engine, transport):
        assert (await engine.complete(ask("paid"))).value == "yes"
        for text in ("a", "a", "b"):
            assert (await engine.complete(ask(text))).value == "planned"
        stats = engine.stats()
        assert not transport.sent
        assert (stats.planned_calls, stats.cache_hits, stats.sent) == (2, 1, 0)
        assert (stats.planned_completion_tokens, stats.planned_max_completion_tokens) == (14, 200)
        assert engine.cache.get(ask("a").request.key) is None


async def test_final_failures_are_asked_again_only_on_request(cache_folder: Path, tmp_path: Path) -> None:
    """A resumed run does not ask a failed question again; with `forget` it does."""
    path = tmp_path / "failures.jsonl"
    async with scripted_engine(cache_folder, by_turn(completion("bad")), failures=FailureLog(path)) as (engine, _):
        assert (await engine.complete(ask())).outcome is Outcome.PARSE_ERROR
    async with scripted_engine(cache_folder, by_turn(AssertionError("a call")), failures=FailureLog(path)) as (
        engine,
        transport,
    ):
        done = await engine.complete(ask())
        assert (done.outcome, done.detail, len(transport.sent)) == (Outcome.PARSE_ERROR, "Your answer was bad.", 0)
    async with scripted_engine(cache_folder, by_turn(completion("good")), failures=FailureLog(path, forget=True)) as (
        engine,
        _,
    ):
        assert (await engine.complete(ask())).value == "good"
    async with scripted_engine(cache_folder, by_turn(AssertionError("a call")), failures=FailureLog(path)) as (
        engine,
        _,
    ):
        assert (await engine.complete(ask())).value == "good"


def test_a_torn_or_invalid_line_of_the_failures_log_is_skipped(tmp_path: Path) -> None:
    """After a kill within a line, the next failure is still readable."""
    path = tmp_path / "failures.jsonl"
    FailureLog(path).add("k1", Outcome.API_ERROR, "one")
    whole = path.read_bytes()
    invalid = b'{"key": "k9", "outcome": "no such"}\n[1]\nnull\n\xff\n{"key": 5}\n'
    for cut in range(1, len(whole)):
        path.write_bytes(invalid + whole + whole[:cut])
        log = FailureLog(path)
        assert log.get("k1") == (Outcome.API_ERROR, "one")
        log.add("k2", Outcome.REFUSAL, "two")
        assert FailureLog(path).get("k2") == (Outcome.REFUSAL, "two"), cut
