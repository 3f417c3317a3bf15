"""The status line of an engine, for people who watch a run."""

from __future__ import annotations

from collections.abc import Callable

from svr_async.core.safetext import one_line
from svr_async.engine.endpoint import EndpointStats
from svr_async.engine.stats import EngineStats

WORTH_SHOWING_S = 1.0
HELD = {
    "rate limited": "rate limited",
    "paced": "held to a rate, next call in",
    "down": "no answer, next try in",
    "trying": "no answer, trying",
}  # by the state of an endpoint
OUTAGES = frozenset({"down", "trying"})


def engine_facts(stats: Callable[[], EngineStats] | None) -> str:
    """Return the status line of an engine; "" without one."""
    if stats is None:
        return ""
    now = stats()
    parts = [f"{now.in_flight}/{now.limit} in flight" if now.waiting else f"{now.in_flight} in flight"]
    parts += [] if now.usd is None else [f"${now.usd:.2f}"]  # early, since a narrow terminal cuts the end off
    parts += _held(now)
    parts += [f"{now.cache_hits} from cache"] if now.cache_hits else []
    parts += [f"{now.retries} retries"] if now.retries else []
    parts += [] if now.latency.p50 is None else [f"{_short(now.latency.p50)} a call"]
    if len(now.endpoints) > 1:
        parts.append(" ".join(f"{_host(endpoint.name)} {endpoint.in_flight}" for endpoint in now.endpoints))
    if now.sent and not now.in_flight and now.last_failure:
        parts.append(f"last: {one_line(now.last_failure, 60)}")
    return ", ".join(parts)


def _held(now: EngineStats) -> list[str]:
    """Return which endpoints hold calls back and for how long; waits too short to read are left out."""
    many = len(now.endpoints) > 1
    return [
        f"{f'{_host(endpoint.name)} ' if many else ''}{HELD[endpoint.state]}{_wait(endpoint.wait_s)}"
        for endpoint in now.endpoints
        if endpoint.state in OUTAGES
        or (endpoint.state in HELD and endpoint.wait_s >= WORTH_SHOWING_S and _matters(endpoint, now))
    ]


def _matters(endpoint: EndpointStats, now: EngineStats) -> bool:
    """Whether a wait delays a call: a known rate delays only calls that wait."""
    return endpoint.state != "paced" or now.waiting > 0


def _host(endpoint: str) -> str:
    """Return a short name of an endpoint: host and port of a URL."""
    return one_line(endpoint.partition("://")[2].partition("/")[0] or endpoint, 22)


def _wait(seconds: float) -> str:
    return f" {seconds:.0f} s" if seconds >= WORTH_SHOWING_S else ""


def _short(seconds: float) -> str:
    """Return a time with about two digits: 0.03 s, 1.2 s, 48 s."""
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
