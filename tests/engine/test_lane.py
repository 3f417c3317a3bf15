"""The lane and the worker pool: slots, rates, pauses, cancellation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.engine import lane as lane_module
from svr_async.engine.flow import bounded_map
from svr_async.engine.lane import Lane, LaneStoppedError


class Clock:
    """A clock that moves only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        monkeypatch.setattr(lane_module.time, "monotonic", lambda: self.now)
        sleep = asyncio.sleep

        async def fast(seconds: float) -> None:
            self.slept.append(seconds)
            self.now += seconds
            await sleep(0)

        monkeypatch.setattr(lane_module.asyncio, "sleep", fast)


async def test_never_more_in_flight_than_allowed() -> None:
    """However calls come and go, the number between `enter` and `leave` stays within the limit."""
    lane, peak = Lane(concurrency=3), 0

    async def call() -> None:
        nonlocal peak
        await lane.enter(1)
        peak = max(peak, lane.in_flight)
        await asyncio.sleep(0)
        lane.leave()

    await asyncio.gather(*(call() for _ in range(50)))
    assert peak == 3
    assert (lane.in_flight, lane.waiting) == (0, 0)


async def test_a_wake_up_is_not_lost_when_its_call_is_cancelled() -> None:
    """A call that is cancelled in the moment it was given the slot hands the slot to the next."""
    lane = Lane(concurrency=1)
    await lane.enter(1)
    second, third = (asyncio.create_task(lane.enter(1)) for _ in range(2))
    await asyncio.sleep(0)
    assert lane.waiting == 2
    lane.leave()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.wait_for(third, 5)
    assert (lane.in_flight, lane.waiting) == (1, 0)


async def test_calls_cancelled_while_waiting_leave_no_trace() -> None:
    """A waiting call that is cancelled is no longer counted as waiting."""
    lane = Lane(concurrency=1)
    await lane.enter(1)
    tasks = [asyncio.create_task(lane.enter(1)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[:3]:
        task.cancel()
    await asyncio.sleep(0)
    assert lane.waiting == 2
    for _ in range(3):
        lane.leave()
        await asyncio.sleep(0)
    assert lane.in_flight == 0


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_random_cancellations_leak_no_slot(seed: int) -> None:
    """After any mixture of calls and cancellations every slot is free and nobody waits for ever."""

    async def scenario() -> None:
        rng = random.Random(seed)
        lane = Lane(concurrency=rng.randint(1, 3))

        async def call() -> None:
            await lane.enter(1)
            try:
                for _ in range(rng.randint(0, 3)):
                    await asyncio.sleep(0)
            finally:
                lane.leave()

        tasks = [asyncio.create_task(call()) for _ in range(12)]
        for _ in range(30):
            rng.choice(tasks).cancel() if rng.random() < 0.4 else None
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert (lane.in_flight, lane.waiting) == (0, 0)

    asyncio.run(scenario())


async def test_stopping_turns_away_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `stop` waiting and new calls raise, whether they wait for a slot, a rate or a pause."""
    Clock(monkeypatch)
    lane = Lane(concurrency=1)
    await lane.enter(1)
    waiting = asyncio.create_task(lane.enter(1))
    await asyncio.sleep(0)
    lane.stop()
    for refused in (waiting, lane.enter(1)):
        with pytest.raises(LaneStoppedError):
            await refused
    paused = Lane(concurrency=1)
    paused.pause(1000)
    task = asyncio.create_task(paused.enter(1))
    await asyncio.sleep(0)
    paused.stop()
    with pytest.raises(LaneStoppedError):
        await task
    assert paused.in_flight == 0


async def test_a_pause_holds_every_call_and_the_later_deadline_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rate limits at once: nobody leaves before the later of the two ends."""
    clock = Clock(monkeypatch)
    lane = Lane(concurrency=10)
    lane.pause(5)
    lane.pause(2)
    begun = clock.now
    await asyncio.gather(*(lane.enter(1) for _ in range(4)))
    assert clock.now >= begun + 5


@pytest.mark.parametrize(("asked", "least"), [(None, lane_module.DEFAULT_PAUSE_S), (0.0, lane_module.MIN_PAUSE_S)])
async def test_a_rate_limit_without_a_time_still_pauses(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, least: float
) -> None:
    """To be asked back after 0 seconds, or without a time, is not "at once": the endpoint is never hammered."""
    clock = Clock(monkeypatch)
    lane = Lane(concurrency=1)
    lane.pause(asked)
    begun = clock.now
    await lane.enter(1)
    assert clock.now >= begun + least


@pytest.mark.parametrize(
    ("limits", "tokens"), [({"rpm": 600.0}, 1), ({"tpm": 6000.0}, 10), ({"rpm": 6e9, "tpm": 6000.0}, 10)]
)
async def test_rates_are_kept_after_a_short_burst(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, float], tokens: int
) -> None:
    """At ten calls a second, a second's worth leaves at once and the rest one by one."""
    clock = Clock(monkeypatch)
    lane = Lane(concurrency=1, **limits)
    begun = clock.now
    for _ in range(110):
        await lane.enter(tokens)
        lane.leave()
    assert 9.8 <= clock.now - begun <= 10.3


async def test_a_cancelled_call_that_waited_for_its_rate_gives_its_slot_back() -> None:
    """Cancellation while waiting for the rate leaks no slot."""
    lane = Lane(concurrency=1)
    lane.pause(1000)
    task = asyncio.create_task(lane.enter(1))
    await asyncio.sleep(0)
    assert lane.in_flight == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lane.in_flight == 0


# --- the worker pool -------------------------------------------------------------------------------------------------


async def test_results_carry_their_index_whatever_the_order() -> None:
    """Results come as they end, each with the place of its item."""

    async def work(n: int) -> int:
        for _ in range(10 - n):
            await asyncio.sleep(0)
        return n * n

    async with aclosing(bounded_map(work, range(10), workers=10)) as done:
        found = [pair async for pair in done]
    assert sorted(found) == [(n, n * n) for n in range(10)]
    assert found != sorted(found)


async def test_items_are_taken_only_when_a_worker_is_free() -> None:
    """The iterator is never run ahead of: a million items cost no more memory than a few."""
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for n in range(10**6):
            taken += 1
            yield n

    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async with aclosing(bounded_map(work, items(), workers=4)) as done:
        async for index, _ in done:
            assert taken <= index + 4 * 4 + 8
            if index == 100:
                break
    assert taken < 200


async def test_leaving_early_cancels_what_is_left() -> None:
    """After the loop is left no worker runs on."""
    cancelled = 0

    async def work(n: int) -> int:
        nonlocal cancelled
        if n == 0:
            return n
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return n

    async with aclosing(bounded_map(work, range(100), workers=5)) as done:
        async for _ in done:
            break
    assert cancelled >= 4
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_in_the_work_reaches_the_consumer_and_ends_the_rest() -> None:
    """The first exception is raised in the loop; other workers are cancelled."""

    async def work(n: int) -> int:
        await asyncio.sleep(0)
        if n == 7:
            raise ValueError("seven")
        return n

    async def consume() -> None:
        async with aclosing(bounded_map(work, range(100), workers=5)) as done:
            async for _ in done:
                pass

    with pytest.raises(ValueError, match="seven"):
        await consume()
    assert len(asyncio.all_tasks()) == 1


async def test_nothing_to_do_ends_at_once() -> None:
    """An empty iterator gives no results, with any number of workers."""

    async def work(n: int) -> int:
        return n

    for workers in (0, 1, 50):
        async with aclosing(bounded_map(work, (), workers=workers)) as done:
            assert [pair async for pair in done] == []
