"""The limiter, alone and in discrete-event simulations of endpoints: what it promises about goodput and rejections."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traffic import Driver, Fixed, Schedule, Traffic, adaptive, drive

from svr_async.engine.admission.limiter import START, Limiter

SETTLED, CHANGE, RECOVERED, END = 30, 42, 62, 74  # seconds: P10 of the design's promises


# --- one by one -------------------------------------------------------------------------------------------------------


def answer(limiter: Limiter, count: int, *, now: float, pace: float = 0.004, level: int | None = None) -> float:
    """Give so many answers, a millisecond apart, of calls that left a second before; return the time after them."""
    for _ in range(count):
        now += 0.001
        limiter.succeeded(now, now - 1e-4, level or limiter.limit, pace)
    return now


def test_it_starts_small_and_doubles_while_nothing_is_wrong() -> None:
    """Each answer makes room for one more call: twice as many a round trip, up to the ceiling and not beyond it."""
    limiter = Limiter(ceiling=40, start=START)
    assert limiter.limit == START
    answer(limiter, START, now=1.0)
    assert limiter.limit == 2 * START
    answer(limiter, 100, now=2.0)
    assert limiter.limit == 40


def test_it_does_not_grow_for_calls_that_do_not_need_it() -> None:
    """With a few calls under way a higher limit would prove nothing: it stays."""
    limiter = Limiter(ceiling=1000, start=START)
    answer(limiter, 500, now=1.0, level=3)
    assert limiter.limit == START


def test_rejections_halve_it_once_for_all_calls_that_were_under_way() -> None:
    """A storm of rejections of calls that left before it fell is one event; the next needs calls that left after."""
    limiter = Limiter(ceiling=64)
    fallen = [limiter.rejected(10.0 + n / 1000, 9.0, 64) for n in range(64)]
    assert (fallen.count(True), limiter.limit) == (1, 32)
    assert any(limiter.rejected(11.0, 10.9, 32) for _ in range(10))
    assert limiter.limit == 16


def test_a_single_rejection_among_many_answers_is_nothing() -> None:
    """What happens now and then says nothing about the load."""
    limiter = Limiter(ceiling=64)
    now = answer(limiter, 200, now=1.0)
    assert not limiter.rejected(now, now - 0.01, 64)
    assert limiter.limit == 64


def test_refusals_that_come_before_the_answers_of_their_burst_are_weighed_against_all_of_it() -> None:
    """A refusal takes no time, an answer does: ten first of 256 calls are few of them, sixty are not."""
    limiter = Limiter(ceiling=256)
    assert not any(limiter.rejected(1.0, 0.9, 256) for _ in range(10))
    assert any(limiter.rejected(1.0, 0.9, 256) for _ in range(50))


def test_after_a_fall_it_is_soon_back_just_below_where_it_fell() -> None:
    """Up to there nothing was wrong; beyond it, care: another rejection would cost as much again."""
    limiter = Limiter(ceiling=64)
    limiter.fall(10.0, 64)
    assert limiter.limit == 32
    answer(limiter, 30, now=10.0)
    assert limiter.limit == 62


def test_an_outage_does_not_make_it_forget() -> None:
    """Falls in a row, without one answer between them, go down to one; then it returns to where the first began."""
    limiter = Limiter(ceiling=100)
    for moment in range(1, 12):
        limiter.fall(float(moment), limiter.limit)
    assert limiter.limit == 1
    answer(limiter, 200, now=20.0)
    assert limiter.limit == 97
    limiter.restart(30.0)
    assert limiter.limit == START
    answer(limiter, 200, now=30.0)
    assert limiter.limit == 94


def test_random_rejections_are_not_taken_for_load() -> None:
    """An endpoint that turns away one call in ten whatever the load keeps most of its calls."""
    rng, limiter, now = random.Random(1), Limiter(ceiling=64), 0.0
    seen = []
    for _ in range(5000):
        now += 0.01
        if rng.random() < 0.1:
            limiter.rejected(now, now - 0.005, limiter.limit)
        else:
            limiter.succeeded(now, now - 0.005, limiter.limit, 0.0)
        seen.append(limiter.limit)
    assert sum(seen[2000:]) / 3000 > 40


def test_a_number_that_was_named_is_taken_at_its_word() -> None:
    """Without `by_latency` replies that become slow change nothing."""
    limiter = Limiter(ceiling=64, by_latency=False)
    now = answer(limiter, 300, now=1.0)
    answer(limiter, 3000, now=now, pace=0.4)
    assert limiter.limit == 64


def test_much_slower_answers_at_the_same_load_make_it_fall() -> None:
    """The time per output token against that of before: twenty times as much halves the limit within a few answers."""
    limiter = Limiter(ceiling=64, start=16)
    now = answer(limiter, 2000, now=1.0)
    before = limiter.limit
    answer(limiter, 40, now=now, pace=0.08)
    assert limiter.limit <= before // 2 + 1


def test_without_an_answer_it_grows_a_little_each_second() -> None:
    """Where replies take long the start need not wait for them; where the endpoint names its rate, that is the step."""
    slow, told = (Limiter(ceiling=1000, start=START) for _ in range(2))
    assert slow.grows_at(5.0) > 5.0
    for tick in range(40):
        slow.grow(5.0 + tick / 10, slow.limit)
        told.grow(5.0 + tick / 10, told.limit, 100.0)
    assert START + 3 * START <= slow.limit <= START + 5 * START
    assert START + 300 <= told.limit <= START + 500
    assert Limiter(ceiling=8).grows_at(5.0) == math.inf


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whatever_happens_it_stays_between_one_and_the_ceiling(data: st.DataObject) -> None:
    """Any order of events at any times, however odd their numbers, leaves a limit that can be used."""
    ceiling = data.draw(st.integers(1, 200))
    limiter = Limiter(ceiling=ceiling, start=data.draw(st.integers(1, 300)), by_latency=data.draw(st.booleans()))
    now = 0.0
    steps = st.tuples(
        st.sampled_from(["ok", "no", "fall", "restart", "grow"]), st.floats(0, 30), st.floats(0, 60), st.floats(0, 1e6)
    )
    for what, later, ago, pace in data.draw(st.lists(steps, max_size=120)):
        now += later
        level = max(1, min(limiter.limit, int(pace) % 300))
        if what == "ok":
            limiter.succeeded(now, now - ago, level, pace)
        elif what == "no":
            limiter.rejected(now, now - ago, level)
        elif what == "grow":
            limiter.grow(now, limiter.limit)
        else:
            limiter.fall(now, level) if what == "fall" else limiter.restart(now)
        assert 1 <= limiter.limit <= ceiling
        assert limiter.mode in {"seek", "hold", "up", "down", "recover"}


# --- against the best fixed limit -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: goodput against the best fixed limit before and after a change of capacity, and rejections."""

    before: float
    after: float
    rejected: float


def attempt(kind: str, seed: int, factor: float, *, most: float = 70.0) -> Trial:
    """Drive an endpoint whose room changes by a factor at second 42; the best fixed limit gives room over latency."""
    rng = random.Random(f"{kind} {seed} {factor}")
    latency_s = math.exp(rng.uniform(math.log(0.1), math.log(1.0)))
    room = round(math.exp(rng.uniform(math.log(8.0), math.log(most * latency_s + 8.0))))
    changed = max(3, int(room * factor))
    limiter = adaptive()
    ran = drive(kind, lambda t: room if t < CHANGE else changed, limiter, latency_s=latency_s, seconds=END, seed=seed)
    return Trial(
        ran.goodput(SETTLED, CHANGE) / (room / latency_s),
        ran.goodput(RECOVERED, END) / (changed / latency_s),
        (ran.rejected(SETTLED, CHANGE) + ran.rejected(RECOVERED, END)) / 2,
    )


def shares(trials: list[Trial]) -> tuple[float, float, float, float]:
    """Return the mean share of the best goodput before and after, the lowest tenth's, and the mean of rejections."""
    values = sorted(value for one in trials for value in (one.before, one.after))
    count = len(trials)
    return (
        sum(one.before for one in trials) / count,
        sum(one.after for one in trials) / count,
        values[len(values) // 10],
        sum(one.rejected for one in trials) / count,
    )


@pytest.mark.parametrize("kind", ["slots", "reject", "batch"])
def test_goodput_is_within_a_tenth_of_the_best_fixed_limit(kind: str) -> None:
    """After 30 s, and 20 s after the endpoint's room has doubled or halved; with at most 2 % turned away (P10)."""
    before, after, low, rejected = shares([attempt(kind, seed, factor) for seed in range(4) for factor in (2.0, 0.5)])
    assert min(before, after) >= 0.93
    assert low >= 0.85
    assert rejected <= 0.02


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["slots", "reject", "batch"])
def test_goodput_over_many_endpoints(kind: str) -> None:
    """The same over 120 endpoints, larger ones too: nine in ten are within a tenth of the best."""
    trials = [attempt(kind, seed, factor, most=300.0) for seed in range(60) for factor in (2.0, 0.5)]
    before, after, low, rejected = shares(trials)
    assert min(before, after) >= 0.95
    assert low >= 0.90
    assert rejected <= 0.02


def test_goodput_of_an_endpoint_that_thrashes() -> None:
    """Where too many calls slow all of them down more than in proportion, four fifths of the best are kept."""
    room = 40
    ran = drive("thrash", lambda _: room, adaptive(), latency_s=0.4, seconds=90)
    best = max(
        drive("thrash", lambda _: room, Fixed(int(room * share)), latency_s=0.4, seconds=30).goodput(10, 30)
        for share in (0.8, 1.0, 1.2)
    )
    assert ran.goodput(60, 90) >= 0.8 * best


def test_an_overload_that_collapses_is_answered_by_fewer_calls() -> None:
    """When the room of an endpoint that thrashes shrinks to a quarter, the limit follows, and goodput recovers."""
    ran: Traffic = drive("thrash", lambda t: 48 if t < 40 else 12, adaptive(), latency_s=0.3, seconds=120)
    assert ran.limits[39] >= 30
    assert max(ran.limits[105:119]) <= 24
    assert ran.goodput(105, 120) >= 0.65 * 12 / 0.3


# --- ten thousand schedules -------------------------------------------------------------------------------------------


def run_schedules(numbers: range) -> int:
    """Take all calls of these schedules through a lane; return how many were answered."""
    answered = 0
    for number in numbers:
        rng = random.Random(number)
        driver = Driver(Schedule.draw(rng), rng)
        done = driver.run()
        assert done.answered + done.cancelled == driver.schedule.calls
        assert (driver.lane.in_flight, driver.waiting) == (0, 0)
        assert done.peak <= driver.schedule.ceiling
        answered += done.answered
    return answered


@pytest.mark.parametrize("part", range(4))
def test_no_schedule_of_ten_thousand_deadlocks_or_loses_a_permit(part: int) -> None:
    """Seats that change, rates, storms of 429, outages, faults, cancellations: every call ends, each permit is back."""
    assert run_schedules(range(2500 * part, 2500 * (part + 1))) > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_schedule_of_a_hundred_thousand_deadlocks() -> None:
    """The same with ten times as many."""
    assert run_schedules(range(10_000, 100_000)) > 0
