"""Rates: buckets, the endpoint's own words about them, and what refusals tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.engine.admission.rates import BURST_S, Bucket, EndpointRate, Notice, SeenRate, read_notices, read_span


def drain(bucket: Bucket, units: float, count: int, *, now: float = 0.0) -> float:
    """Let so many calls leave, each as soon as it may; return when the last one left."""
    for _ in range(count):
        now = max(now, bucket.opens_at(units))
        bucket.take(now, units)
    return now


@settings(deadline=None, max_examples=60)
@given(rate=st.floats(0.1, 1e4), count=st.integers(2, 200))
def test_a_rate_is_kept_to_the_call(rate: float, count: int) -> None:
    """Half a second's worth, one call at least, leaves at once; from there on exactly the rate."""
    took = drain(Bucket(rate), 1.0, count)
    burst = max(1.0, BURST_S * rate)
    assert took == pytest.approx(max(0.0, (count - burst) / rate), rel=1e-6, abs=1e-6)


def test_a_call_that_weighs_more_than_the_burst_leaves_and_is_paid_off() -> None:
    """A request of more tokens than may leave at once waits for a full bucket, then others wait for its debt."""
    bucket = Bucket(100.0)
    bucket.take(0.0, 50.0)
    assert bucket.opens_at(1000.0) == pytest.approx(0.5)
    bucket.take(0.5, 1000.0)
    assert bucket.opens_at(1.0) == pytest.approx(0.5 + (1000.0 - 50.0 + 1.0) / 100.0)
    bucket.take(0.5, -900.0)  # it cost less than was thought
    assert bucket.level(0.5) == pytest.approx(-50.0)


def test_time_that_nobody_used_is_not_saved_up() -> None:
    """After an hour of silence no more than the burst leaves at once."""
    bucket = Bucket(10.0)
    bucket.take(0.0, 1.0)
    assert bucket.level(3600.0) == 5.0
    assert drain(bucket, 1.0, 15, now=3600.0) == pytest.approx(3601.0)


# --- what headers say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0), ("1.5s", 1.5), ("20ms", 0.02), ("1h2m3s", 3723.0), ("12", 12.0), ("0.5", 0.5), ("0s", 0.0),
        ("", None), ("soon", None), ("-1", None), ("1s2m", None), ("nan", None), ("1e9", None), ("9" * 40, None),
    ],
)  # fmt: skip
def test_spans_are_read_as_these_headers_write_them(text: str, seconds: float | None) -> None:
    """Hours, minutes, seconds and milliseconds, or a plain number; anything else is nothing."""
    assert read_span(text) == seconds


NAMES = [f"x-ratelimit-{what}-{unit}" for what in ("limit", "remaining", "reset") for unit in ("requests", "tokens")]
TEXTS = st.text(max_size=12) | st.integers(-5, 10**6).map(str)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(NAMES), TEXTS))
def test_no_headers_break_a_lane(headers: dict[str, str]) -> None:
    """Whatever an endpoint writes there, what is read can be used."""
    for notice in read_notices(headers):
        if notice is not None:
            rate = EndpointRate()
            rate.hear(10.0, notice, sent_at=9.0, since=3.0)
            rate.take(10.0, 1.0)
            assert math.isfinite(rate.opens_at(1.0))
            assert rate.rate == notice.limit / 60


def test_the_level_is_what_the_endpoint_says_less_what_left_since() -> None:
    """Ten left when a call came in, four calls after it, a second of refilling: no more than ten again may leave."""
    rate = EndpointRate()
    notice = Notice(limit=600.0, remaining=10.0, reset_s=None)
    rate.hear(100.0, notice, sent_at=99.0, since=4.0)
    left = 0
    while rate.opens_at(1.0) <= 100.0:
        rate.take(100.0, 1.0)
        left += 1
    assert left == 10  # and no more than it has ever been seen to hold


def test_news_of_an_earlier_call_are_old_news() -> None:
    """Replies overtake each other; what an older call heard does not undo what a younger one did."""
    rate = EndpointRate()
    rate.hear(100.0, Notice(limit=60.0, remaining=0.0, reset_s=None), sent_at=99.9, since=0.0)
    before = rate.opens_at(1.0)
    rate.hear(100.1, Notice(limit=60.0, remaining=50.0, reset_s=None), sent_at=98.0, since=0.0)
    assert rate.opens_at(1.0) == before > 100.0


def test_after_its_reset_a_limit_is_full_again() -> None:
    """Where the window ends before a minute's share has come in, its end counts."""
    rate = EndpointRate()
    rate.hear(10.0, Notice(limit=60.0, remaining=9.0, reset_s=1.0), sent_at=10.0, since=0.0)
    rate.hear(12.0, Notice(limit=60.0, remaining=0.0, reset_s=1.0), sent_at=11.0, since=0.0)
    assert rate.opens_at(1.0) <= 12.0


# --- what refusals say ------------------------------------------------------------------------------------------------


def converse(rate: float, burst: float, seconds: float, pause_s: float) -> tuple[float, float]:
    """Send as fast as `SeenRate` lets us to a silent bucket; return calls let in a second and the share refused."""
    seen, now, level, at = SeenRate(), 0.0, burst, 0.0
    sent = refused = 0
    while now < seconds:
        now += 1e-4
        while (opens := seen.opens_at(now)) > now:
            now = opens
        seen.take(now)
        sent += 1
        level, at = min(burst, level + (now - at) * rate), now
        if level < 1:
            refused += 1
            seen.refused(now, now, number=sent, sent=sent, pause_s=pause_s)
        else:
            level -= 1
    return (sent - refused) / seconds, refused / sent


@pytest.mark.parametrize(
    ("rate", "burst", "pause_s", "share"),
    [
        (20.0, 20.0, 0.1, 0.97), (20.0, 20.0, 1.0, 0.97), (100.0, 100.0, 0.1, 0.97), (100.0, 100.0, 1.0, 0.97),
        (3.0, 3.0, 0.1, 0.95), (3.0, 3.0, 1.0, 0.88), (50.0, 500.0, 1.0, 0.97), (20.0, 4.0, 0.1, 0.95),
        (20.0, 4.0, 1.0, 0.7),  # a wait of five times what its bucket takes to fill
    ],
)  # fmt: skip
def test_a_rate_that_only_refusals_tell_is_found_and_used(
    rate: float, burst: float, pause_s: float, share: float
) -> None:
    """Over five minutes nearly all calls that the endpoint would take are sent, with few for nothing."""
    let_in, refused = converse(rate, burst, 300.0, pause_s)
    assert let_in >= share * rate
    assert refused <= 0.05


def test_refusals_of_one_burst_are_one_event() -> None:
    """Sixty calls that left together and were all refused tell one rate, not sixty lower and lower ones."""
    seen = SeenRate()
    for place in range(80):
        seen.take(place / 1000)
    for place in range(60):
        seen.refused(0.2 + place / 1000, 0.02 + place / 1000, number=20 + place, sent=80, pause_s=0.5)
    assert seen.opens_at(0.3) == pytest.approx(0.7)
    seen.opens_at(0.8)
    assert seen.readings == 1


def test_refusals_that_are_heard_late_belong_to_their_own_time() -> None:
    """Refusals of the first burst that come after the rate was read are not taken for refusals of what left since."""
    seen = SeenRate()
    for place in range(512):
        seen.take(place / 1000)
    for place in range(3):
        seen.refused(0.55, 0.05, number=50 + place, sent=512, pause_s=0.05)
    seen.opens_at(0.65)
    for _ in range(22):
        seen.refused(1.9, 0.1, number=100, sent=530, pause_s=0.05)
    seen.refused(1.91, 0.75, number=520, sent=530, pause_s=0.05)
    seen.opens_at(2.0)
    assert seen.rate is not None
    assert seen.rate > 8  # seventeen of eighteen were let in, in 1.4 seconds


@pytest.mark.parametrize(("refused", "rate_stays"), [(range(80, 85), True), ((84,), True), ((95,), False)])
def test_a_low_rate_is_tried_and_kept_where_the_endpoint_bears_it_out(refused: Sequence[int], rate_stays: bool) -> None:
    """Five calls leave at once after a short pause: refused, the rate is one; let in, and a later one refused: none."""
    seen = SeenRate()
    for place in range(80):
        seen.take(place / 2)
    seen.refused(39.6, 39.5, number=80, sent=80, pause_s=0.05)
    seen.opens_at(39.7)
    for _ in range(5):
        assert seen.opens_at(39.7) <= 39.7
        seen.take(39.7)
    assert seen.opens_at(39.7) > 39.7
    for number in refused:
        seen.refused(39.8 + number, 39.7 + number, number=number + 1, sent=number + 1, pause_s=0.05)
        seen.opens_at(39.9 + number)
    assert (seen.rate is not None) is rate_stays


def test_a_rate_that_holds_nobody_back_is_forgotten() -> None:
    """After a long peace nothing is left of an old refusal."""
    seen = SeenRate()
    for place in range(30):
        seen.take(place / 10)
    seen.refused(3.0, 2.9, number=29, sent=30, pause_s=0.1)
    seen.opens_at(3.2)
    assert seen.rate is not None
    now = 4.0
    while now < 120.0:
        seen.take(now)
        now += 1.0
    assert seen.rate is None
