"""One endpoint as calls are admitted to it: how many at a time, how fast, and when not at all. No I/O, no clock."""

from __future__ import annotations

import random
from collections.abc import Mapping

from svr_async.engine.admission.breaker import Breaker
from svr_async.engine.admission.lane_stats import LaneStats
from svr_async.engine.admission.limiter import Limiter
from svr_async.engine.admission.rates import Bucket, EndpointRate, SeenRate, read_notices
from svr_async.engine.classify import Failure, Kind
from svr_async.engine.config import EngineConfig
from svr_async.engine.http.transport import Transport

PAUSE_JITTER = 0.1
DEFAULT_PAUSE_S = 0.25  # longest first pause where the endpoint names none; it doubles with each further refusal
MIN_PAUSE_S = 0.05  # shortest pause, also where the endpoint says "0 seconds"
LONGEST_PAUSE_S = 60.0
PREFILL_TOKENS = 50  # time to the first token, counted in output tokens
SMOOTH = 0.05
LISTEN_S = 0.25
NOT_AS_TOLD = 0.9  # a rate read off refusals is kept to where it is below this share of the one in the headers
PATIENCE_S = 5.0  # headers alone hold a call for no longer, until a refusal has borne them out
NEVER = float("inf")


class LaneStoppedError(Exception):
    """The lanes admit no further calls: the run is being stopped."""


class Permit:
    """One call under way: its lane, when it left, how many were under way then, and what it was taken for."""

    __slots__ = ("lane", "level", "number", "sent_at", "tokens", "tokens_taken")

    def __init__(self, lane: Lane, sent_at: float, tokens: int) -> None:
        self.lane = lane
        self.sent_at = sent_at
        self.level = lane.in_flight
        self.number = lane.sent
        self.tokens = tokens
        self.tokens_taken = lane.tokens.taken


class Lane:
    """The state of one endpoint; seconds on any steady clock, tokens as estimated.

    `gated` is False while nothing but the limit holds calls back: the way of nearly all calls is then one comparison.
    """

    def __init__(self, transport: Transport, config: EngineConfig, *, name: str = "", many: bool = False) -> None:
        self.transport = transport
        self.name = name
        start = config.start if config.adaptive else None
        self.limiter = Limiter(ceiling=config.concurrency, start=start, by_latency=config.adaptive)
        wait_s, longest_s = config.wait_s, config.max_wait_s
        self.breaker = Breaker(wait_s=wait_s, longest_s=longest_s, **({"least": 5} if many else {}))
        self.requests, self.tokens, self.seen = EndpointRate(), EndpointRate(), SeenRate()
        self._config = config
        self._rpm = Bucket(config.rpm / 60) if config.rpm else None
        self._tpm = Bucket(config.tpm / 60) if config.tpm else None
        self.in_flight = self.sent = self.good = self.bad = self.rate_limited = 0
        self.paused_until = self._struck_at = float("-inf")
        self.paused_s = 0.0
        self._strikes = 0
        self._left_at = float("-inf")  # when the last call left, since headers told a limit
        self._borne_out = False  # whether a call was refused while headers told a limit
        self._pace: float | None = None
        self.listen_at = float("-inf")  # when to read the headers of a success again
        self.gated = True

    def scale_rates(self, times: float, now: float) -> None:
        """Let so many times the rates of the settings leave from now on."""
        for bucket, named in ((self._rpm, self._config.rpm), (self._tpm, self._config.tpm)):
            if bucket is not None and named:
                bucket.change(now, times * named / 60)

    @property
    def weighs(self) -> bool:
        """Whether tokens are counted, so that an estimate is needed."""
        return self._tpm is not None or self.tokens.rate is not None

    @property
    def room(self) -> int:
        """Calls that the limit has room for."""
        return self.limiter.limit - self.in_flight

    def opens_at(self, now: float, tokens: int) -> float:
        """Return the moment from which a call may leave; infinity while only the end of another can let it."""
        at = now
        if self.in_flight >= self.limiter.limit:
            at = self.limiter.grows_at(now)
        if self.breaker.opened:
            at = NEVER if self.breaker.trial else max(at, self.breaker.retry_at)
        seen, told = self.seen.opens_at(now), self.requests.rate
        if told is None or (self.seen.rate or told) < NOT_AS_TOLD * told:
            at = max(at, seen)
        at = max(at, self.paused_until, self.told_at(tokens))
        if self._rpm is not None:
            at = max(at, self._rpm.opens_at(1.0))
        return at if self._tpm is None else max(at, self._tpm.opens_at(tokens))

    def told_at(self, tokens: int) -> float:
        """Return the moment from which a call may leave by what headers tell of limits.

        Some endpoints always tell that nothing is left, and answer. So until a call was refused one leaves now and then
        against what is told: it is answered, or its refusal, which costs nothing, says that the headers are right.
        """
        at = max(self.requests.opens_at(1.0), self.tokens.opens_at(tokens))
        return at if self._borne_out else min(at, self._left_at + PATIENCE_S)

    def take(self, now: float, tokens: int) -> Permit:
        """Let a call leave."""
        self._left_at = now
        told = self.requests.rate or (self._rpm.rate if self._rpm else None)
        self.limiter.grow(now, self.in_flight, told)
        self.in_flight += 1
        self.sent += 1
        self.seen.take(now)
        self.requests.take(now, 1.0)
        self._weigh(now, tokens)
        if self._rpm is not None:
            self._rpm.take(now, 1.0)
        self.breaker.trial = self.breaker.opened > 0
        limited = self._rpm or self._tpm or self.seen.rate or self.requests.rate or self.tokens.rate
        self.gated = bool(limited) or self.breaker.opened > 0 or self.paused_until > now
        return Permit(self, now, tokens)

    def leave(self, permit: Permit) -> None:
        """A call has ended, however."""
        self.in_flight -= 1
        if self.breaker.trial and permit.sent_at >= self.breaker.retry_at:
            self.breaker.trial = False

    def succeeded(self, permit: Permit, now: float, *, written: int, cost: int = 0) -> None:
        """Note an answer of so many tokens, and what the call has cost in all; a cost of 0 is not known."""
        self.good += 1
        self._strikes = 0
        pace = (now - permit.sent_at) / (written + PREFILL_TOKENS)
        self._pace = pace if self._pace is None else self._pace + SMOOTH * (pace - self._pace)
        told = self._rpm is not None or self.requests.rate is not None
        self.limiter.succeeded(now, permit.sent_at, permit.level, pace, told=told)
        self.breaker.succeeded(now, permit.sent_at)
        if permit.tokens and cost:
            self._weigh(now, cost - permit.tokens)

    def failed(self, permit: Permit, now: float, failure: Failure) -> None:
        """Note a failure: rate limits pause, overload lowers the limit, what looks like an outage opens the breaker."""
        if failure.kind is Kind.RATE_LIMITED:
            self.rate_limited += 1
            self._borne_out = self._borne_out or self.requests.rate is not None or self.tokens.rate is not None
            told = self.requests.rate is not None or self._rpm is not None
            self.pause(now, failure.wait_s, sent_at=permit.sent_at)
            pause_s = max(0.0, self.paused_until - now)
            self.seen.refused(now, permit.sent_at, number=permit.number, sent=self.sent, pause_s=pause_s)
            if told or self.seen.is_kept(now):
                self.limiter.rejected(
                    now, permit.sent_at, permit.level
                )  # refused below the known rate: too many at a time
            self.breaker.succeeded(now, permit.sent_at)
        elif failure.kind is Kind.ITEM:
            self.breaker.succeeded(now, permit.sent_at)
        else:
            self.bad += 1
            if failure.crowded:
                self.limiter.rejected(now, permit.sent_at, permit.level)
            if failure.no_descriptors and permit.sent_at >= self.limiter.fell_at:
                self.limiter.fall(now, permit.level)
            if failure.down and self.breaker.failed(now, permit.sent_at):
                self.limiter.restart(now)
                self.gated = True

    def hear(self, permit: Permit, now: float, headers: Mapping[str, str]) -> None:
        """Take over what the headers of a reply say about limits."""
        self.listen_at = now + LISTEN_S
        requests, tokens = read_notices(headers)
        self._left_at = max(self._left_at, permit.sent_at)
        if requests is not None:
            self.requests.hear(now, requests, sent_at=permit.sent_at, since=self.sent - permit.number)
        if tokens is not None:
            self.tokens.hear(now, tokens, sent_at=permit.sent_at, since=self.tokens.taken - permit.tokens_taken)
        self.gated = self.gated or requests is not None or tokens is not None

    def pause(self, now: float, seconds: float | None, *, sent_at: float = NEVER) -> None:
        """Let no call leave for so long, and a little longer; the later of two deadlines counts.

        Without a time the wait is drawn at random below a bound that doubles, once for calls refused together.
        """
        if seconds is None:
            if sent_at < self._struck_at:
                return
            self._struck_at = now
            bound = min(LONGEST_PAUSE_S, DEFAULT_PAUSE_S * 2.0 ** min(30, self._strikes))
            self._strikes += 1
            wait_s = max(min(MIN_PAUSE_S, bound), bound * random.random())  # noqa: S311  (jitter, not a secret)
        else:
            wait_s = max(MIN_PAUSE_S, seconds) * (1 + PAUSE_JITTER * random.random())  # noqa: S311
        until = max(self.paused_until, now + wait_s)
        self.paused_s += until - max(now, self.paused_until)
        self.paused_until = until
        self.gated = True

    def stats(self, now: float) -> LaneStats:
        """Return a snapshot."""
        opens = self.opens_at(now, 1)
        rpms = [rate for rate in (self._rpm and self._rpm.rate, self.requests.rate, self.seen.rate) if rate]
        tpms = [rate for rate in (self._tpm and self._tpm.rate, self.tokens.rate) if rate]
        return LaneStats(
            name=self.name,
            state=self._state(now, opens),
            mode=self.limiter.mode,
            limit=self.limiter.limit,
            ceiling=self.limiter.ceiling,
            in_flight=self.in_flight,
            sent=self.sent,
            succeeded=self.good,
            rate_limited=self.rate_limited,
            failed=self.bad,
            falls=self.limiter.falls,
            wait_s=max(0.0, opens - now) if opens < NEVER else 0.0,
            paused_s=self.paused_s,
            rpm=60 * min(rpms) if rpms else None,
            tpm=60 * min(tpms) if tpms else None,
            seconds_per_token=self._pace,
        )

    def _state(self, now: float, opens: float) -> str:
        if self.breaker.opened:
            return "trying" if self.breaker.trial else "down"
        if self.paused_until > now:
            return "rate limited"
        if opens == NEVER:
            return "full"
        return "paced" if opens > now else "ready"

    def _weigh(self, now: float, tokens: float) -> None:
        self.tokens.take(now, tokens)
        if self._tpm is not None:
            self._tpm.take(now, tokens)
