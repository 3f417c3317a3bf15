"""Endpoint slots: the concurrency limit, the breaker, token buckets, pauses, and the queue before them."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual import in_virtual_time, now

from svr_async.engine.classify import Billed, Failure, Kind
from svr_async.engine.endpoint import NEVER, Breaker, ConcurrencyLimit, Endpoint, EndpointPool, EngineStoppedError
from svr_async.engine.rates import Bucket, RateHeaders, ReportedRate

LIMITED = Failure(kind=Kind.RATE_LIMITED, detail="slow down", status=429)
BUSY = Failure(kind=Kind.TRANSIENT, detail="busy", status=503)
GONE = Failure(kind=Kind.TRANSIENT, detail="gone", billed=Billed.NO)

# --- the concurrency limit --------------------------------------------------------------------------------------------


def play(limit: ConcurrencyLimit, rounds: int, *, refused: float = 0.0, seats: float = NEVER) -> list[int]:
    """Play rounds of one second, each with `limit` calls; return the limit after each.

    A share `refused` fails at random, and so do calls beyond the `seats`, which also bound the throughput.
    """
    chance, found, start = random.Random(0), list[int](), 0.0
    for _ in range(rounds):
        size = limit.limit
        seconds = max(1.0, size / seats)
        for number in range(size):
            at = start + seconds * (number + 1) / size
            if chance.random() < refused:
                limit.refused(at, start)
            else:
                limit.succeeded(at, start, size)
        start += seconds + 0.01
        found.append(limit.limit)
    return found


def test_the_limit_doubles_while_the_throughput_grows() -> None:
    """From its start to the ceiling; it stays there."""
    assert play(ConcurrencyLimit(ceiling=200, start=32), 5) == [64, 128, 200, 200, 200]


def test_the_limit_stops_doubling_if_that_does_not_pay() -> None:
    """An endpoint that serves 64 calls a second gets a few times as many, not the whole ceiling."""
    assert max(play(ConcurrencyLimit(ceiling=4096, start=32), 30, seats=64.0)) <= 256


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_a_few_random_refusals_do_not_lower_the_limit(share: float) -> None:
    """Some endpoints fail at random: that is no overload."""
    assert min(play(ConcurrencyLimit(ceiling=64), 300, refused=share)) == 64


def test_many_refusals_halve_the_limit_and_successes_bring_it_back() -> None:
    """It falls to 1 and never below; then it climbs back to where it was, step by step."""
    limit = ConcurrencyLimit(ceiling=64)
    fallen = play(limit, 200, refused=1.0)
    assert fallen == sorted(fallen, reverse=True)
    assert fallen[-1] == 1
    climbed = play(limit, 2000)
    assert climbed == sorted(climbed)
    assert climbed[-1] == 64
    limit.restart(10**6)
    assert limit.limit == 32
    assert play(ConcurrencyLimit(ceiling=1), 50, refused=1.0)[-1] == 1


def test_calls_from_before_a_fall_do_not_count() -> None:
    """The refusals of calls that left together lower the limit once."""
    limit = ConcurrencyLimit(ceiling=64)
    falls = [limit.refused(10.0, 9.0) for _ in range(64)]
    assert (falls.count(True), limit.limit) == (1, 32)


# --- the breaker ------------------------------------------------------------------------------------------------------


def test_the_breaker_opens_after_failures_in_a_row_and_waits_twice_as_long_each_time() -> None:
    """A success in between starts the count anew; an old answer does not close it; a trial's answer does."""
    breaker = Breaker(wait_s=1.0, longest_s=5.0, least=3)
    assert [breaker.failed(0.0, 0.0) for _ in range(2)] == [False, False]
    breaker.succeeded(0.0)
    assert [breaker.failed(0.0, 0.0) for _ in range(3)] == [False, False, True]
    waits, at = [breaker.retry_at], breaker.retry_at
    for _ in range(4):
        assert breaker.failed(at, at)
        waits.append(breaker.retry_at - at)
        at = breaker.retry_at
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]
    breaker.succeeded(at - 0.1)
    assert breaker.opened == 5
    breaker.succeeded(at)
    assert breaker.opened == 0


# --- rates ------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(rate=st.floats(0.1, 1000), gaps=st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_a_bucket_never_lets_more_leave_than_its_rate_allows(rate: float, gaps: list[float]) -> None:
    """In any time span at most its capacity and the rate's share leave."""
    bucket, at, left = Bucket(rate), 0.0, list[float]()
    for gap in gaps:
        at = max(at + gap, bucket.opens_at(1.0))
        bucket.take(at, 1.0)
        left.append(at)
    for first in range(len(left)):
        assert len(left) - first <= bucket.cap + (left[-1] - left[first]) * rate + 1e-3


def test_reported_rates_are_adopted_and_corrected() -> None:
    """The level is what the headers report as remaining, less what left since; older replies change nothing."""
    rate = ReportedRate()
    assert (rate.rate, rate.opens_at(1.0)) == (None, float("-inf"))
    rate.update(10.0, RateHeaders(limit=60.0, remaining=0.0, reset_s=None), sent_at=10.0, since=0.0)
    assert rate.rate == 1.0
    assert 11.0 <= rate.opens_at(1.0) <= 11.1
    rate.update(12.0, RateHeaders(limit=60.0, remaining=30.0, reset_s=None), sent_at=12.0, since=10.0)
    rate.take(12.0, 15.0)
    assert rate.opens_at(4.0) <= 12.0 < rate.opens_at(6.0)
    rate.update(13.0, RateHeaders(limit=6000.0, remaining=0.0, reset_s=None), sent_at=11.0, since=0.0)
    assert rate.rate == 1.0


# --- the queue --------------------------------------------------------------------------------------------------------


def pool_of(*limits: int, ceiling: int = 1000) -> EndpointPool:
    """Return endpoints with these limits on virtual time."""
    endpoints = [
        Endpoint(None, limit=ConcurrencyLimit(ceiling=limit), breaker=Breaker(least=5), name=f"e{n}")  # type: ignore[arg-type]
        for n, limit in enumerate(limits)
    ]
    return EndpointPool(endpoints, ceiling=ceiling, clock=now)


@in_virtual_time
async def test_calls_leave_first_come_first_served_to_the_endpoint_with_room() -> None:
    """Never more than the limits and the ceiling allow; a cancelled call gives its place to the next."""
    pool = pool_of(2, 4, ceiling=5)
    slots = [slot for _ in range(9) if (slot := pool.try_enter(now())) is not None]
    assert len(slots) == 5
    order: list[int] = []

    async def enter(number: int) -> None:
        await pool.enter()
        order.append(number)

    tasks = [asyncio.create_task(enter(number)) for number in range(6)]
    await asyncio.sleep(0.01)
    assert (pool.waiting, pool.try_enter(now())) == (6, None)
    tasks[1].cancel()
    await asyncio.sleep(0.01)
    assert pool.waiting == 5
    for slot in slots[:3]:
        pool.leave(slot)
    await asyncio.sleep(0.01)
    assert order == [0, 2, 3]
    tasks[4].cancel()
    pool.leave(slots[3])
    await asyncio.sleep(0.01)
    assert (order, pool.in_flight, pool.waiting) == ([0, 2, 3, 5], 5, 0)


@in_virtual_time
async def test_a_call_cancelled_in_the_moment_of_its_turn_gives_the_slot_back() -> None:
    """No slot leaks between the grant and the wake-up."""
    pool = pool_of(1)
    first = await pool.enter()
    task = asyncio.create_task(pool.enter())
    await asyncio.sleep(0.01)
    pool.leave(first)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (pool.in_flight, pool.waiting) == (0, 0)


@in_virtual_time
async def test_a_stop_ends_all_waits() -> None:
    """Calls that wait raise EngineStoppedError, and nothing enters afterwards."""
    pool = pool_of(1)
    slot = await pool.enter()
    calls = [asyncio.create_task(pool.enter()) for _ in range(20)]
    await asyncio.sleep(0.01)
    pool.stop()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, EngineStoppedError) for one in found)
    pool.leave(slot)
    assert pool.try_enter(now()) is None
    with pytest.raises(EngineStoppedError):
        await pool.enter()


@in_virtual_time
async def test_a_refusal_pauses_only_its_endpoint() -> None:
    """The later of two ends counts; the other endpoint takes the calls meanwhile."""
    pool = pool_of(8, 8)
    endpoint = pool.endpoints[0]
    slot = endpoint.take(now(), 0)
    for wait_s in (10.0, 2.0):
        endpoint.failed(slot, now(), Failure(kind=Kind.RATE_LIMITED, detail="x", wait_s=wait_s, status=429))
    assert 10.0 <= endpoint.paused_until - now() <= 11.0
    assert endpoint.stats(now()).state == "rate limited"
    assert {(await pool.enter()).endpoint.name for _ in range(6)} == {"e1"}


@pytest.mark.parametrize(("failure", "state"), [(LIMITED, "rate limited"), (BUSY, "down"), (GONE, "down")])
@in_virtual_time
async def test_an_endpoint_that_fails_admits_calls_again_after_its_wait(failure: Failure, state: str) -> None:
    """A rate limit pauses it, an outage opens its breaker; then one call tries, and its answer opens it for all."""
    pool = pool_of(8)
    endpoint = pool.endpoints[0]
    for slot in [endpoint.take(now(), 0) for _ in range(5)]:
        endpoint.failed(slot, now(), failure)
        pool.leave(slot)
    assert (endpoint.stats(now()).state, pool.try_enter(now())) == (state, None)
    slot = await pool.enter()
    endpoint.succeeded(slot, now())
    pool.leave(slot)
    assert endpoint.stats(now()).state == "ready"
    assert pool.try_enter(now()) is not None
