"""Facts about a running engine, for progress, metrics and logs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from svr_async.engine.histogram import Histogram, Spread

if TYPE_CHECKING:
    from svr_async.engine.admission.lane_stats import LaneStats
    from svr_async.engine.admission.lanes import Lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """A snapshot. `sent` counts calls that left, retries too; `lost` those that may be billed without an answer.

    Tokens are those of the replies behind the results, each counted once, whether it was paid for now or earlier; those
    of them that were bought in a batch, and cost less, are counted in `batch_…` too. `usd` is what this process paid.
    `limit` is how many calls may be under way now, `paused_s` for how long rate limits have held calls back (on the
    lane where it was longest), `queue_age_s` how long the longest-waiting call has waited for its slot. `latency` is
    that of HTTP requests with a usable reply, `lag` the event loop's; `lanes` has one record an endpoint.
    """

    in_flight: int
    waiting: int
    limit: int
    cache_hits: int
    joined: int
    sent: int
    retries: int
    rate_limited: int
    repaired: int
    failed: int
    lost: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    batch_prompt_tokens: int
    batch_cached_tokens: int
    batch_completion_tokens: int
    usd: float | None
    paused_s: float
    queue_age_s: float
    latency: Spread
    lag: Spread
    lanes: tuple[LaneStats, ...]
    planned_calls: int
    planned_prompt_tokens: int
    planned_completion_tokens: int
    planned_max_completion_tokens: int
    last_failure: str


@dataclass(slots=True)
class Counters:
    """The engine's own tallies behind `EngineStats`."""

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
    planned_calls: int = 0
    planned_prompt_tokens: int = 0
    planned_completion_tokens: int = 0
    planned_max_completion_tokens: int = 0
    last_failure: str = field(default="")
    latency: Histogram = field(default_factory=Histogram)


_COUNTED = tuple(one.name for one in fields(Counters) if one.name != "latency")


def snapshot(counters: Counters, lanes: Lanes, *, usd: float | None, lag: Spread) -> EngineStats:
    """Return the facts of this moment."""
    each = lanes.stats()
    return EngineStats(
        **{name: getattr(counters, name) for name in _COUNTED},
        in_flight=lanes.in_flight,
        waiting=lanes.waiting,
        limit=lanes.limit,
        usd=usd,
        paused_s=max(lane.paused_s for lane in each),
        queue_age_s=lanes.queue_age_s,
        latency=counters.latency.spread(),
        lag=lag,
        lanes=each,
    )
