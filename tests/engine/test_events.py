"""Events of an engine, and its stats with the histogram of latencies."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from rig import ask, by_turn, completion, refusal, scripted_engine

from svr_async.engine.events import (
    AttemptEnded,
    CallEnded,
    Event,
    RetryPlanned,
    Snapshot,
    observing,
)


def kinds(events: list[Event]) -> list[str]:
    """Return the names of events, without snapshots, whose number depends on the clock."""
    return [type(event).__name__ for event in events if not isinstance(event, Snapshot)]


def only(events: list[Event], kind: type[Any]) -> Any:
    """Return the one event of a kind."""
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, found
    return found[0]


# --- events -----------------------------------------------------------------------------------------------------------


async def test_retries_and_pauses_are_reported_with_their_reasons(cache_folder: Path) -> None:
    """A 500, a rate limit, then an answer: two retries, one pause, three attempts, one call."""
    seen: list[Event] = []
    limited = refusal(429, "slow down", headers={"retry-after": "0.05"})
    answers = by_turn(refusal(500, "oops"), limited, completion("yes"))
    with observing(seen.append):
        async with scripted_engine(cache_folder, answers) as (engine, _):
            assert (await engine.complete(ask())).value == "yes"
    assert [type(event) for event in seen if isinstance(event, AttemptEnded | CallEnded)] == [AttemptEnded] * 3 + [
        CallEnded
    ]
    assert [event.error for event in seen if isinstance(event, AttemptEnded)] == ["500", "429", ""]
    retries = [event for event in seen if isinstance(event, RetryPlanned)]
    assert [(event.kind, event.attempt) for event in retries] == [("transient", 1), ("rate_limited", 2)]
    assert "oops" in retries[0].detail
    assert (only(seen, CallEnded).attempts, only(seen, CallEnded).status) == (3, 200)


async def test_an_observer_that_raises_is_dropped(cache_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run continues, the others still see everything, and one line is logged."""
    seen: list[Event] = []

    def broken(_: Event) -> None:
        raise ZeroDivisionError

    with observing(broken, seen.append), caplog.at_level(logging.WARNING):
        async with scripted_engine(cache_folder, by_turn(completion("yes"))) as (engine, _):
            assert (await engine.complete(ask())).value == "yes"
    assert kinds(seen) == ["AttemptEnded", "CallEnded"]
    assert [record.getMessage() for record in caplog.records] == [
        "an observer failed and is dropped: ZeroDivisionError()"
    ]
