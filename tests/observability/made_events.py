"""Events and facts for tests of observers."""

from __future__ import annotations

from typing import Any

from svr_async.engine.events import AttemptEnded, CallEnded, Snapshot
from svr_async.engine.stats import EngineStats, Spread

LATENCY = Spread(count=3, p50=0.1, p90=0.2, p99=0.3, max=0.4)
ENDPOINT = "http://127.0.0.1:8000/v1"


def facts(**changes: Any) -> EngineStats:
    """Return facts that are zero except for the changes."""
    return EngineStats(**{"latency": LATENCY, **changes})


def snapshot(source: int = 1, model: str = "m", *, closing: bool = False, **changes: Any) -> Snapshot:
    """Return a snapshot of such facts."""
    return Snapshot(source=source, model=model, stats=facts(**changes), closing=closing)


def attempt(**changes: Any) -> AttemptEnded:
    """Return a successful HTTP request."""
    usual: dict[str, Any] = {"key": "k1", "model": "m", "endpoint": "", "status": 200, "seconds": 0.25}
    return AttemptEnded(**usual | changes)


def call(**changes: Any) -> CallEnded:
    """Return an answered call."""
    usual: dict[str, Any] = {"key": "k1", "model": "m", "identity": ENDPOINT, "endpoint": "", "attempts": 1}
    usual |= {"status": 200, "seconds": 0.5, "max_tokens": 100, "prompt_tokens": 30, "cached_tokens": 20}
    usual |= {"completion_tokens": 4, "answered_by": "m-2", "finish_reason": "stop"}
    return CallEnded(**usual | changes)
