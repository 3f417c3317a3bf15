"""How a server judges, how long it waits, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from svr_async.errors import UsageError
from svr_async.serving.pairs import Shown
from svr_async.serving.schedules import Schedule, check_schedule

Relative = Literal["group", "anchor"]
GATHER_SHARE = 0.6  # of a deadline: the time for members to come; the rest is for judging those that did
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of `svr serve`; seconds and bytes throughout. UsageError for what cannot be.

    `schedule` and `rounds` say who of a group is judged side by side; `group_size` is how many members a group has
    whose requests do not say so, 0 for none. With `relative` anchor a reward is the margin over the request's anchor or
    label. `fallback` is the reward where the judge gives none. `deadline_s` after a group's first member, or a request,
    everyone is answered; after `gather_s` (by default 0.6 of it) a group waits for no more members. A group's answers
    are kept for `keep_s`. Penalties are taken off rewards, 0 is off. `token` is what clients must send, "" for none.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str = ""
    schedule: Schedule = "circle"
    rounds: int | None = None
    order: Shown = "hash"
    top_k: int | None = None
    group_size: int = 0
    relative: Relative = "group"
    fallback: float = 0.0
    deadline_s: float = 100.0
    gather_s: float | None = None
    keep_s: float = 900.0
    length_penalty: float = 0.0
    style_penalty: float = 0.0
    max_body: int = 4 * MIB
    max_group: int = 64
    max_requests: int = 4096
    max_groups: int = 4096
    read_s: float = 10.0
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        check_schedule(self.schedule, rounds=self.rounds, anchor=None)
        if self.relative not in get_args(Relative):
            raise UsageError(f"relative must be group or anchor (got {self.relative!r})", hint="group is the default")
        if not math.isfinite(self.fallback):
            raise UsageError(f"--fallback {self.fallback} is no reward", hint="give a finite number")
        if self.gather_s is not None and not 0 < self.gather_s <= self.deadline_s:
            raise UsageError(
                f"--gather {self.gather_s:g} is not within --deadline {self.deadline_s:g}",
                hint="members are waited for first, then judged",
            )
        if not 0 <= self.group_size <= self.max_group:
            raise UsageError(
                f"--group-size {self.group_size} is more than --max-group {self.max_group}", hint="raise --max-group"
            )

    @property
    def wait_s(self) -> float:
        """Seconds for which a group waits for its members."""
        return self.deadline_s * GATHER_SHARE if self.gather_s is None else self.gather_s
