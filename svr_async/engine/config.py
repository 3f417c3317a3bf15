"""Limits and patience of an engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Limits and patience of an engine.

    `attempts` bounds transient failures of one call while others succeed; waits for rate limits are not counted.
    `repairs` bounds how often a reply that cannot be read is asked for again. Seconds throughout.
    """

    concurrency: int = 64
    rpm: float | None = None
    tpm: float | None = None
    attempts: int = 8
    repairs: int = 3
    wait_s: float = 0.5
    max_wait_s: float = 60.0
    first_contact_s: float = 15.0
    give_up_after_s: float = 1800.0
    offline: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be >= 1 (got {self.concurrency})")
        if self.attempts < 1:
            raise ValueError(f"attempts must be >= 1 (got {self.attempts})")
