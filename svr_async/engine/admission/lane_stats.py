"""What can be known about a lane at a moment, for progress, logs and metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStats:
    """One endpoint as it is admitted to. Rates are per minute, None where none is known; `wait_s` until the next call.

    `state` is ready, full, paced, rate limited, down or trying; `mode` is that of the limiter; `paused_s` adds up the
    pauses that rate limits have made so far.
    """

    name: str
    state: str
    mode: str
    limit: int
    ceiling: int
    in_flight: int
    sent: int
    succeeded: int
    rate_limited: int
    failed: int
    falls: int
    wait_s: float
    paused_s: float
    rpm: float | None
    tpm: float | None
    seconds_per_token: float | None
