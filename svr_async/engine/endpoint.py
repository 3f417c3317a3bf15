"""Endpoint slots: when a call may leave, and to which endpoint.

Concurrency follows additive increase and multiplicative decrease; token buckets keep to known rates; `Retry-After`
pauses an endpoint; a circuit breaker stops calls to one that is down. No I/O except one timer; the clock is injected.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from svr_async.engine.classify import Failure, Kind
from svr_async.engine.rates import Bucket, ReportedRate, read_rate_headers
from svr_async.engine.transport import Transport

NEVER = float("inf")
START = 64  # first limit unless the user sets one
TOLERATED = 0.15  # share of refused calls per round that does not lower the limit: some endpoints fail at random
ROUND = 20  # fewest outcomes per round
PAYS = 1.2  # doubling the calls has to raise the throughput by this factor
REST_ROUNDS = 32  # rounds after which doubling is tried again
PAUSE_JITTER = 0.1
MIN_PAUSE_S, FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.25, 60.0
OUTAGE = 20  # failures in a row that open the breaker; 5 if there are other endpoints
LONGEST_OUTAGE_WAIT_S = 15.0
READ_HEADERS_S = 0.25  # how often the headers of successful replies are read
PATIENCE_S = 5.0  # until a refusal confirms them, reported limits hold a call no longer: some endpoints report 0 left
SHORTEST_TIMER_S = 0.001


class EngineStoppedError(Exception):
    """No further calls are admitted: the run is being stopped."""


class ConcurrencyLimit:
    """How many calls may be in flight: between 1 and `ceiling`.

    At the start the limit doubles per round (as many outcomes as the limit) while the throughput grows. It is halved
    when too many calls of a round are refused (429, 503, timeouts), and then grows by a sixteenth of that per round.
    """

    __slots__ = ("_began", "_fell_at", "_outcomes", "_rate", "_refused", "_rest", "_step", "_target", "ceiling",
                 "limit")  # fmt: skip

    def __init__(self, *, ceiling: int, start: int | None = None) -> None:
        self.ceiling = ceiling
        self.limit = self._target = max(1, min(start or ceiling, ceiling))
        self._step = 1
        self._rate = 0.0  # outcomes a second in the round before the limit was doubled
        self._rest = 0
        self._fell_at = self._began = float("-inf")
        self._outcomes = self._refused = 0

    def succeeded(self, now: float, sent_at: float, in_flight: int) -> None:
        """Note a success of a call sent at `sent_at`."""
        if sent_at < self._fell_at:
            return
        if not self._outcomes:
            self._began = sent_at
        self._outcomes += 1
        if self._outcomes >= max(ROUND, self.limit):
            rate = self._outcomes / max(1e-9, now - self._began)
            self._outcomes = self._refused = 0
            if 4 * in_flight >= 3 * self.limit and self.limit < self.ceiling:
                self._grow(rate)

    def refused(self, now: float, sent_at: float) -> bool:
        """Note a refused call; return whether the limit fell. Calls sent before the last fall do not count."""
        if sent_at < self._fell_at:
            return False
        self._outcomes += 1
        self._refused += 1
        calls = max(ROUND, self.limit, self._outcomes)
        if self._refused <= TOLERATED * calls + math.sqrt(calls):  # the root allows for chance
            return False
        self.restart(now)
        return True

    def restart(self, now: float) -> None:
        """Halve the limit, and return from there step by step."""
        self._target = max(self._target if self._fell_at > float("-inf") else 1, self.limit)
        self.limit = max(1, self.limit // 2)
        self._step = max(1, self.limit // 16)
        self._fell_at = now
        self._outcomes = self._refused = 0
        self._rest = 0

    def _grow(self, rate: float) -> None:
        if self.limit < self._target:
            self.limit = min(self._target, self.limit + self._step)
            return
        self._rest -= 1
        if self._rest > 0:
            return
        if rate >= PAYS * self._rate:  # the last doubling paid, or was a while ago
            self._rate = rate
            growth = self.limit if self._fell_at == float("-inf") else self._step
            self.limit = self._target = min(self.ceiling, self.limit + growth)
        else:
            self._rate, self._rest = 0.0, REST_ROUNDS


class Breaker:
    """A circuit breaker: opens after `least` failures in a row, then lets one call at a time try the endpoint.

    `wait_s` is the first time it stays open; each failed trial doubles it.
    """

    __slots__ = ("_in_a_row", "_least", "_longest_s", "_wait_s", "opened", "retry_at", "trial")

    def __init__(self, *, wait_s: float = 0.5, longest_s: float = LONGEST_OUTAGE_WAIT_S, least: int = OUTAGE) -> None:
        self.opened = 0  # how often in a row it has opened; 0 while closed
        self.retry_at = 0.0
        self.trial = False  # whether the trial call is in flight
        self._wait_s = wait_s
        self._longest_s = min(longest_s, LONGEST_OUTAGE_WAIT_S)
        self._least = least
        self._in_a_row = 0

    def succeeded(self, sent_at: float) -> None:
        """Note an answered call. Calls sent before it opened do not close it."""
        self._in_a_row = 0
        if self.opened and sent_at >= self.retry_at:
            self.opened = 0
            self.trial = False

    def failed(self, now: float, sent_at: float) -> bool:
        """Note a failed call; return whether that opened the breaker."""
        self._in_a_row += 1
        if (self.opened and sent_at < self.retry_at) or (not self.opened and self._in_a_row < self._least):
            return False
        self.retry_at = now + min(self._longest_s, self._wait_s * 2.0 ** min(30, self.opened))
        self.opened += 1
        self.trial = False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStats:
    """The state of one endpoint. Rates are per minute, None if unknown; `wait_s` until the next call may leave.

    `state` is ready, full, paced, rate limited, down or trying; `paused_s` is the sum of all pauses so far.
    """

    name: str
    state: str
    limit: int
    in_flight: int
    sent: int
    succeeded: int
    rate_limited: int
    failed: int
    wait_s: float
    paused_s: float
    rpm: float | None
    tpm: float | None


class Slot:
    """One call in flight: its endpoint, when it left, its number there, and its estimated tokens."""

    __slots__ = ("endpoint", "number", "sent_at", "tokens", "tokens_taken")

    def __init__(self, endpoint: Endpoint, sent_at: float, tokens: int) -> None:
        self.endpoint = endpoint
        self.sent_at = sent_at
        self.number = endpoint.sent
        self.tokens = tokens
        self.tokens_taken = endpoint.tokens.taken


class Endpoint:
    """The slots of one endpoint; seconds on any steady clock.

    `gated` is False while nothing but the limit holds calls back: admission is then one comparison.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        limit: ConcurrencyLimit,
        breaker: Breaker,
        rpm: float | None = None,
        tpm: float | None = None,
        name: str = "",
    ) -> None:
        self.transport = transport
        self.name = name
        self.limit = limit
        self.breaker = breaker
        self.requests, self.tokens = ReportedRate(), ReportedRate()
        self._rpm = Bucket(rpm / 60) if rpm else None
        self._tpm = Bucket(tpm / 60) if tpm else None
        self.in_flight = self.sent = self.good = self.bad = self.rate_limited = 0
        self.paused_until = self._refused_at = self._left_at = float("-inf")
        self.paused_s = 0.0
        self._refusals = 0  # in a row, without a wait named by the endpoint
        self._confirmed = False  # whether a call was refused while headers reported a limit
        self.read_headers_at = float("-inf")
        self.gated = True

    @property
    def counts_tokens(self) -> bool:
        """Whether an estimate of tokens is needed."""
        return self._tpm is not None or self.tokens.rate is not None

    @property
    def room(self) -> float:
        """Free slots; an endpoint that was down and may be tried comes first."""
        return NEVER if self.breaker.opened else self.limit.limit - self.in_flight

    def opens_at(self, now: float, tokens: int) -> float:
        """Return when a call may leave; infinity if only the end of another call can allow it."""
        if self.in_flight >= self.limit.limit or self.breaker.trial:
            return NEVER
        reported = max(self.requests.opens_at(1.0), self.tokens.opens_at(tokens))
        if not self._confirmed:
            reported = min(reported, self._left_at + PATIENCE_S)
        at = max(now, self.paused_until, reported)
        if self.breaker.opened:
            at = max(at, self.breaker.retry_at)
        if self._rpm is not None:
            at = max(at, self._rpm.opens_at(1.0))
        return at if self._tpm is None else max(at, self._tpm.opens_at(tokens))

    def take(self, now: float, tokens: int) -> Slot:
        """Let a call leave."""
        self._left_at = now
        self.in_flight += 1
        self.sent += 1
        self.requests.take(now, 1.0)
        self._take_tokens(now, tokens)
        if self._rpm is not None:
            self._rpm.take(now, 1.0)
        self.breaker.trial = self.breaker.opened > 0
        paced = self._rpm or self._tpm or self.requests.rate or self.tokens.rate
        self.gated = bool(paced) or self.breaker.opened > 0 or self.paused_until > now
        return Slot(self, now, tokens)

    def leave(self, slot: Slot) -> None:
        """Note that a call has ended, whatever its outcome."""
        self.in_flight -= 1
        if self.breaker.trial and slot.sent_at >= self.breaker.retry_at:
            self.breaker.trial = False

    def succeeded(self, slot: Slot, now: float, *, tokens: int = 0) -> None:
        """Note an answer; `tokens` is what the call took in all, 0 if unknown."""
        self.good += 1
        self._refusals = 0
        self.limit.succeeded(now, slot.sent_at, self.in_flight)
        self.breaker.succeeded(slot.sent_at)
        if slot.tokens and tokens:
            self._take_tokens(now, tokens - slot.tokens)

    def failed(self, slot: Slot, now: float, failure: Failure) -> None:
        """Note a failure: rate limits pause, overload lowers the limit, an outage opens the breaker."""
        if failure.kind is Kind.RATE_LIMITED:
            self.rate_limited += 1
            self._confirmed = self._confirmed or bool(self.requests.rate or self.tokens.rate)
            self._pause(now, failure.wait_s, slot.sent_at)
            self.limit.refused(now, slot.sent_at)
        elif failure.kind is not Kind.ITEM:
            self.bad += 1
            if failure.crowded:
                self.limit.refused(now, slot.sent_at)
        if not failure.down:
            self.breaker.succeeded(slot.sent_at)
        elif self.breaker.failed(now, slot.sent_at):
            self.limit.restart(now)
            self.gated = True

    def read_headers(self, slot: Slot, now: float, headers: Mapping[str, str]) -> None:
        """Adopt what the headers of a reply say about limits."""
        self.read_headers_at = now + READ_HEADERS_S
        self._left_at = max(self._left_at, slot.sent_at)
        if (found := read_rate_headers(headers, "requests")) is not None:
            self.requests.update(now, found, sent_at=slot.sent_at, since=self.sent - slot.number)
            self.gated = True
        if (found := read_rate_headers(headers, "tokens")) is not None:
            self.tokens.update(now, found, sent_at=slot.sent_at, since=self.tokens.taken - slot.tokens_taken)
            self.gated = True

    def _pause(self, now: float, seconds: float | None, sent_at: float) -> None:
        """Let no call leave for a time, with jitter; the later of two ends counts.

        Without a time from the endpoint, the wait doubles with each refusal; calls refused together count once.
        """
        if seconds is None:
            if sent_at < self._refused_at:
                return
            self._refused_at = now
            longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(30, self._refusals))
            self._refusals += 1
            wait_s = max(MIN_PAUSE_S, longest * random.random())  # noqa: S311  (jitter, not a secret)
        else:
            wait_s = max(MIN_PAUSE_S, seconds) * (1 + PAUSE_JITTER * random.random())  # noqa: S311
        until = max(self.paused_until, now + wait_s)
        self.paused_s += until - max(now, self.paused_until)
        self.paused_until = until
        self.gated = True

    def stats(self, now: float) -> EndpointStats:
        """Return a snapshot."""
        opens = self.opens_at(now, 1)
        rpms = [rate for rate in (self._rpm and self._rpm.rate, self.requests.rate) if rate]
        tpms = [rate for rate in (self._tpm and self._tpm.rate, self.tokens.rate) if rate]
        return EndpointStats(
            name=self.name,
            state=self._state(now, opens),
            limit=self.limit.limit,
            in_flight=self.in_flight,
            sent=self.sent,
            succeeded=self.good,
            rate_limited=self.rate_limited,
            failed=self.bad,
            wait_s=max(0.0, opens - now) if opens < NEVER else 0.0,
            paused_s=self.paused_s,
            rpm=60 * min(rpms) if rpms else None,
            tpm=60 * min(tpms) if tpms else None,
        )

    def _state(self, now: float, opens: float) -> str:
        if self.breaker.opened:
            return "trying" if self.breaker.trial else "down"
        if self.paused_until > now:
            return "rate limited"
        if opens == NEVER:
            return "full"
        return "paced" if opens > now else "ready"

    def _take_tokens(self, now: float, tokens: float) -> None:
        self.tokens.take(now, tokens)
        if self._tpm is not None:
            self._tpm.take(now, tokens)


class EndpointPool:
    """The endpoints of one model, and the calls that wait for a slot, first come, first served.

    A call goes to the endpoint with the most room; `ceiling` bounds all endpoints together.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], *, ceiling: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._only = self.endpoints[0] if len(self.endpoints) == 1 else None
        self._ceiling = ceiling
        self._clock = clock
        self._queue: deque[tuple[asyncio.Future[Slot], int]] = deque()
        self.waiting = 0
        self.counts_tokens = any(endpoint.counts_tokens for endpoint in self.endpoints)
        self.stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    @property
    def in_flight(self) -> int:
        """Calls in flight, on all endpoints."""
        return sum(endpoint.in_flight for endpoint in self.endpoints)

    @property
    def limit(self) -> int:
        """Calls that may be in flight now, on all endpoints."""
        return min(self._ceiling, sum(endpoint.limit.limit for endpoint in self.endpoints))

    @property
    def all_down(self) -> bool:
        """Whether the breakers of all endpoints are open."""
        return all(endpoint.breaker.opened for endpoint in self.endpoints)

    def try_enter(self, now: float, tokens: int = 0) -> Slot | None:
        """Return a slot if a call may leave at once and no other call waits, or None."""
        if self.waiting or self.stopped:
            return None
        endpoint = self._only
        if endpoint is not None and not endpoint.gated:
            if endpoint.in_flight >= endpoint.limit.limit:
                return None
            endpoint.in_flight += 1
            endpoint.sent += 1
            return Slot(endpoint, now, tokens)
        endpoint, _ = self._choose(now, tokens)
        return None if endpoint is None else endpoint.take(now, tokens)

    async def enter(self, tokens: int = 0) -> Slot:
        """Wait for a slot; EngineStoppedError if the run is being stopped."""
        if self.stopped:
            raise EngineStoppedError
        place: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._queue.append((place, tokens))
        self.waiting += 1
        self._serve()
        try:
            return await place
        except asyncio.CancelledError:
            if place.cancelled() or not place.done():
                self.waiting -= not self.stopped
            elif place.exception() is None:
                self.leave(place.result())
            raise

    def leave(self, slot: Slot) -> None:
        """Note that a call has ended, and let the next ones leave."""
        slot.endpoint.leave(slot)
        if self.waiting:
            self._serve()

    def stop(self) -> None:
        """Admit nothing more; waiting calls raise EngineStoppedError."""
        self.stopped = True
        self._set_timer(NEVER, 0.0)
        while self._queue:
            place, _ = self._queue.popleft()
            if not place.done():
                place.set_exception(EngineStoppedError())
        self.waiting = 0

    def stats(self) -> tuple[EndpointStats, ...]:
        """Return a snapshot of each endpoint."""
        now = self._clock()
        return tuple(endpoint.stats(now) for endpoint in self.endpoints)

    def _serve(self) -> None:
        """Let waiting calls leave, in the order of the queue, as far as slots are free."""
        now = self._clock()
        opens = NEVER
        while self._queue:
            place, tokens = self._queue[0]
            if not place.done():
                endpoint, at = self._choose(now, tokens)
                if endpoint is None:
                    opens = at
                    break
                self.waiting -= 1
                place.set_result(endpoint.take(now, tokens))
            self._queue.popleft()
        self._set_timer(opens, now)

    def _choose(self, now: float, tokens: int) -> tuple[Endpoint | None, float]:
        """Return the endpoint that a call may leave to, or the time at which to look again."""
        if self._only is not None:
            at = self._only.opens_at(now, tokens)
            return (self._only, now) if at <= now else (None, at)
        if self.in_flight >= self._ceiling:
            return None, NEVER
        opening = [(endpoint.opens_at(now, tokens), endpoint) for endpoint in self.endpoints]
        ready = [endpoint for at, endpoint in opening if at <= now]
        if ready:
            return max(ready, key=lambda endpoint: endpoint.room), now
        return None, min(at for at, _ in opening)

    def _set_timer(self, at: float, now: float) -> None:
        if self._timer is not None:
            if at == self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at < NEVER:
            self._timer = asyncio.get_running_loop().call_later(max(SHORTEST_TIMER_S, at - now), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        self._serve()
