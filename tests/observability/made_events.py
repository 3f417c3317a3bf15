"""Events and facts made up for tests of those who watch."""

from __future__ import annotations

from typing import Any

from svr_async.engine.events import AttemptEnded, CallEnded, Snapshot
from svr_async.engine.stats import EngineStats, Spread

TEXTS = {"last_failure": ""}
SPREADS = {
    "latency": Spread(count=3, p50=0.1, p90=0.2, p99=0.3, max=0.4),
    "lag": Spread(count=9, p50=0.001, p90=0.002, p99=0.003, max=0.004),
}


def facts(**changes: Any) -> EngineStats:
    """Return facts: zeros but for what is given."""
    zeros = dict.fromkeys(EngineStats.__slots__, 0)
    return EngineStats(**{**zeros, **TEXTS, **SPREADS, "usd": None, "lanes": (), **changes})


def snapshot(source: int = 1, model: str = "m", *, closing: bool = False, **changes: Any) -> Snapshot:
    """Return a snapshot of such facts."""
    return Snapshot(source=source, model=model, stats=facts(**changes), closing=closing)


def attempt(**changes: Any) -> AttemptEnded:
    """Return an HTTP request that went well."""
    usual: dict[str, Any] = {"key": "k1", "model": "m", "lane": "", "status": 200, "seconds": 0.25}
    return AttemptEnded(**usual | changes)


def call(**changes: Any) -> CallEnded:
    """Return a call that was answered."""
    usual: dict[str, Any] = {
        "key": "k1",
        "model": "m",
        "endpoint": "http://127.0.0.1:8000/v1",
        "lane": "",
        "attempts": 1,
        "status": 200,
        "seconds": 0.5,
        "max_tokens": 100,
        "prompt_tokens": 30,
        "cached_tokens": 20,
        "completion_tokens": 4,
        "answered_by": "m-2",
        "finish_reason": "stop",
    }
    return CallEnded(**usual | changes)
