"""Facts about a running engine, for progress, metrics and logs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from svr_async.engine.endpoint import EndpointStats

if TYPE_CHECKING:
    from svr_async.engine.endpoint import EndpointPool

LATEST = 4096  # durations that the quantiles are of


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Number of durations, three quantiles and the longest, in seconds; None without any."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(kw_only=True)
class Counts:
    """Counts of an engine. `sent` counts calls that left, including retries; `lost` may be billed without an answer.

    Tokens are those of the replies behind the results, each counted once, whether paid for now or earlier; `batch_…`
    are the part bought in batches, `reported_usd` is their cost as the endpoint reports it (None if it does not).
    """

    cache_hits: int = 0
    joined: int = 0
    sent: int = 0
    retries: int = 0
    rate_limited: int = 0
    repaired: int = 0
    failed: int = 0
    lost: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    batch_prompt_tokens: int = 0
    batch_cached_tokens: int = 0
    batch_completion_tokens: int = 0
    reported_usd: float | None = None
    planned_calls: int = 0
    planned_completion_tokens: int = 0
    planned_max_completion_tokens: int = 0
    last_failure: str = ""


@dataclass(kw_only=True)
class Counters(Counts):
    """The counts of a running engine, with the latest durations of HTTP requests that had a usable reply."""

    answered: int = 0
    latest_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST))


@dataclass(kw_only=True)
class EngineStats(Counts):
    """A snapshot of the counts and the state of an engine.

    `usd` is what this process paid, None if unknown. `limit` is how many calls may be in flight now, `paused_s` how
    long rate limits have held calls back, of the endpoint where it was longest.
    """

    in_flight: int = 0
    waiting: int = 0
    limit: int = 0
    usd: float | None = None
    paused_s: float = 0.0
    latency: Spread = Spread()
    endpoints: tuple[EndpointStats, ...] = ()


def snapshot(counters: Counters, pool: EndpointPool, *, usd: float | None) -> EngineStats:
    """Return the facts of this moment."""
    each = pool.stats()
    return EngineStats(
        **{count.name: getattr(counters, count.name) for count in fields(Counts)},
        in_flight=pool.in_flight,
        waiting=pool.waiting,
        limit=pool.limit,
        usd=usd,
        paused_s=max(endpoint.paused_s for endpoint in each),
        latency=_spread(counters),
        endpoints=each,
    )


def _spread(counters: Counters) -> Spread:
    found = sorted(counters.latest_s)
    if not found:
        return Spread()
    p50, p90, p99 = (found[int(share * (len(found) - 1))] for share in (0.5, 0.9, 0.99))
    return Spread(count=counters.answered, p50=p50, p90=p90, p99=p99, max=found[-1])
