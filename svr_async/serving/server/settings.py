"""Settings of `svr serve`, refusals, and the fallback."""

from __future__ import annotations

import math
from dataclasses import dataclass

from svr_async.errors import SvrError, UsageError
from svr_async.serving.pairs import Shown
from svr_async.serving.ranking import Schedule
from svr_async.serving.scores import Reward

MIB = 2**20
DEADLINE = "deadline"  # not judged in time


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of a server, in seconds and bytes.

    `group_size` is the size of groups whose requests do not give one; 0 makes no groups. `schedule` sets the compared
    members. `fallback` is the reward without a verdict. Every request is answered `deadline_s` after it, or after the
    first member of its group, arrived. The answers of a group are kept for `keep_s`. Clients must send `token`, unless
    it is empty.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str = ""
    schedule: Schedule = "circle"
    order: Shown = "hash"
    top_k: int | None = None
    group_size: int = 0
    fallback: float = 0.0
    deadline_s: float = 100.0
    keep_s: float = 900.0
    max_body: int = 4 * MIB
    max_group: int = 64
    read_s: float = 10.0
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.fallback):
            raise UsageError(f"--fallback must be finite (got {self.fallback})", hint="0 is the default")
        if not 0 <= self.group_size <= self.max_group:
            raise UsageError(f"--group-size must be at most {self.max_group} (got {self.group_size})", hint="use less")


class RefusalError(SvrError):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


def fallback(settings: ServerSettings, reason: str, *, members: int = 0) -> Reward:
    """Return the declared fallback, marked as such."""
    return Reward(value=settings.fallback, reason=reason, coverage=0.0, members=members)
