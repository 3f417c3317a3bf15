"""Limits and patience of an engine."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.engine.admission.limiter import START

SPARE_WORKERS = 8  # questions beyond the calls under way: one that waits for its next try holds up no other


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Limits and patience of an engine.

    `concurrency` bounds the calls under way. `adaptive` begins with `start` of them and finds out how many pay, up to
    there; without it the limit is taken at its word, and only falls for a while when calls are turned away. `rpm` and
    `tpm` are requests and tokens a minute, for each endpoint.

    `attempts` bounds transient failures of one call while others succeed; waits for rate limits are not counted.
    `repairs` bounds how often a reply that cannot be read is asked for again. `strict_model` ends the run where another
    model answers. Seconds throughout.
    """

    concurrency: int = 64
    adaptive: bool = False
    start: int = START
    rpm: float | None = None
    tpm: float | None = None
    attempts: int = 20
    repairs: int = 3
    wait_s: float = 0.5
    max_wait_s: float = 60.0
    first_contact_s: float = 15.0
    give_up_after_s: float = 1800.0
    offline: bool = False
    strict_model: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be >= 1 (got {self.concurrency})")
        if self.attempts < 1:
            raise ValueError(f"attempts must be >= 1 (got {self.attempts})")

    @property
    def workers(self) -> int:
        """Questions that should be under way at once, so that calls are: a few wait between two tries."""
        return self.concurrency + SPARE_WORKERS
