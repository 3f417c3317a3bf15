"""The line about an engine that progress shows: short, the most needed first, nothing from outside that steers."""

from __future__ import annotations

from typing import Any

from svr_async.commands.progress import engine_facts
from svr_async.engine.endpoint import EndpointStats
from svr_async.engine.stats import EngineStats, Spread
from svr_async.reports.text import calls_in_words


def facts(**changes: Any) -> EngineStats:
    """Return the facts of an engine at work."""
    return EngineStats(**{"in_flight": 12, "limit": 64, "endpoints": (endpoint(),), **changes})


def endpoint(**changes: Any) -> EndpointStats:
    """Return an endpoint that admits calls."""
    numbers = dict.fromkeys(EndpointStats.__slots__, 0)
    return EndpointStats(**{**numbers, "name": "", "state": "ready", "wait_s": 0.0, **changes})


def shown(**changes: Any) -> str:
    """Return the line for such facts."""
    return engine_facts(lambda: facts(**changes))


def test_an_engine_at_ease_is_a_short_line() -> None:
    """Calls under way; answers from the cache and retries where there are any; the cost comes second where known."""
    assert shown() == "12 in flight"
    assert shown(usd=0.5, cache_hits=3, retries=2) == "12 in flight, $0.50, 3 from cache, 2 retries"
    assert engine_facts(None) == ""


def test_the_limit_is_shown_where_calls_wait_for_it() -> None:
    """The adaptive limit matters only while something waits; the usual latency of a call is told with two digits."""
    assert shown(waiting=5).startswith("12/64 in flight")
    for p50, words in ((0.031, "0.03 s a call"), (1.234, "1.2 s a call"), (48.3, "48 s a call")):
        assert shown(latency=Spread(count=1, p50=p50)).endswith(words)


def test_what_holds_calls_back_is_said_with_its_time() -> None:
    """A rate limit of seconds, an endpoint that is down; pauses of less than a second are not worth a word."""
    assert "rate limited 12 s" in shown(endpoints=(endpoint(state="rate limited", wait_s=12.4),))
    assert "no answer, next try in 3 s" in shown(endpoints=(endpoint(state="down", wait_s=3.0),))
    assert "no answer, trying" in shown(endpoints=(endpoint(state="trying"),))
    assert "rate limited" not in shown(endpoints=(endpoint(state="rate limited", wait_s=0.2),))
    for waiting, wait_s, told in ((3, 4.5, True), (3, 0.2, False), (0, 4.5, False)):  # paced by headers or settings
        line = shown(waiting=waiting, endpoints=(endpoint(state="paced", wait_s=wait_s),))
        assert ("held to a rate, next call in 4 s" in line) is told


def test_several_endpoints_are_told_apart() -> None:
    """Calls under way by endpoint, and which one is in trouble; a name cannot steer the terminal."""
    endpoints = (
        endpoint(name="http://gpu1:8000/v1", in_flight=8),
        endpoint(name="gpu2\x1b[2J", in_flight=4, state="down", wait_s=7.0),
    )
    line = shown(endpoints=endpoints)
    assert "gpu2 no answer, next try in 7 s" in line
    assert line.endswith("gpu1:8000 8 gpu2 4")
    assert "\x1b" not in line


CALLS = {"sent": 1483, "cache_hits": 0, "retries": 244, "failed": 0}
COSTS = {"cost_usd": None, "paid_usd": None, "cache": {"cached_share": None, "saved_usd": None}}


def test_calls_say_which_were_asked_again_for_a_broken_reply() -> None:
    """Retries and broken replies are told apart; a run without any, or without a model, says nothing of them."""
    told = calls_in_words({"calls": CALLS | {"repaired": 33}, **COSTS})
    assert told.startswith("1,483 sent, 0 from cache, 244 retries, 33 asked again for a reply that could not be read; ")
    assert calls_in_words({"calls": CALLS, **COSTS}).startswith("1,483 sent, 0 from cache, 244 retries; price unknown")
