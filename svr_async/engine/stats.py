"""Facts about a running engine, for progress, metrics and logs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """A snapshot. `sent` counts calls that left, retries too; `lost` those that may be billed without an answer.

    Tokens are those of the replies behind the results, each counted once, whether it was paid for now or earlier;
    `usd` is what this process paid.
    """

    in_flight: int
    waiting: int
    memo_hits: int
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
    usd: float | None
    planned_calls: int
    planned_prompt_tokens: int
    planned_completion_tokens: int
    planned_max_completion_tokens: int
    last_failure: str


@dataclass(slots=True)
class Counters:
    """The engine's own tallies behind `EngineStats`."""

    memo_hits: int = 0
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
    planned_calls: int = 0
    planned_prompt_tokens: int = 0
    planned_completion_tokens: int = 0
    planned_max_completion_tokens: int = 0
    last_failure: str = field(default="")
