"""Calls to endpoints with limits, outages and errors: minutes of traffic in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual import (
    Endpoint,
    ask_all,
    caller_of,
    error,
    in_virtual_time,
    now,
    openai_headers,
    question,
    refused_connection,
    retry_after,
    run_virtual,
)

from svr_async.engine.caller import Caller, RetryableError
from svr_async.engine.endpoint import Breaker, ConcurrencyLimit, EndpointPool, EngineStoppedError
from svr_async.engine.endpoint import Endpoint as Slots
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.rates import Bucket
from svr_async.engine.request import Request
from svr_async.errors import AuthError, EndpointDownError, RefusedError

LATENCY_S = 0.3


def no_headers(_: Endpoint, __: float) -> dict[str, str]:
    """Return no headers."""
    return {}


async def served_between(caller: Caller, endpoint: Endpoint, start_s: float, end_s: float) -> tuple[int, int]:
    """Ask without end; return how many calls were served and refused between two moments."""
    task = asyncio.create_task(ask_all(caller, 10**6, workers=520))
    await asyncio.sleep(start_s)
    served, refused = endpoint.served, endpoint.refused
    await asyncio.sleep(end_s - start_s)
    caller.stop()
    with pytest.raises(EngineStoppedError):
        await task
    return endpoint.served - served, endpoint.refused - refused


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "config", "slack", "wasted"),
    [
        (openai_headers, {}, 1.03, 0.05), (openai_headers, {"rpm": 1200.0}, 1.03, 0.001),
        (retry_after, {}, 1.15, 0.2), (no_headers, {}, 1.1, 0.25), (no_headers, {"rpm": 1200.0}, 1.03, 0.001),
    ],
    ids=["headers", "headers and --rpm", "Retry-After", "bare 429", "--rpm"],
)  # fmt: skip
def test_a_rate_limited_endpoint_is_used_fully(
    headers: Callable[[Endpoint, float], dict[str, str]], config: dict[str, Any], slack: float, wasted: float
) -> None:
    """1,200 calls at 20 a second take hardly longer than they must, and few are refused."""

    async def scenario() -> tuple[float, float]:
        random.seed(1)
        endpoint = Endpoint(latency_s=LATENCY_S, rate=20.0, burst=20.0, headers=headers)
        began = now()
        await ask_all(caller_of(endpoint, concurrency=512, start=64, **config), 1200, workers=520)
        return (now() - began) / ((1200 - 20.0) / 20.0 + LATENCY_S), endpoint.refused / endpoint.calls

    took, refused = run_virtual(scenario)
    assert took <= slack
    assert refused <= wasted


@in_virtual_time
async def test_tokens_per_minute_are_kept_by_the_usage_of_replies() -> None:
    """The first estimate is far too low; usage corrects it, and the limit holds within a tenth."""
    endpoint = Endpoint(latency_s=LATENCY_S)
    served, _ = await served_between(caller_of(endpoint, tpm=60_000.0), endpoint, 0.0, 180.0)
    assert 900.0 <= served * (250 + 106) / 180.0 <= 1100.0  # replies of 250 tokens, requests of about 106


@pytest.mark.parametrize("crowded", [503, 429])
@in_virtual_time
async def test_an_endpoint_with_few_seats_is_kept_mostly_full(crowded: int) -> None:
    """Thirty calls at a time are served; the limit finds that number, and few calls are refused."""
    random.seed(1)
    endpoint = Endpoint(latency_s=LATENCY_S, seats=30, crowded=crowded)
    served, refused = await served_between(caller_of(endpoint, concurrency=512), endpoint, 30.0, 90.0)
    assert served / 60.0 >= 0.65 * 30 / (LATENCY_S + 0.004)
    assert refused <= 0.1 * served


@pytest.mark.parametrize("share", [0.02, 0.1])
@in_virtual_time
async def test_random_refusals_do_not_slow_a_run_down_for_ever(share: float) -> None:
    """An endpoint that refuses a few calls at random, whatever the rate, keeps most of its speed."""
    random.seed(1)
    chance, endpoint = random.Random(1), Endpoint(latency_s=0.5)
    endpoint.fault = lambda _: error(429, {"retry-after-ms": "50"}) if chance.random() < share else None
    served, _ = await served_between(caller_of(endpoint, concurrency=32), endpoint, 100.0, 150.0)
    assert served >= 0.5 * 50.0 * 32 / 0.5


# --- outages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10.0, 600.0])
@in_virtual_time
async def test_an_outage_costs_its_time_and_few_calls(seconds: float) -> None:
    """Every call is answered; during the outage few calls leave; soon after it the speed is back."""
    endpoint = Endpoint(latency_s=LATENCY_S)
    task = asyncio.create_task(ask_all(caller_of(endpoint), 4000))
    await asyncio.sleep(10.0)
    endpoint.down = True
    before = endpoint.calls
    await asyncio.sleep(seconds)
    tried, endpoint.down, back = endpoint.calls - before, False, now()
    answered = await task
    assert endpoint.served == 4000
    assert tried <= 64 + 40 + seconds / 5
    assert sum(0 <= moment - back <= 40.0 for moment in answered) > 1000


@pytest.mark.parametrize(("good", "patience_s"), [(300, 120.0), (0, 15.0)])
@in_virtual_time
async def test_an_outage_without_end_ends_the_run(good: int, patience_s: float) -> None:
    """After a success the patience is `give_up_after_s`; without one it is `first_contact_s`."""
    endpoint = Endpoint()
    caller = caller_of(endpoint, give_up_after_s=120.0)
    await ask_all(caller, good)
    endpoint.down, calls, began = True, endpoint.calls, now()
    with pytest.raises(EndpointDownError, match="no answer"):
        await ask_all(caller, 300)
    assert patience_s <= now() - began <= patience_s + 20.0
    assert endpoint.calls - calls <= 64 + 80


@in_virtual_time
async def test_a_rolling_restart_fails_no_call() -> None:
    """Three endpoints are away for twenty seconds each, one after the other: work continues all the time."""
    endpoints = {f"e{n}": Endpoint(latency_s=LATENCY_S, seed=n) for n in range(3)}
    task = asyncio.create_task(ask_all(caller_of(endpoints, concurrency=30), 6000, workers=60))
    began = now()
    for endpoint in endpoints.values():
        await asyncio.sleep(5.0)
        endpoint.down = True
        await asyncio.sleep(20.0)
        endpoint.down = False
    answered = [moment - began for moment in await task]
    assert sum(endpoint.served for endpoint in endpoints.values()) == 6000
    assert all(sum(start <= moment < start + 5 for moment in answered) > 50 for start in range(5, 60, 5))


# --- bad items, bad keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "concurrency", "most"),
    [(lambda: error(500), 1, 300), (lambda: error(500), 64, 2560), (refused_connection, 1, 500),
     (refused_connection, 8, 3000)],
)  # fmt: skip
def test_a_bad_item_costs_few_calls_and_delays_no_other(fault: Callable[[], Any], concurrency: int, most: int) -> None:
    """One item always fails: it gets at most twenty calls, and all others end as early as without it."""

    async def scenario(bad: Callable[[], Any]) -> tuple[int, float, int]:
        endpoint = Endpoint(latency_s=LATENCY_S)
        tried = asking = 0
        ended: list[float] = []

        def strike(request: Request) -> Any:
            nonlocal tried
            hit = request.messages[0][1].startswith("7 ")
            tried += hit
            return bad() if hit else None

        endpoint.fault = strike
        caller = caller_of(endpoint, asking=lambda: asking, concurrency=concurrency)
        numbers = iter(range(most))

        async def work() -> None:
            nonlocal asking
            for number in numbers:
                asking += 1
                try:
                    await caller.call(question(number))
                    ended.append(now())
                except RetryableError:
                    assert number == 7
                finally:
                    asking -= 1

        began = now()
        await asyncio.gather(*(work() for _ in range(caller.config.workers)))
        return tried, max(ended) - began, len(ended)

    tried, last, count = run_virtual(lambda: scenario(fault))
    _, smooth, _ = run_virtual(lambda: scenario(lambda: None))
    assert count == most - 1
    assert 8 <= tried <= 20
    assert last <= 1.1 * smooth + 1.0


@in_virtual_time
async def test_a_refused_key_ends_all_calls_at_once() -> None:
    """At most `concurrency` calls follow; calls that wait or sleep end; each raises its own copy of the error."""
    endpoint, bad = Endpoint(latency_s=LATENCY_S), False

    def fault(request: Request) -> Any:
        if int(request.messages[0][1].split()[0]) % 9 == 0:
            return error(503)  # these sleep between their tries
        return error(401) if bad else None

    endpoint.fault = fault
    caller = caller_of(endpoint, concurrency=32)
    task = asyncio.gather(*(caller.call(question(n)) for n in range(2000)), return_exceptions=True)
    await asyncio.sleep(5.0)
    bad, calls, began = True, endpoint.calls, now()
    found = [one for one in await task if isinstance(one, BaseException)]
    assert isinstance(caller.fatal, AuthError)
    assert {type(one) for one in found} <= {AuthError, EngineStoppedError}
    assert len({id(one) for one in found}) == len(found)
    assert endpoint.calls - calls <= 2 * 32
    assert now() - began <= 2.0


@in_virtual_time
async def test_twenty_refusals_without_a_success_end_the_run() -> None:
    """Twenty refused requests and no answer: the request itself is wrong, so the run ends with the endpoint's words."""
    endpoint = Endpoint()
    endpoint.fault = lambda _: error(400, message="bad temperature")
    caller = caller_of(endpoint, concurrency=8)
    await asyncio.gather(*(caller.call(question(n)) for n in range(200)), return_exceptions=True)
    assert isinstance(caller.fatal, RefusedError)
    assert "refuses every request (HTTP 400: bad temperature)" in caller.fatal.one_line()
    assert 20 <= endpoint.calls <= 20 + 8


# --- notices ----------------------------------------------------------------------------------------------------------


def notices(caller: Caller, kind: NoticeKind) -> list[str]:
    """Return a list that fills with the texts of the caller's notices of one kind."""
    lines: list[str] = []

    def add(notice: Notice) -> None:
        if notice.kind is kind:
            lines.append(notice.text)

    caller.on_notice = add
    return lines


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
        Slots(None, limit=ConcurrencyLimit(ceiling=limit), breaker=Breaker(least=5), name=f"e{n}")  # type: ignore[arg-type]
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
