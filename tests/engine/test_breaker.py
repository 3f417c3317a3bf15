"""The circuit breaker: when it opens, how it tries, and what it does not mind."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.engine.admission.breaker import LEAST, LONGEST_S, Breaker


def opened(at: float = 10.0, **settings_: Any) -> Breaker:
    """Return a breaker that twenty failures have opened."""
    breaker = Breaker(**settings_)
    for _ in range(LEAST):
        breaker.failed(at, at - 0.1)
    assert breaker.opened == 1
    return breaker


def test_it_opens_when_half_of_twenty_calls_in_ten_seconds_fail() -> None:
    """Nineteen failures are too few to tell; the twentieth call opens it, and so does half of them."""
    breaker = Breaker()
    assert [breaker.failed(1.0, 0.9) for _ in range(20)] == [False] * 19 + [True]
    mixed = Breaker()
    told = []
    for _ in range(10):
        mixed.succeeded(1.0, 0.9)
        told.append(mixed.failed(1.0, 0.9))
    assert told == [False] * 9 + [True]


def test_fewer_than_half_do_not_open_it_however_many() -> None:
    """An endpoint with four failures in ten goes on being used."""
    breaker = Breaker()
    for number in range(5000):
        now = number / 100
        if number % 10 >= 6:
            assert not breaker.failed(now, now)
        else:
            breaker.succeeded(now, now)
    assert not breaker.opened


def test_what_happened_ten_seconds_ago_is_forgotten() -> None:
    """A thousand answers of a minute ago do not hide an outage, nor do old failures make one."""
    breaker = Breaker()
    for number in range(1000):
        breaker.succeeded(number / 100, number / 100)
    assert any(breaker.failed(70.0 + n / 100, 70.0) for n in range(20))
    calm = Breaker()
    for number in range(19):
        assert not calm.failed(1.0 + number / 100, 1.0)
    assert not calm.failed(30.0, 30.0)


def test_one_trial_closes_it() -> None:
    """The answer to a call that left after `retry_at` closes it, and it takes twenty failures again to open."""
    breaker = opened(wait_s=1.0)
    assert breaker.retry_at == 11.0
    breaker.succeeded(10.5, 9.0)  # it left before
    assert breaker.opened
    breaker.trial = True
    breaker.succeeded(11.2, 11.1)
    assert (breaker.opened, breaker.trial) == (0, False)
    assert sum(breaker.failed(12.0, 11.9) for _ in range(19)) == 0


def test_each_failed_trial_waits_twice_as_long_up_to_a_bound() -> None:
    """One, two, four … seconds, never more than fifteen: a return is soon noticed."""
    breaker, waits = opened(wait_s=1.0), []
    for _ in range(7):
        now = breaker.retry_at
        waits.append(now)
        breaker.trial = True
        assert breaker.failed(now + 0.1, now)
        assert not breaker.trial
    gaps = [round(b - a - 0.1, 6) for a, b in pairwise(waits)]
    assert gaps == [2.0, 4.0, 8.0, LONGEST_S, LONGEST_S, LONGEST_S]


def test_calls_that_were_under_way_do_not_prolong_it() -> None:
    """A hundred calls that left before it opened and fail one by one count as no trial."""
    breaker = opened(wait_s=1.0)
    for place in range(100):
        assert not breaker.failed(10.0 + place / 50, 9.5)
    assert (breaker.retry_at, breaker.opened) == (11.0, 1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 20), st.floats(0, 30)), max_size=200))
def test_it_can_always_be_tried_again(events: list[tuple[bool, float, float]]) -> None:
    """Whatever has happened, the next trial is at most fifteen seconds away."""
    breaker, now = Breaker(), 0.0
    for good, later, ago in events:
        now += later
        (breaker.succeeded if good else breaker.failed)(now, now - ago)
        assert breaker.retry_at <= now + LONGEST_S
