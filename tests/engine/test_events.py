"""What an engine tells those who watch it, and the instruments behind its facts: histogram, lag, stats."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import ask, by_turn, completion, refusal, scripted_engine
from svr_async.engine.lag import EVERY_S, LagProbe

from svr_async.engine.engine import CallEngine
from svr_async.engine.events import (
    AttemptEnded,
    CallEnded,
    EndpointPaused,
    EngineStopped,
    Event,
    ItemFailed,
    RetryPlanned,
    Snapshot,
    Watch,
    observing,
)
from svr_async.engine.money import Price
from svr_async.engine.request import Request
from svr_async.engine.stats import FLOOR_S, Histogram, Spread
from svr_async.errors import AuthError
from svr_async.vocabulary.verdict import Outcome

Answer = Callable[[Request, int], Any]


def kinds(events: list[Event]) -> list[str]:
    """Return the names of events, without snapshots, whose number depends on the clock."""
    return [type(event).__name__ for event in events if not isinstance(event, Snapshot)]


def only(events: list[Event], kind: type[Any]) -> Any:
    """Return the one event of a kind."""
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, found
    return found[0]


# --- events -----------------------------------------------------------------------------------------------------------


async def test_nobody_watches_unless_asked_to(cache_folder: Path) -> None:
    """Without observers there is no watch, and calls go straight to the caller."""
    assert Watch.over() is None
    async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, _):
        assert engine._watch is None
        assert engine._calls is engine._caller


async def test_a_call_is_told_with_key_tokens_cost_and_time(cache_folder: Path) -> None:
    """One attempt, one call, and facts at the end; a cache hit is no call."""
    seen: list[Event] = []
    with observing(seen.append):
        price = Price(input=1.0, cached=0.5, output=2.0)
        async with scripted_engine(cache_folder, by_turn(completion("yes")), price=price) as (engine, _):
            done = await engine.complete(ask())
            await engine.complete(ask())
    assert kinds(seen) == ["AttemptEnded", "CallEnded"]
    call = only(seen, CallEnded)
    assert (call.key, call.model, call.endpoint) == (done.key[:12], "m", "e")
    assert (call.attempts, call.status, call.error, call.finish_reason) == (1, 200, "", "stop")
    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens) == (100, 10, None)
    assert call.usd == pytest.approx(120e-6)
    assert 0 <= only(seen, AttemptEnded).seconds <= call.seconds
    last = seen[-1]
    assert isinstance(last, Snapshot)
    assert (last.closing, last.model, last.stats.sent, last.stats.cache_hits) == (True, "m", 1, 1)


async def test_tries_again_and_pauses_are_told_with_their_reasons(cache_folder: Path) -> None:
    """A 500, a rate limit, then an answer: two retries, one pause, three attempts, one call."""
    seen: list[Event] = []
    limited = refusal(429, "slow down", headers={"retry-after": "0.05"})
    answers = by_turn(refusal(500, "oops"), limited, completion("yes"))
    with observing(seen.append):
        async with scripted_engine(cache_folder, answers) as (engine, _):
            assert (await engine.complete(ask())).value == "yes"
    assert [type(event) for event in seen if isinstance(event, AttemptEnded | CallEnded)] == [AttemptEnded] * 3 + [
        CallEnded
    ]
    assert [event.error for event in seen if isinstance(event, AttemptEnded)] == ["500", "429", ""]
    retries = [event for event in seen if isinstance(event, RetryPlanned)]
    assert [(event.kind, event.attempt) for event in retries] == [("transient", 1), ("rate_limited", 2)]
    assert "oops" in retries[0].detail
    assert "slow down" in only(seen, EndpointPaused).reason
    assert (only(seen, CallEnded).attempts, only(seen, CallEnded).status) == (3, 200)


async def test_failures_and_stops_are_told(cache_folder: Path) -> None:
    """An item that is given up, and the error that ends the run, each once, with the outcome or the kind of error."""
    seen: list[Event] = []
    with observing(seen.append):
        async with scripted_engine(cache_folder, by_turn(refusal(400, "bad"), refusal(401, "key"))) as (engine, _):
            done = await engine.complete(ask("one"))
            assert done.outcome is Outcome.API_ERROR
            with pytest.raises(AuthError):
                await engine.complete(ask("two"))
    failed = only(seen, ItemFailed)
    assert (failed.key, failed.outcome) == (done.key[:12], "api_error")
    assert (only(seen, EngineStopped).error, "key" in only(seen, EngineStopped).detail) == ("AuthError", True)
    assert [event.error for event in seen if isinstance(event, CallEnded)] == ["item", "AuthError"]


async def test_a_cancelled_call_ends_too_and_nothing_is_held(cache_folder: Path) -> None:
    """However a call ends, it is told, and the watch keeps no trace of it."""
    seen: list[Event] = []
    started = asyncio.Event()

    async def never() -> Any:
        started.set()
        await asyncio.Event().wait()

    with observing(seen.append):
        async with scripted_engine(cache_folder, lambda *_: never()) as (engine, _):
            task = asyncio.create_task(engine.complete(ask()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert engine._watch is not None
            assert engine._watch._under_way == {}
    assert [event.error for event in seen if isinstance(event, AttemptEnded | CallEnded)] == ["CancelledError"] * 2


async def test_an_observer_that_fails_is_dropped_and_the_run_goes_on(
    cache_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Watching never stops a run: the others still see everything, and one line says what happened."""
    seen: list[Event] = []

    def broken(_: Event) -> None:
        raise ZeroDivisionError

    with observing(broken, seen.append), caplog.at_level(logging.WARNING):
        async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, _):
            assert (await engine.complete(ask())).value == "yes"
    assert kinds(seen) == ["AttemptEnded", "CallEnded"]
    assert [record.getMessage() for record in caplog.records] == [
        "an observer failed and is dropped: ZeroDivisionError()"
    ]


def test_blocks_of_observing_nest_and_end() -> None:
    """Inner blocks add to outer ones; after a block its observers are gone."""
    told: list[str] = []
    stopped = EngineStopped(error="e", detail="d")
    with observing(lambda _: told.append("outer")):
        with observing(lambda _: told.append("inner")):
            inside = Watch.over()
        outside = Watch.over()
    assert inside is not None
    assert outside is not None
    inside.tell(stopped)
    outside.tell(stopped)
    assert told == ["outer", "inner", "outer"]
    assert Watch.over() is None


def test_calls_refused_together_are_one_pause() -> None:
    """A later deadline is told again, the same one is not; each lane has its own."""
    seen: list[Event] = []
    watch = Watch([seen.append])
    for lane, seconds in (("a", 1.0), ("a", 1.1), ("a", 0.5), ("b", 1.0), ("a", 5.0)):
        watch.pause(lane, seconds, "slow down")
    told = [(event.lane, event.seconds) for event in seen if isinstance(event, EndpointPaused)]
    assert told == [("a", 1.0), ("b", 1.0), ("a", 5.0)]


# --- facts ------------------------------------------------------------------------------------------------------------


async def test_stats_tell_latency_and_limit(cache_folder: Path) -> None:
    """Each request with a usable reply counts in the latency; the limit is the concurrency that holds now."""
    async with scripted_engine(cache_folder, by_turn(refusal(500), completion("yes")), concurrency=3) as (engine, _):
        assert engine.stats().latency == Spread()
        await engine.complete(ask("one"))
        await engine.complete(ask("two"))
        stats = engine.stats()
        assert (stats.latency.count, stats.sent, stats.limit) == (2, 3, 3)
        assert stats.latency.p50 is not None
        assert stats.latency.max is not None
        assert stats.latency.p50 <= stats.latency.max


# --- histogram --------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(FLOOR_S, 9000, allow_nan=False), min_size=1, max_size=200),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_a_quantile_is_right_within_five_percent(seconds: list[float], share: float) -> None:
    """The histogram's answer lies within 4.5 % of the duration that the sorted list has at that place."""
    histogram = Histogram()
    for one in seconds:
        histogram.add(one)
    exact = sorted(seconds)[math.ceil(share * len(seconds)) - 1]
    found = histogram.quantile(share)
    assert found is not None
    assert abs(found - exact) <= 0.045 * exact
    assert histogram.spread().max == max(seconds)


def test_the_ends_of_the_scale_are_counted() -> None:
    """Nothing, the shortest and the longest durations have a place; without any there is no quantile."""
    histogram = Histogram()
    assert (histogram.quantile(0.5), histogram.spread()) == (None, Spread())
    for seconds in (0.0, 1e-9, 1e9):
        histogram.add(seconds)
    assert histogram.spread().count == 3
    assert histogram.spread().max == 1e9


# --- lag --------------------------------------------------------------------------------------------------------------


class HandLoop:
    """A loop whose clock is set by hand and whose timers fire when told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        """Return the clock."""
        return self.now

    def call_at(self, when: float, work: Callable[[], None]) -> HandLoop:
        """Keep a timer."""
        self.timers.append((when, work))
        return self

    def cancel(self) -> None:
        """Forget the timer."""

    def fire(self, late_s: float) -> None:
        """Let the next timer fire so late."""
        when, work = self.timers.pop(0)
        self.now = when + late_s
        work()


def probe_on(loop: HandLoop, busy: list[int], beats: list[float] | None = None) -> LagProbe:
    """Return a probe that runs on a loop of this kind while `busy` holds something."""
    probe = LagProbe(lambda: busy, None if beats is None else lambda: beats.append(loop.now))
    probe.running, probe._loop, probe._next_beat = True, loop, 1.0  # type: ignore[assignment]
    probe._arm(loop)  # type: ignore[arg-type]
    return probe


def test_a_stall_counts_for_all_the_time_that_it_lasts() -> None:
    """After 9 ticks on time and a stall of ten ticks, half of the time was late, not a tenth of the ticks."""
    loop, busy = HandLoop(), [1]
    probe = probe_on(loop, busy)
    for _ in range(9):
        loop.fire(0.0)
    loop.fire(10 * EVERY_S)
    spread = probe.spread()
    assert spread.count == 9 + 11
    assert spread.max == pytest.approx(10 * EVERY_S)
    assert spread.p99 == pytest.approx(10 * EVERY_S, rel=0.05)
    assert spread.p50 is not None
    assert spread.p50 < EVERY_S < (spread.p90 or 0)


def test_the_probe_rests_when_there_is_no_work_and_beats_once_more() -> None:
    """It stops at the first idle tick, so that an idle engine wakes nobody; the facts are told at that moment."""
    loop, busy, beats = HandLoop(), [1], list[float]()
    probe = probe_on(loop, busy, beats)
    for _ in range(30):
        loop.fire(0.0)
    assert len(beats) == 1
    busy.clear()
    loop.fire(0.0)
    assert (probe.running, loop.timers, len(beats)) == (False, [], 2)


def probe_runs(engine: CallEngine) -> bool:
    """Whether the lag of the event loop is being measured."""
    return bool(engine._probe.running)


async def test_the_probe_runs_with_the_first_call_and_ends_with_the_engine(cache_folder: Path) -> None:
    """A cache hit starts no timer; a call does; closing the engine cancels it."""
    async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, _):
        assert not probe_runs(engine)
        await engine.complete(ask())
        assert probe_runs(engine)
    assert not probe_runs(engine)
    async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, _):
        await engine.complete(ask())
        assert not engine._probe.running
