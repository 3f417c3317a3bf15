"""Discrete-event simulations, pure and in virtual time: an endpoint of some kind, and a limiter or a lane before it."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from svr_async.engine.admission.lane import Lane, Permit
from svr_async.engine.admission.limiter import Limiter
from svr_async.engine.admission.rates import read_notices
from svr_async.engine.classify import Billed, Failure, Kind
from svr_async.engine.config import EngineConfig
from svr_async.engine.http.transport import Transport

SIGMA = 0.5  # of the logarithm of a reply's time
REJECTED_S = 0.02
TOKENS = 250


class Limits(Protocol):
    """What decides how many calls may be under way."""

    limit: int

    def succeeded(self, now: float, sent_at: float, level: int, pace: float) -> None:
        """Note a success."""

    def rejected(self, now: float, sent_at: float, level: int) -> bool:
        """Note a rejection."""


@dataclass(slots=True)
class Fixed:
    """A limit that stays."""

    limit: int

    def succeeded(self, now: float, sent_at: float, level: int, pace: float) -> None:
        """Change nothing."""

    def rejected(self, now: float, sent_at: float, level: int) -> bool:
        """Change nothing."""
        return False


@dataclass(slots=True)
class Traffic:
    """Each second of a run: answers, rejections, and the limit at its end."""

    answers: list[int] = field(default_factory=list)
    rejections: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def goodput(self, start: int, end: int) -> float:
        """Answers a second between two moments."""
        return sum(self.answers[start:end]) / (end - start)

    def rejected(self, start: int, end: int) -> float:
        """Share of calls that were turned away between two moments."""
        turned_away, answered = sum(self.rejections[start:end]), sum(self.answers[start:end])
        return turned_away / max(1, turned_away + answered)


def drive(
    kind: str, capacity: Callable[[float], int], limits: Limits, *, latency_s: float, seconds: int, seed: int = 0
) -> Traffic:
    """Keep as many calls under way as the limits allow, at an endpoint with room for so many; there is always work.

    `slots`: those that find no room queue. `reject`: they get a 503. `batch`: the fewer there are, the faster each is,
    four times at best, and more than there is room for queue. `thrash`: nobody queues, and with more than there is
    room for everything takes longer, by the square.
    """
    served = Served(kind, capacity, latency_s, random.Random(seed))
    traffic = Traffic([0] * seconds, [0] * seconds, [0] * seconds)
    under_way = 0
    while True:
        while under_way < limits.limit:
            under_way += 1
            served.arrive(under_way)
        now, answered, sent_at, level = served.next()
        if now >= seconds:
            return traffic
        under_way -= 1
        if answered:
            traffic.answers[int(now)] += 1
            limits.succeeded(now, sent_at, level, (now - sent_at) / TOKENS)
        else:
            traffic.rejections[int(now)] += 1
            limits.rejected(now, sent_at, level)
        traffic.limits[int(now)] = limits.limit


@dataclass(slots=True)
class Served:
    """The endpoint of `drive`: calls arrive, and their ends come out in the order of time."""

    kind: str
    capacity: Callable[[float], int]
    latency_s: float
    rng: random.Random
    now: float = 0.0
    busy: int = 0
    number: int = 0
    events: list[tuple[float, int, bool, float, int]] = field(default_factory=list)
    line: deque[tuple[float, int]] = field(default_factory=deque)

    def arrive(self, level: int) -> None:
        """A call arrives, with so many under way."""
        if self.kind == "thrash" or self.busy < self.capacity(self.now):
            self._serve(self.now, level)
        elif self.kind == "reject":
            self._push(self.now + REJECTED_S, False, self.now, level)
        else:
            self.line.append((self.now, level))

    def next(self) -> tuple[float, bool, float, int]:
        """Let time pass until a call ends; return when, whether with an answer, and when and at which level it left."""
        self.now, _, answered, sent_at, level = heapq.heappop(self.events)
        if answered:
            self.busy -= 1
            while self.line and self.busy < self.capacity(self.now):
                self._serve(*self.line.popleft())
        return self.now, answered, sent_at, level

    def _serve(self, sent_at: float, level: int) -> None:
        self.busy += 1
        time_s = self.latency_s * math.exp(self.rng.gauss(0.0, SIGMA) - SIGMA**2 / 2)
        if self.kind == "batch":
            time_s *= (1 + 3 * self.busy / self.capacity(self.now)) / 4
        if self.kind == "thrash":
            time_s *= max(1.0, self.busy / self.capacity(self.now)) ** 2
        self._push(self.now + time_s, True, sent_at, level)

    def _push(self, at: float, answered: bool, sent_at: float, level: int) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, answered, sent_at, level))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What happens to an endpoint: seats (and how many from a moment on), a rate, an outage, how calls end."""

    calls: int
    ceiling: int
    adaptive: bool
    latency_s: float
    seats: tuple[int, int]
    seats_change_s: float
    rate: float | None
    headers: str
    outage: tuple[float, float]
    faults: float
    cancels: float

    @classmethod
    def draw(cls, rng: random.Random) -> Schedule:
        """Draw one of all sorts."""
        start = rng.uniform(0.0, 4.0)
        return cls(
            calls=rng.randint(3, 24),
            ceiling=rng.choice((1, 2, 4, 16, 64)),
            adaptive=rng.random() < 0.7,
            latency_s=math.exp(rng.uniform(-4.0, 1.0)),
            seats=(rng.choice((1, 3, 10, 1000)), rng.choice((1, 5, 1000))),
            seats_change_s=rng.uniform(0.0, 5.0),
            rate=rng.choice((None, None, 2.0, 30.0)),
            headers=rng.choice(("none", "after", "all")),
            outage=(start, start + rng.choice((0.0, 0.0, 1.0, 20.0))),
            faults=rng.choice((0.0, 0.0, 0.1, 0.5)),
            cancels=rng.choice((0.0, 0.0, 0.1)),
        )


@dataclass(slots=True)
class Outcome:
    """What became of a schedule."""

    answered: int = 0
    cancelled: int = 0
    sent: int = 0
    seconds: float = 0.0
    peak: int = 0


class StuckError(AssertionError):
    """Calls wait and nothing will ever happen."""


class Driver:
    """Takes all calls of a schedule through a real lane to an endpoint that does what the schedule says."""

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self.schedule, self.rng = schedule, rng
        config = EngineConfig(concurrency=schedule.ceiling, adaptive=schedule.adaptive, start=min(4, schedule.ceiling))
        self.lane = Lane(_NOWHERE, config, many=rng.random() < 0.5)
        self.now, self.busy, self.level, self.filled_at = 100.0, 0, 5.0, 100.0
        self.waiting = schedule.calls
        self.events: list[tuple[float, int, Permit | None, Any]] = []
        self.done = Outcome()
        self.number = 0

    def run(self) -> Outcome:
        """Run until every call is answered or cancelled; `StuckError` when that will never be."""
        steps = 0
        while self.done.answered + self.done.cancelled < self.schedule.calls:
            self._send()
            if not self.events:
                raise StuckError(f"{self.waiting} calls wait: {self.schedule}")
            at, _, permit, failure = heapq.heappop(self.events)
            self.now = max(self.now, at)
            if permit is not None:
                self._end(permit, failure)
            steps += 1
            if steps > 300 * self.schedule.calls:
                raise StuckError(f"no end of it: {self.schedule}")
        self.done.seconds = self.now - 100.0
        return self.done

    def _push(self, at: float, permit: Permit | None, failure: Any) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, permit, failure))

    def _send(self) -> None:
        lane = self.lane
        while self.waiting:
            at = lane.opens_at(self.now, 1)
            if at > self.now:
                if at < math.inf:
                    self._push(at, None, None)
                return
            permit = lane.take(self.now, 1)
            assert lane.in_flight <= lane.limiter.limit <= self.schedule.ceiling
            self.waiting -= 1
            self.done.sent += 1
            self.done.peak = max(self.done.peak, lane.in_flight)
            failure, time_s = self._meet()
            self._push(self.now + time_s, permit, failure)

    def _meet(self) -> tuple[Any, float]:
        """What a call meets: (a failure or None, seconds)."""
        plan, rng = self.schedule, self.rng
        since = self.now - 100.0
        if plan.outage[0] <= since < plan.outage[1]:
            return _REFUSED, 0.001
        if rng.random() < plan.cancels:
            return "cancelled", rng.random() * plan.latency_s
        if rng.random() < plan.faults:
            return rng.choice((_RESET, _BUSY, _ERROR, _HANGS, _BAD_WORDS)), rng.random() * plan.latency_s
        if plan.rate is not None:
            self.level = min(5.0, self.level + (self.now - self.filled_at) * plan.rate)
            self.filled_at = self.now
            if self.level < 1:
                wait_s = None if plan.headers == "none" else (1 - self.level) / plan.rate
                return Failure(kind=Kind.RATE_LIMITED, detail="429", wait_s=wait_s, status=429), 0.001
            self.level -= 1
        if self.busy >= plan.seats[since > plan.seats_change_s]:
            return _BUSY, 0.001
        self.busy += 1
        return None, plan.latency_s * math.exp(rng.gauss(0.0, SIGMA))

    def _end(self, permit: Permit, failure: Any) -> None:
        lane = self.lane
        if failure is None:
            self.busy -= 1
            self.done.answered += 1
            lane.succeeded(permit, self.now, written=TOKENS)
            if self.schedule.headers == "all" and self.schedule.rate:
                lane.hear(permit, self.now, self._headers())
        elif failure == "cancelled":
            self.done.cancelled += 1
        else:
            lane.failed(permit, self.now, failure)
            self.waiting += 1
        lane.leave(permit)

    def _headers(self) -> dict[str, str]:
        limit = str(60 * (self.schedule.rate or 0.0))
        found = {"x-ratelimit-limit-requests": limit, "x-ratelimit-remaining-requests": str(max(0, int(self.level)))}
        assert read_notices(found)[0] is not None
        return found


class _Nowhere:
    async def send(self, request: Any) -> Any:
        """Never asked."""

    async def close(self) -> None:
        """Nothing to close."""


_NOWHERE: Transport = _Nowhere()
_REFUSED = Failure(kind=Kind.TRANSIENT, detail="cannot connect", signature="refused", billed=Billed.NO)
_RESET = Failure(kind=Kind.TRANSIENT, detail="reset", signature="reset")
_HANGS = Failure(kind=Kind.TRANSIENT, detail="no complete reply", signature="timeout")
_BUSY = Failure(kind=Kind.TRANSIENT, detail="HTTP 503", signature="503", status=503)
_ERROR = Failure(kind=Kind.TRANSIENT, detail="HTTP 500", signature="500", status=500, answered=True)
_BAD_WORDS = Failure(kind=Kind.TRANSIENT, detail="not JSON", signature="200", status=200, answered=True)


def adaptive(ceiling: int = 1024) -> Limiter:
    """Return a limiter that has to find out."""
    return Limiter(ceiling=ceiling, start=16)
