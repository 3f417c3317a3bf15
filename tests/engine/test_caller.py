"""Calls through the lanes to endpoints of many tempers, minutes of traffic in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
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

from svr_async.commands.watching import pass_on
from svr_async.engine.caller import Caller, RetryableError
from svr_async.engine.endpoint import EngineStoppedError
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.request import Request
from svr_async.engine.transport import Endpoints
from svr_async.errors import AuthError, EndpointDownError, RefusedError

SEED = 1
LATENCY_S = 0.3


def silent(_: Endpoint, __: float) -> dict[str, str]:
    """Return no headers at all."""
    return {}


# --- limits a minute --------------------------------------------------------------------------------------------------


def drain(
    count: int, rate: float, told: Callable[[Endpoint, float], dict[str, str]], **config: Any
) -> tuple[float, ...]:
    """Send so many calls to an endpoint of this rate; return (time over the ideal, share of calls turned away)."""

    async def scenario() -> tuple[float, float]:
        random.seed(SEED)
        endpoint = Endpoint(latency_s=LATENCY_S, rate=rate, burst=rate, told=told)
        caller = caller_of(endpoint, concurrency=512, **config)
        begun = now()
        await ask_all(caller, count, workers=520)
        ideal_s = (count - endpoint.burst) / rate + LATENCY_S
        return (now() - begun) / ideal_s, endpoint.refused / endpoint.calls

    return run_virtual(scenario)


@pytest.mark.parametrize(
    ("told", "config", "time", "wasted"),
    [
        (openai_headers, {}, 1.03, 0.01), (openai_headers, {"rpm": 1200.0}, 1.03, 0.001),
        (retry_after, {}, 1.08, 0.01), (silent, {}, 1.05, 0.015), (silent, {"rpm": 1200.0}, 1.03, 0.001),
    ],
    ids=["headers", "headers and --rpm", "Retry-After", "nothing but 429", "--rpm"],
)  # fmt: skip
def test_a_rate_limited_endpoint_is_drained_in_hardly_more_than_the_ideal_time(
    told: Callable[[Endpoint, float], dict[str, str]], config: dict[str, Any], time: float, wasted: float
) -> None:
    """1,200 calls at 20 a second, whether the endpoint says its limit, only when to come back, or nothing."""
    took, turned_away = drain(1200, 20.0, told, **config)
    assert took <= time
    assert turned_away <= wasted


@in_virtual_time
async def test_a_minutes_worth_that_the_endpoint_offers_at_once_is_taken() -> None:
    """Where its headers say that a minute's worth is there, nobody waits for the sixtieth part of it."""
    endpoint = Endpoint(latency_s=LATENCY_S, rate=10.0, burst=600.0, told=openai_headers)
    begun = now()
    await ask_all(caller_of(endpoint, concurrency=512), 500, workers=520)
    assert endpoint.refused == 0
    assert now() - begun < 10.0


@in_virtual_time
async def test_tokens_a_minute_are_kept_by_what_replies_turn_out_to_cost() -> None:
    """The first estimate is far too low; usage corrects it, and over three minutes the limit holds within a tenth."""
    endpoint = Endpoint(latency_s=LATENCY_S)
    caller = caller_of(endpoint, tpm=60_000.0)
    task = asyncio.create_task(ask_all(caller, 10_000))
    await asyncio.sleep(180.0)
    caller.stop()
    with pytest.raises(EngineStoppedError):
        await task
    tokens_s = endpoint.served * (250 + 106) / 180.0  # of replies of 250 and requests of about 106
    assert 900.0 <= tokens_s <= 1100.0


def test_without_a_word_the_wait_is_short() -> None:
    """One 429 without any header costs a fraction of a second, not a whole one."""

    async def scenario() -> float:
        endpoint, answers = Endpoint(latency_s=0.0), iter([error(429)])
        endpoint.fault = lambda _: next(answers, None)
        begun = now()
        await caller_of(endpoint).call(question(1))
        return now() - begun

    assert max(run_virtual(scenario) for _ in range(10)) <= 0.3


async def served_at_random(share: float, *, latency_s: float, concurrency: int, part_s: float) -> list[int]:
    """Return what is answered in each of six parts of a run in which such a share of calls meets a 429."""
    random.seed(SEED)
    chance = random.Random(1)
    endpoint = Endpoint(latency_s=latency_s)
    endpoint.fault = lambda _: error(429, {"retry-after-ms": "50"}) if chance.random() < share else None
    caller = caller_of(endpoint, concurrency=concurrency, adaptive=False)
    task = asyncio.create_task(ask_all(caller, 10**6, workers=concurrency + 8))
    served = [0]
    for _ in range(6):
        await asyncio.sleep(part_s)
        served.append(endpoint.served)
    caller.stop()
    with pytest.raises(EngineStoppedError):
        await task
    return [after - before for before, after in pairwise(served)]


@in_virtual_time
async def test_refusals_at_random_do_not_slow_the_run_down_for_ever() -> None:
    """One call in fifty meets a 429 whatever the rate: what no rate explains is not answered by an ever lower one."""
    served = await served_at_random(0.02, latency_s=0.5, concurrency=32, part_s=25.0)
    assert served[5] >= 0.85 * served[1]
    assert served[5] >= 0.7 * 25.0 * 32 / 0.5


@in_virtual_time
async def test_one_refusal_in_five_at_random_leaves_most_of_the_speed() -> None:
    """Slow replies tell a low rate, and refusals a lower one each time: a trial of it finds out that there is none."""
    served = await served_at_random(0.2, latency_s=10.0, concurrency=64, part_s=200.0)
    assert served[5] >= 0.5 * 200.0 * 64 / 10.0


# --- how many at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("crowded", "share"), [(503, 0.92), (429, 0.65)])
@in_virtual_time
async def test_an_endpoint_with_so_many_seats_is_kept_full(crowded: int, share: float) -> None:
    """Thirty at a time: 503 says that it is the number; 429 may as well be the rate, so both are held back a bit."""
    endpoint = Endpoint(latency_s=LATENCY_S, seats=30, crowded=crowded)
    caller = caller_of(endpoint, concurrency=512)
    task = asyncio.create_task(ask_all(caller, 10**6, workers=520))
    await asyncio.sleep(30.0)
    served, refused, calls = endpoint.served, endpoint.refused, endpoint.calls
    await asyncio.sleep(60.0)
    caller.stop()
    with pytest.raises(EngineStoppedError):
        await task
    goodput, turned_away = (endpoint.served - served) / 60.0, (endpoint.refused - refused) / (endpoint.calls - calls)
    assert goodput >= share * 30 / (LATENCY_S + 0.004)
    assert turned_away <= 0.03


@in_virtual_time
async def test_a_named_number_is_used_at_once_and_never_exceeded() -> None:
    """`concurrency` without `adaptive`: so many from the first moment, and not one more."""
    endpoint = Endpoint(latency_s=LATENCY_S)
    caller = caller_of(endpoint, concurrency=50, adaptive=False)
    await ask_all(caller, 500)
    assert endpoint.peak == 50


# --- outages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10.0, 600.0])
@in_virtual_time
async def test_an_outage_costs_its_time_and_few_calls(seconds: float) -> None:
    """All calls are answered; while it lasts one call tries now and then; soon after it everything is as before."""
    endpoint = Endpoint(latency_s=LATENCY_S)
    caller = caller_of(endpoint)
    task = asyncio.create_task(ask_all(caller, 4000))
    await asyncio.sleep(10.0)
    endpoint.down = True
    before = endpoint.calls
    await asyncio.sleep(seconds)
    tried, endpoint.down, back = endpoint.calls - before, False, now()
    answered = await task
    moments = [moment - back for moment in answered]
    assert endpoint.served == 4000
    assert tried <= 64 + 40 + seconds / 5
    assert sum(0 <= moment <= 25.0 for moment in moments) > 1000


@in_virtual_time
async def test_an_outage_that_never_ends_ends_the_run() -> None:
    """After `give_up_after_s` without a success, with the error that says how to go on."""
    endpoint = Endpoint()
    caller = caller_of(endpoint, give_up_after_s=120.0)
    await ask_all(caller, 300)
    endpoint.down = True
    begun = now()
    with pytest.raises(EndpointDownError, match="no answer"):
        await ask_all(caller, 300)
    assert 120.0 <= (now() - begun) <= 140.0


@in_virtual_time
async def test_an_endpoint_that_was_never_there_is_given_up_soon() -> None:
    """Fifteen seconds, not half an hour, and with few calls."""
    endpoint = Endpoint()
    endpoint.down = True
    begun = now()
    with pytest.raises(EndpointDownError):
        await ask_all(caller_of(endpoint), 300)
    seconds, calls = now() - begun, endpoint.calls
    assert 15.0 <= seconds <= 31.0
    assert calls <= 64 + 40


@in_virtual_time
async def test_a_rolling_restart_is_no_event() -> None:
    """Three endpoints, each away for twenty seconds in turn: nobody fails, and the work goes on all the time."""
    endpoints = {f"e{n}": Endpoint(latency_s=LATENCY_S, seed=n) for n in range(3)}
    caller = caller_of(Endpoints(endpoints), concurrency=30, adaptive=False)
    task = asyncio.create_task(ask_all(caller, 6000, workers=60))
    begun = now()
    for endpoint in endpoints.values():
        await asyncio.sleep(5.0)
        endpoint.down = True
        await asyncio.sleep(20.0)
        endpoint.down = False
    answered = [moment - begun for moment in await task]
    assert sum(endpoint.served for endpoint in endpoints.values()) == 6000
    seconds = [sum(start <= moment < start + 1 for moment in answered) for start in range(5, 60)]
    assert min(seconds) > 25


@in_virtual_time
async def test_one_dead_of_several_is_passed_over() -> None:
    """Row 23: an endpoint that never answers costs a few calls, tries now and then, and no item."""
    endpoints = {f"e{n}": Endpoint(latency_s=LATENCY_S, seed=n) for n in range(3)}
    endpoints["e1"].down = True
    caller = caller_of(Endpoints(endpoints), concurrency=64)
    await ask_all(caller, 3000)
    tried, served, states = (
        endpoints["e1"].calls,
        sum(one.served for one in endpoints.values()),
        [s.state for s in caller.snapshot()],
    )
    assert served == 3000
    assert tried <= 40
    assert states[1] in {"down", "trying"}


# --- one bad item, one bad key ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 8, 64])
@pytest.mark.parametrize("answered", [True, False], ids=["HTTP 500", "hangs up"])
def test_one_poisoned_item_costs_few_calls_and_delays_nothing_else(concurrency: int, answered: bool) -> None:
    """Row 37: at most twenty calls for it, every other item is answered, and as early as without it."""

    def fault(request: Request) -> Any:
        if not request.messages[0][1].startswith("7 "):
            return None
        return error(500) if answered else refused_connection()

    most = 300 if concurrency == 1 else 40 * concurrency

    async def scenario(bad: Callable[[Request], Any]) -> tuple[int, float, int]:
        endpoint, tried = Endpoint(latency_s=LATENCY_S), 0
        under_way = 0

        def watch(request: Request) -> Any:
            nonlocal tried
            tried += request.messages[0][1].startswith("7 ")
            return bad(request)

        endpoint.fault = watch
        caller = caller_of(endpoint, under_way=lambda: under_way, concurrency=concurrency, adaptive=False)
        numbers, ended = iter(range(most)), []

        async def work() -> None:
            nonlocal under_way
            for number in numbers:
                under_way += 1
                try:
                    await caller.call(question(number))
                    ended.append(now())
                except RetryableError:
                    assert number == 7
                finally:
                    under_way -= 1

        begun = now()
        await asyncio.gather(*(work() for _ in range(caller.config.workers)))
        return tried, max(ended) - begun, len(ended)

    tried, last, count = run_virtual(lambda: scenario(fault))
    _, smooth, _ = run_virtual(lambda: scenario(lambda _: None))
    assert count == most - 1
    assert 8 <= tried <= 20
    assert last <= 1.1 * smooth + 1.0


@in_virtual_time
async def test_a_poisoned_item_that_is_left_alone_is_given_up() -> None:
    """The last item of a run, always answered with the same error, ends in a minute or two and not with the run."""
    endpoint = Endpoint()
    caller = caller_of(endpoint, under_way=lambda: 1, concurrency=1, adaptive=False)
    await caller.call(question(1))
    endpoint.fault = lambda _: error(500)
    begun = now()
    with pytest.raises(RetryableError):
        await caller.call(question(2))
    assert (now() - begun) < 130.0


@in_virtual_time
async def test_a_refused_key_lets_no_more_calls_leave_and_nobody_sleeps_on() -> None:
    """P11: at most `concurrency` calls after the first such answer; all who wait, for whatever, end within a second."""
    endpoint, bad = Endpoint(latency_s=LATENCY_S), False

    def fault(request: Request) -> Any:
        if int(request.messages[0][1].split()[0]) % 9 == 0:
            return error(503)  # these sleep between their tries
        return error(401) if bad else None

    endpoint.fault = fault
    caller = caller_of(endpoint, concurrency=32, adaptive=False)
    task = asyncio.gather(*(caller.call(question(n)) for n in range(2000)), return_exceptions=True)
    await asyncio.sleep(5.0)
    bad, calls = True, endpoint.calls
    begun = now()
    found = await task
    assert isinstance(caller.fatal, AuthError)
    assert {type(one) for one in found if isinstance(one, BaseException)} <= {AuthError, EngineStoppedError}
    calls, seconds = endpoint.calls - calls, now() - begun
    assert calls <= 2 * 32
    assert seconds <= 2.0


@in_virtual_time
async def test_the_same_refusal_of_everything_ends_the_run() -> None:
    """Row 24: twenty times the same 400 among the first replies is our request's fault; its words are told."""
    endpoint = Endpoint()
    endpoint.fault = lambda _: error(400)
    caller = caller_of(endpoint, concurrency=8, adaptive=False)
    found = await asyncio.gather(*(caller.call(question(n)) for n in range(200)), return_exceptions=True)
    assert isinstance(caller.fatal, RefusedError)
    assert "in the same way" in caller.fatal.one_line()
    assert any(isinstance(one, RefusedError) for one in found)
    assert endpoint.calls <= 20 + 8


@in_virtual_time
async def test_errors_that_end_the_run_are_raised_as_fresh_copies() -> None:
    """A thousand calls that meet the same end do not pile their tracebacks onto one exception."""
    endpoint = Endpoint()
    endpoint.fault = lambda _: error(401)
    caller = caller_of(endpoint, concurrency=2, adaptive=False)
    found = await asyncio.gather(*(caller.call(question(n)) for n in range(50)), return_exceptions=True)
    errors = [one for one in found if isinstance(one, AuthError)]
    assert len({id(one) for one in errors}) >= 48
    assert {one.one_line() for one in errors} == {errors[0].one_line()}


# --- what is told -----------------------------------------------------------------------------------------------------


def told(caller: Caller) -> list[str]:
    """Return a list that fills with what the caller says about waits."""
    lines: list[str] = []
    caller.hear = lambda word: lines.append(word.text) if word.about is NoticeKind.WAIT else None
    return lines


@in_virtual_time
async def test_a_long_wait_is_told_once_with_its_end() -> None:
    """Forty calls that meet the same limit say one line; a short wait says none."""
    endpoint = Endpoint(latency_s=0.05)
    caller = caller_of(endpoint, concurrency=40, adaptive=False)
    lines = told(caller)
    answers = iter([error(429, {"retry-after": "41"})] * 40 + [error(429, {"retry-after": "1"})] * 3)
    endpoint.fault = lambda _: next(answers, None)
    await ask_all(caller, 100)
    assert len(lines) == 1
    assert lines[0].startswith("rate limited: waiting 4")


@in_virtual_time
async def test_an_endpoints_own_words_are_no_wait_and_no_note() -> None:
    """A try that is repeated is told as such, whatever the endpoint says of it: a person hears of it on request."""
    endpoint = Endpoint(latency_s=0.05)
    caller = caller_of(endpoint, concurrency=4, adaptive=False)
    words: list[Notice] = []
    caller.hear = words.append
    answers = iter([error(500, says="queue: waiting for a slot")])
    endpoint.fault = lambda _: next(answers, None)
    await ask_all(caller, 20)
    (word,) = words
    said: list[str] = []
    pass_on(said.append, word, verbose=False)
    assert (word.about, ": waiting " in word.text, said) == (NoticeKind.RETRY, True, [])
    pass_on(said.append, word, verbose=True)
    pass_on(said.append, Notice(NoticeKind.WAIT, "rate limited: waiting 9 s"), verbose=False)
    pass_on(said.append, Notice(NoticeKind.NOTE, "file descriptors run short"), verbose=False)
    told = [f"trying again: {word.text}", "rate limited: waiting 9 s", "note: file descriptors run short"]
    assert said == told


@in_virtual_time
async def test_an_endpoint_that_does_not_answer_is_told_by_name_where_there_are_several() -> None:
    """Each of its longer waits says which endpoint, how long, and why."""
    endpoints = {"http://a/v1": Endpoint(latency_s=LATENCY_S), "http://b/v1": Endpoint(latency_s=LATENCY_S)}
    caller = caller_of(Endpoints(endpoints), concurrency=16, adaptive=False)
    lines = told(caller)
    endpoints["http://b/v1"].down = True
    await ask_all(caller, 3000)
    assert lines
    assert all(line.startswith("http://b/v1: no answer: waiting ") for line in lines)


@in_virtual_time
async def test_a_snapshot_says_what_a_lane_is_doing() -> None:
    """Limit, calls, rates and waits of each endpoint, for progress and logs."""
    endpoint = Endpoint(latency_s=LATENCY_S, rate=20.0, burst=20.0, told=openai_headers)
    caller = caller_of(Endpoints({"http://a/v1": endpoint}), concurrency=32)
    await ask_all(caller, 200)
    (lane,) = caller.snapshot()
    assert (lane.name, lane.in_flight, lane.succeeded, lane.rpm) == ("http://a/v1", 0, 200, 1200.0)
    assert lane.state in {"ready", "paced"}
    assert lane.seconds_per_token is not None
    assert replace(lane, sent=0).sent == 0


@in_virtual_time
async def test_one_refused_connection_does_not_end_a_run_whose_first_answers_are_slow() -> None:
    """How long an endpoint has been silent counts from when a call left, not from when it began to wait in the line."""
    endpoint = Endpoint(latency_s=25.0, sigma=0.0)
    refusals = iter([refused_connection()])
    endpoint.fault = lambda _: next(refusals, None) if now() > begun + 17.0 else None
    begun = now()
    await ask_all(caller_of(endpoint, rpm=20.0), 20, workers=20)
    assert endpoint.calls == 21
    assert endpoint.served == 20
