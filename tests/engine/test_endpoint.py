"""Endpoint slots: the concurrency limit, the breaker, token buckets, pauses, and the queue before them."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual import in_virtual_time, now

from svr_async.engine.classify import Billed, Failure, Kind
from svr_async.engine.endpoint import Breaker, ConcurrencyLimit, Endpoint, EndpointPool
from svr_async.engine.rates import Bucket

LIMITED = Failure(kind=Kind.RATE_LIMITED, detail="slow down", status=429)
BUSY = Failure(kind=Kind.TRANSIENT, detail="busy", status=503)
GONE = Failure(kind=Kind.TRANSIENT, detail="gone", billed=Billed.NO)

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
