"""The lanes before an endpoint, and the worker pool: slots, rates, pauses, stops, cancellation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual import Endpoint, in_virtual_time, now

from svr_async.engine.admission.lane import DEFAULT_PAUSE_S, MIN_PAUSE_S, PATIENCE_S, Lane, LaneStoppedError, Permit
from svr_async.engine.admission.lanes import SHORT_LINE, Endpoints, Lanes
from svr_async.engine.classify import Billed, Failure, Kind
from svr_async.engine.config import EngineConfig
from svr_async.engine.flow import bounded_map

REFUSED = Failure(kind=Kind.TRANSIENT, detail="refused", signature="refused", billed=Billed.NO)


def open_lanes(count: int = 1, **config: Any) -> Lanes:
    """Return lanes on the time of the running loop."""
    settings_ = EngineConfig(**config)
    lanes = [Lane(Endpoint(), settings_, name=f"e{n}", many=count > 1) for n in range(count)]
    return Lanes(lanes, ceiling=settings_.concurrency, clock=asyncio.get_running_loop().time)


async def test_never_more_in_flight_than_allowed() -> None:
    """However calls come and go, the number between `enter` and `leave` stays within the limit."""
    lanes, peak = open_lanes(concurrency=3), 0

    async def call() -> None:
        nonlocal peak
        permit = await lanes.enter()
        peak = max(peak, lanes.in_flight)
        await asyncio.sleep(0)
        lanes.leave(permit)

    await asyncio.gather(*(call() for _ in range(50)))
    assert peak == 3
    assert (lanes.in_flight, lanes.waiting) == (0, 0)


async def test_who_comes_first_leaves_first() -> None:
    """The line is kept, and nobody passes those who wait, even at a moment when there is room."""
    lanes, left = open_lanes(concurrency=2), []

    async def call(number: int) -> None:
        permit = await lanes.enter()
        left.append(number)
        await asyncio.sleep(0)
        lanes.leave(permit)

    await asyncio.gather(*(call(n) for n in range(20)))
    assert left == list(range(20))


async def test_a_permit_is_not_lost_when_its_call_is_cancelled() -> None:
    """A call that is cancelled in the moment it was given a permit hands it to the next."""
    lanes = open_lanes(concurrency=1)
    first = await lanes.enter()
    second, third = (asyncio.create_task(lanes.enter()) for _ in range(2))
    await asyncio.sleep(0)
    assert lanes.waiting == 2
    lanes.leave(first)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.wait_for(third, 5)
    assert (lanes.in_flight, lanes.waiting) == (1, 0)


async def test_calls_cancelled_while_waiting_leave_no_trace() -> None:
    """A waiting call that is cancelled is no longer counted as waiting."""
    lanes = open_lanes(concurrency=1)
    permit = await lanes.enter()
    tasks = [asyncio.create_task(lanes.enter()) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[:3]:
        task.cancel()
    await asyncio.sleep(0)
    assert lanes.waiting == 2
    for task in tasks[3:]:
        lanes.leave(permit)
        permit = await task
    lanes.leave(permit)
    assert (lanes.in_flight, lanes.waiting) == (0, 0)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6))
@in_virtual_time
async def test_random_cancellations_leak_no_slot(seed: int) -> None:
    """After any mixture of calls, pauses and cancellations every permit is back and nobody waits for ever."""
    rng = random.Random(seed)
    lanes = open_lanes(rng.randint(1, 3), concurrency=rng.randint(1, 3), rpm=rng.choice((None, 6000.0)))

    async def call() -> None:
        permit = await lanes.enter()
        try:
            for _ in range(rng.randint(0, 3)):
                await asyncio.sleep(rng.random() / 100)
            if rng.random() < 0.2:
                permit.lane.pause(now(), rng.random())
        finally:
            lanes.leave(permit)

    tasks = [asyncio.create_task(call()) for _ in range(12)]
    for _ in range(30):
        rng.choice(tasks).cancel() if rng.random() < 0.4 else None
        await asyncio.sleep(rng.random() / 100)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (lanes.in_flight, lanes.waiting) == (0, 0)


async def test_stopping_turns_away_those_who_wait() -> None:
    """After `stop` waiting and new calls raise, whether they wait for a permit, a rate or the end of a pause."""
    full = open_lanes(concurrency=1)
    await full.enter()
    paused = open_lanes(concurrency=1)
    paused.lanes[0].pause(now(), 1000.0)
    slow = open_lanes(concurrency=1, rpm=1.0)
    slow.leave(await slow.enter())
    for lanes in (full, paused, slow):
        waiting = asyncio.create_task(lanes.enter())
        await asyncio.sleep(0)
        lanes.stop()
        for refused in (waiting, lanes.enter()):
            with pytest.raises(LaneStoppedError):
                await refused
        assert lanes.waiting == 0


@in_virtual_time
async def test_a_pause_holds_every_call_and_the_later_deadline_counts() -> None:
    """Two rate limits at once: nobody leaves before the later of the two ends, and not much after it."""
    lanes = open_lanes(concurrency=10)
    lanes.lanes[0].pause(now(), 5.0)
    lanes.lanes[0].pause(now(), 2.0)
    begun = now()
    await asyncio.gather(*(lanes.enter() for _ in range(4)))
    assert 5.0 <= now() - begun <= 5.6
    assert lanes.stats()[0].paused_s >= 5.0


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 100) | st.none()), min_size=1, max_size=20))
def test_of_all_deadlines_the_latest_counts(pauses: list[tuple[float, float | None]]) -> None:
    """No later pause shortens an earlier one, whatever was asked for in which order (row 35 of the fault table)."""
    lane, moment, latest = Lane(Endpoint(), EngineConfig()), 0.0, 0.0
    for later, seconds in pauses:
        moment += later
        latest = max(latest, moment + (seconds or 0.0))
        lane.pause(moment, seconds)
        assert lane.paused_until >= latest
        assert lane.opens_at(moment, 1) >= lane.paused_until


@pytest.mark.parametrize(("asked", "most"), [(None, DEFAULT_PAUSE_S), (0.0, 2 * MIN_PAUSE_S)])
def test_a_rate_limit_without_a_time_still_pauses(asked: float | None, most: float) -> None:
    """To be asked back after 0 seconds, or without a time, is not "at once", nor is it a whole second."""
    lane = Lane(Endpoint(), EngineConfig())
    lane.pause(50.0, asked)
    assert 50.0 + MIN_PAUSE_S <= lane.paused_until <= 50.0 + most


def test_without_a_time_each_event_in_a_row_may_wait_twice_as_long() -> None:
    """Full jitter below a bound that doubles, up to a minute; calls refused together are one event."""
    lane, longest = Lane(Endpoint(), EngineConfig()), 0.0
    for event in range(40):
        moment = 100.0 * event
        for _ in range(10):
            lane.pause(moment, None, sent_at=moment - 1.0 if lane.paused_until < moment else moment - 2.0)
        wait_s = lane.paused_until - moment
        assert wait_s <= min(60.0, DEFAULT_PAUSE_S * 2.0**event)
        longest = max(longest, wait_s)
    assert longest > 5.0


@pytest.mark.parametrize(
    ("limits", "tokens"), [({"rpm": 600.0}, 1), ({"tpm": 6000.0}, 10), ({"rpm": 6e9, "tpm": 6000.0}, 10)]
)
@in_virtual_time
async def test_rates_are_kept_after_a_short_burst(limits: dict[str, Any], tokens: int) -> None:
    """At ten calls a second, half a second's worth leaves at once and the rest one by one."""
    lanes, begun = open_lanes(concurrency=1, **limits), now()
    for _ in range(110):
        lanes.leave(await lanes.enter(tokens))
    assert 10.4 <= now() - begun <= 10.7


async def test_a_call_that_waits_for_a_rate_holds_no_permit() -> None:
    """Only calls that have left count as under way; one that is cancelled while it waits takes nothing with it."""
    lanes = open_lanes(concurrency=5)
    lanes.lanes[0].pause(asyncio.get_running_loop().time(), 1000.0)
    task = asyncio.create_task(lanes.enter())
    await asyncio.sleep(0)
    assert (lanes.in_flight, lanes.waiting) == (0, 1)
    assert lanes.stats()[0].state == "rate limited"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (lanes.in_flight, lanes.waiting) == (0, 0)


@in_virtual_time
async def test_new_items_wait_while_the_line_is_long() -> None:
    """With far more workers than permits, an item that is under way makes its next call before new items begin."""
    lanes, under_way, most = open_lanes(concurrency=4), 0, 0

    async def item() -> None:
        nonlocal under_way, most
        await lanes.turn()
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            permit = await lanes.enter()
            await asyncio.sleep(0.1)
            lanes.leave(permit)
        under_way -= 1

    await asyncio.gather(*(item() for _ in range(500)))
    assert most <= 4 + 2 * SHORT_LINE


@in_virtual_time
async def test_a_spare_worker_begins_only_when_a_question_waits_between_two_tries() -> None:
    """Of twelve workers for four calls no more than four are busy, with commits counted; nobody waits for ever."""
    lanes, busy, most, done = open_lanes(concurrency=4), 0, 0, 0
    lanes.busy = lambda: busy
    numbers = iter(range(300))

    async def work() -> None:
        nonlocal busy, most, done
        for number in numbers:
            await lanes.turn()
            busy += 1
            most = max(most, busy)
            lanes.leave(await lanes.enter())
            if number % 50 == 0:
                busy -= 1
                lanes.begin()
                await asyncio.sleep(5.0)  # between two tries
                busy += 1
            await asyncio.sleep(0.1)  # its commit
            busy -= 1
            done += 1
            lanes.begin()

    await asyncio.gather(*(work() for _ in range(12)))
    assert (most <= 4 + 1, done) == (True, 300)


async def test_stopping_lets_items_that_wait_for_their_turn_see_it() -> None:
    """They go on to their first call, which is turned away; a cancelled one hands its turn on."""
    lanes = open_lanes(concurrency=1)
    await lanes.enter()
    line = [asyncio.create_task(lanes.enter()) for _ in range(SHORT_LINE)]
    await asyncio.sleep(0)
    first, second = asyncio.create_task(lanes.turn()), asyncio.create_task(lanes.turn())
    await asyncio.sleep(0)
    assert not first.done()
    first.cancel()
    await asyncio.sleep(0)
    lanes.stop()
    await asyncio.wait_for(second, 5)
    assert all(isinstance(one, LaneStoppedError) for one in await asyncio.gather(*line, return_exceptions=True))


# --- several endpoints ------------------------------------------------------------------------------------------------


async def test_a_call_goes_where_the_most_room_is() -> None:
    """Calls spread evenly over endpoints that are alike; one with a lower limit gets fewer; all share one ceiling."""
    lanes = open_lanes(3, concurrency=12)
    permits = [await lanes.enter() for _ in range(9)]
    assert [lane.in_flight for lane in lanes.lanes] == [3, 3, 3]
    lanes.lanes[0].limiter.fall(now(), 4)
    permits += [await lanes.enter() for _ in range(3)]
    assert [lane.in_flight for lane in lanes.lanes] == [3, 5, 4]
    assert lanes.try_enter(now()) is None
    for permit in permits:
        lanes.leave(permit)
    assert lanes.in_flight == 0


@in_virtual_time
async def test_one_that_is_down_is_left_alone_and_tried_again() -> None:
    """Five failures take an endpoint out; others go on; then one call tries it, and its answer brings it back."""
    lanes = open_lanes(2, concurrency=4, wait_s=1.0)
    dead = lanes.lanes[0]
    for _ in range(5):
        permit = dead.take(now(), 1)
        dead.failed(permit, now(), REFUSED)
        lanes.leave(permit)
    assert (dead.breaker.opened, lanes.all_down, lanes.stats()[0].state) == (1, False, "down")
    others = [await lanes.enter() for _ in range(3)]
    assert {permit.lane.name for permit in others} == {"e1"}
    await asyncio.sleep(1.1)
    trial = await lanes.enter()
    assert (trial.lane.name, lanes.stats()[0].state) == ("e0", "trying")
    dead.succeeded(trial, now(), written=1)
    lanes.leave(trial)
    assert lanes.stats()[0].state == "ready"


@in_virtual_time
async def test_when_all_are_down_a_call_waits_for_the_first_of_them() -> None:
    """It never fails for that: it leaves by the lane that opens first, at that moment."""
    lanes = open_lanes(3, concurrency=4)
    for lane, seconds in zip(lanes.lanes, (9.0, 3.0, 6.0), strict=True):
        lane.pause(now(), seconds)
    begun = now()
    permit = await lanes.enter()
    assert permit.lane.name == "e1"
    assert 3.0 <= now() - begun <= 3.4


@in_virtual_time
async def test_a_trial_that_is_cancelled_lets_another_call_try() -> None:
    """The one call that may try a closed endpoint is not waited for when it never ends."""
    lanes = open_lanes(1, concurrency=4, wait_s=0.1)
    lane = lanes.lanes[0]
    for _ in range(20):
        permit = lane.take(now(), 1)
        lane.failed(permit, now(), REFUSED)
        lanes.leave(permit)
    await asyncio.sleep(0.2)
    trial = await lanes.enter()
    second = asyncio.create_task(lanes.enter())
    await asyncio.sleep(1.0)
    assert not second.done()
    lanes.leave(trial)  # cancelled: nobody was told how it ended
    assert isinstance(await second, Permit)


async def test_several_endpoints_are_one_transport() -> None:
    """What asks only for a transport gets the first; closing closes all."""
    closed = []

    class Closing(Endpoint):
        async def close(self) -> None:
            closed.append(self)

    members = {"a": Closing(), "b": Closing()}
    group = Endpoints(members)
    await group.close()
    assert closed == list(members.values())


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


NOTHING_LEFT = {"x-ratelimit-limit-requests": "2", "x-ratelimit-remaining-requests": "0"}
TURNED_AWAY = Failure(kind=Kind.RATE_LIMITED, detail="slow down", signature="429", billed=Billed.NO, wait_s=1.0)


def test_headers_that_no_refusal_bears_out_hold_a_call_for_a_few_seconds_at_most() -> None:
    """An endpoint that always says that nothing is left, and answers, slows a run and does not stop it."""
    lane, at = Lane(Endpoint(), EngineConfig()), 0.0
    for _ in range(4):
        permit = lane.take(at, 0)
        lane.leave(permit)
        lane.hear(permit, at + 0.1, NOTHING_LEFT)
        lane.succeeded(permit, at + 0.1, written=1)
        opens = lane.opens_at(at + 0.1, 0)
        assert opens == pytest.approx(at + PATIENCE_S)
        at = opens


def test_headers_are_kept_to_once_a_refusal_has_borne_them_out() -> None:
    """The call that leaves against them is refused, which costs nothing; from then on none does."""
    lane = Lane(Endpoint(), EngineConfig())
    first = lane.take(0.0, 0)
    lane.hear(first, 0.1, NOTHING_LEFT)
    against = lane.take(PATIENCE_S, 0)
    lane.failed(against, PATIENCE_S + 0.1, TURNED_AWAY)
    lane.hear(against, PATIENCE_S + 0.1, NOTHING_LEFT)
    assert lane.opens_at(PATIENCE_S + 2, 0) > PATIENCE_S + 20


async def test_a_wait_for_what_headers_say_is_told() -> None:
    """Who watches hears which endpoint it is, as soon as a call has to wait long."""
    lanes = open_lanes()
    told: list[Lane] = []
    lanes.slow = told.append
    permit = await lanes.enter()
    permit.lane.hear(permit, asyncio.get_running_loop().time(), NOTHING_LEFT)
    lanes.leave(permit)
    waiting = asyncio.ensure_future(lanes.enter())
    await asyncio.sleep(0)
    assert told == [permit.lane]
    lanes.stop()
    with pytest.raises(LaneStoppedError):
        await waiting
