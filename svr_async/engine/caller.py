"""One call until there is a complete reply: admission, budget, send, classify, wait, try again, or stop the run."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable
from dataclasses import replace

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from svr_async.engine.admission.lane import Lane, LaneStoppedError, Permit
from svr_async.engine.admission.lane_stats import LaneStats
from svr_async.engine.admission.lanes import Lanes, members_of
from svr_async.engine.admission.poison import Misfits, Record, Step, Trouble
from svr_async.engine.admission.weigher import Weigher
from svr_async.engine.classify import Billed, Failure, Kind, classify_reply
from svr_async.engine.config import EngineConfig
from svr_async.engine.events import EngineStopped, LaneChanged, Watch
from svr_async.engine.healing import Healer, find_cures
from svr_async.engine.http.transport import CallFailedError, FailureError, RawReply, Transport
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import BadBodyError, Reply, Usage
from svr_async.engine.request import Request, estimate_tokens
from svr_async.engine.stats import Counters
from svr_async.engine.watched import WatchedTransport
from svr_async.engine.words import About, Hear, Word
from svr_async.errors import EndpointDownError, ModelError, RefusedError, SvrError
from svr_async.vocabulary.verdict import Outcome

TELL_S = 5.0  # shortest wait that is told to a person
MOST_NOTES = 8
FEW = 6  # failures in a row before an endpoint that answers nothing is given up
DATED = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d{8}|\d{4})")  # what an endpoint adds to the name of an alias


class RetryableError(FailureError):
    """Carries a failure through tenacity."""


class SettingRefusedError(Exception):
    """The endpoint does not take a setting of the request; without it, it may be asked again at once."""


class ItemFailedError(FailureError):
    """The call will not succeed for this item; others may."""


class Caller:
    """Sends requests to the endpoints of one model, one call at a time for each of its users, as the lanes admit them.

    `under_way` says how many questions are being asked in all, those between two tries too; `usd` is what was paid.
    """

    def __init__(
        self,
        transport: Transport,
        config: EngineConfig,
        counters: Counters,
        *,
        budget: Budget,
        price: Price | None,
        under_way: Callable[[], int],
        healer: Healer | None = None,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.budget = budget
        self.price = price
        self.usd = 0.0
        self.fatal: SvrError | None = None
        self.hear: Hear = lambda _: None
        self.transport = transport
        self.under_way = under_way
        self.healer = healer or Healer()
        self.watch = watch
        self.record = Record()
        self.clock = clock
        self.lane = _open_lanes(transport, config, watch, clock)
        self._weigher = Weigher()
        self._misfits = Misfits()
        self._counters = counters
        self._sleepers: set[asyncio.Future[None]] = set()
        self._told_until = 0.0
        self._failing_since: float | None = None  # when the first call left that found no answer
        self._told: set[str] = set()
        self.lane.busy = self._busy
        self.lane.slow = self._tell_slow

    async def call(self, request: Request) -> Reply:
        """Send until there is a complete reply. The success path is a bare await; tenacity enters after a failure."""
        started = self.clock()
        try:
            return await self._attempt(request, started)
        except RetryableError as error:
            failed = _bare(error)
        return await self._try_again(request, failed, _Patience(self, request, started))

    def _busy(self) -> int:
        return self.under_way() - len(self._sleepers)

    def snapshot(self) -> tuple[LaneStats, ...]:
        """Return the state of each lane."""
        return self.lane.stats()

    def stop_run(self, error: SvrError) -> None:
        """Remember the first error that ends the run and let no further call leave."""
        if self.fatal is None:
            self.fatal = error
            self.stop()
            if self.watch is not None:
                self.watch.tell(EngineStopped(error=type(error).__name__, detail=error.message))

    def stop(self) -> None:
        """Let no further call leave; those that wait, for a lane or for their next try, are turned away at once."""
        self.lane.stop()
        for sleeper in self._sleepers:
            _wake(sleeper)

    async def _try_again(self, request: Request, failed: RetryableError, patience: _Patience) -> Reply:
        pending: RetryableError | None = failed
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(RetryableError),
            wait=patience.wait_s,
            stop=patience.exhausted,
            before_sleep=patience.tell,
            sleep=self._sleep,
            reraise=True,
        ):
            with attempt:
                if pending is not None:
                    first, pending = pending, None
                    raise first
                try:
                    return await self._attempt(request, self.clock())
                except RetryableError as error:
                    failed = _bare(error)
                raise failed
        raise AssertionError("tenacity ended without a result")

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the run is stopped."""
        if seconds <= 0 or self.lane.stopped:
            return
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, sleeper)
        self._sleepers.add(sleeper)
        self.lane.begin()
        try:
            await sleeper
        finally:
            timer.cancel()
            self._sleepers.discard(sleeper)

    async def _attempt(self, request: Request, now: float) -> Reply:
        lanes = self.lane
        tokens = self._weigher.weigh(request) if lanes.weighs else 0
        permit = lanes.try_enter(now, tokens)
        if permit is None:
            permit = await self._queue(tokens)
        try:
            if self.healer.healed(request) is not request:  # learnt while this one waited
                raise SettingRefusedError
            if self.budget.lender is not None and self.budget.short:
                await self.budget.lender.borrow(self.budget)
            self._reserve()
            try:
                return self._read(permit, await permit.lane.transport.send(request), request)
            except CallFailedError as error:
                raise self._raised(permit, error.failure) from None
            except asyncio.CancelledError:
                self._lose()
                raise
            finally:
                self.budget.settle()
        finally:
            lanes.leave(permit)

    async def _queue(self, tokens: int) -> Permit:
        try:
            return await self.lane.enter(tokens)
        except LaneStoppedError:
            if self.fatal is not None:
                raise _fresh(self.fatal) from None
            raise

    def _reserve(self) -> None:
        if self.fatal is not None:
            raise _fresh(self.fatal)
        try:
            self.budget.reserve()
        except SvrError as error:
            self.stop_run(error)
            raise
        self._counters.sent += 1

    def _read(self, permit: Permit, raw: RawReply, request: Request) -> Reply:
        now = self.clock()
        lane = permit.lane
        try:
            reply = request.wire.read(raw.body, raw.status)
        except BadBodyError as problem:
            failure = classify_reply(request.wire, raw.status, raw.headers, raw.body, str(problem))
            lane.hear(permit, now, raw.headers)
            self.lane.weighs = self.lane.weighs or lane.weighs
            if failure.outcome is Outcome.API_ERROR:
                self._heal(permit, request, failure, raw)
            raise self._raised(permit, failure) from None
        if now >= lane.listen_at:
            lane.hear(permit, now, raw.headers)
            self.lane.weighs = self.lane.weighs or lane.weighs
        usage = reply.usage
        written = usage.completion_tokens or len(reply.text) // 4
        cost = self._weigher.learn(request, usage.prompt_tokens, written) if permit.tokens else 0
        lane.succeeded(permit, now, written=written, cost=cost)
        self.record.succeeded(now)
        self._counters.latency.add(now - permit.sent_at)
        if self.price is not None:
            paid = self.price.cost(usage)
            self.usd += paid
            self.budget.pay(paid, untold_usd=self._untold_usd(request, usage, paid, written))
        if reply.model != request.model:
            self.vet(request, reply, who="the endpoint")
        return reply

    def _heal(self, permit: Permit, request: Request, failure: Failure, raw: RawReply) -> None:
        """Raise SettingRefusedError where the request is refused for a setting that can be left out.

        Such a refusal counts against nothing: the endpoint is well, and the request is another one when it is repeated.
        """
        cures = find_cures(request, failure.status or raw.status, request.wire.error(raw.body))
        if not cures:
            return
        permit.lane.failed(permit, self.clock(), replace(failure, kind=Kind.ITEM))
        self._counters.retries += 1
        self._counters.last_failure = failure.detail
        told = self.healer.learn(request, cures)
        if told:
            self.tell_once(f"{told} ({failure.detail})")
        raise SettingRefusedError(failure.detail) from None

    def _untold_usd(self, request: Request, usage: Usage, paid: float, written: int) -> float:
        """Return what a reply that tells no tokens, or not all, may have cost beyond what it tells."""
        if self.price is None or None not in (usage.prompt_tokens, usage.completion_tokens):
            return 0.0
        prompt = usage.prompt_tokens or estimate_tokens(request.prompt_chars)
        return max(0.0, self.price.cost(Usage(prompt_tokens=prompt, completion_tokens=written)) - paid)

    def vet(self, request: Request, reply: Reply, *, who: str) -> None:
        """Tell, once, that another model has answered; ModelError, which ends the run, where that is not accepted.

        An endpoint that names no model is believed, and so is one that names the dated version of an alias; one that
        was asked for no model may answer as any.
        """
        wanted, named = request.model, reply.model
        dated = named.startswith(wanted) and DATED.fullmatch(named[len(wanted) :])
        if not named or not wanted or named == wanted or dated:
            return
        if not self.config.strict_model:
            self.tell_once(f"{who} answered as {named[:80]!r}, not {wanted!r}")
            return
        error = ModelError(
            f"{who} answered as {named[:80]!r}, not {wanted!r} (--strict-model)",
            hint="name the judge's model as the endpoint does, or leave --strict-model out",
        )
        self.stop_run(error)
        raise error

    def tell_once(self, text: str) -> None:
        """Tell a person something, once in a run."""
        if text not in self._told and len(self._told) < MOST_NOTES:
            self._told.add(text)
            self.hear(Word(About.NOTE, text))

    def _lose(self) -> None:
        """Count a call that left and may be billed without an answer."""
        self._counters.lost += 1
        self.budget.lost += 1

    def _raised(self, permit: Permit, failure: Failure) -> Exception:
        """Turn a failure into the exception that its kind calls for, with its side effects."""
        if failure.billed is Billed.UNKNOWN:
            self._lose()
        if failure.kind is Kind.RUN:
            error = failure.error(failure.detail, hint=failure.hint)
            self.stop_run(error)
            return error
        now = self.clock()
        limit, down = permit.lane.limiter.limit, permit.lane.breaker.opened
        permit.lane.failed(permit, now, failure)
        if failure.kind is Kind.ITEM:
            if self._misfits.note(failure, self.record.good):
                error = _misfit(failure)
                self.stop_run(error)
                return error
            return ItemFailedError(failure)
        if failure.kind is Kind.RATE_LIMITED:
            self._counters.rate_limited += 1
        else:
            self.record.failed()
        self._tell_lane(permit.lane, now, failure, limit=limit, down=down)
        if self._failing_since is None:
            self._failing_since = permit.sent_at
        return RetryableError(failure)

    def _tell_lane(self, lane: Lane, now: float, failure: Failure, *, limit: int, down: int) -> None:
        """Tell those who watch what a failure has changed, and a person of a long wait, once."""
        opened = lane.breaker.opened > down
        if self.watch is not None:
            if failure.kind is Kind.RATE_LIMITED:
                wait_s = max(0.0, lane.paused_until - now)
                self.watch.pause(lane.name, wait_s, failure.detail)
            if opened or lane.limiter.limit < limit:
                state = "cooling" if lane.breaker.opened else "open"
                changed = LaneChanged(lane=lane.name, state=state, limit=lane.limiter.limit, reason=failure.detail)
                self.watch.tell(changed)
        if failure.no_descriptors:
            self.tell_once("file descriptors or ports run short: fewer calls at a time for now; ulimit -n raises it")
        until = lane.breaker.retry_at if opened else lane.paused_until
        if until - now >= TELL_S and until > self._told_until + TELL_S:
            self._told_until = until
            where = f"{lane.name}: " if lane.name and len(self.lane.lanes) > 1 else ""
            what = "no answer" if opened else "rate limited"
            self.hear(Word(About.WAIT, f"{where}{what}: waiting {until - now:.0f} s ({failure.detail})"))

    def _tell_slow(self, lane: Lane) -> None:
        """Tell a person once that calls wait for what an endpoint says of its limits, and what it says."""
        said = (("requests", lane.requests.rate), ("tokens", lane.tokens.rate))
        limits = " and ".join(f"{60 * rate:,.0f} {unit} a minute" for unit, rate in said if rate)
        where = f"{lane.name}: " if lane.name and len(self.lane.lanes) > 1 else ""
        self.tell_once(
            f"{where}the endpoint says that it takes {limits} and that none is left now: calls wait for that"
        )

    def outlast(self, failure: Failure) -> None:
        """Raise EndpointDownError when the endpoint has been silent for too long; sooner where it never answered."""
        config = self.config
        first_s = min(config.first_contact_s, config.give_up_after_s)
        self.endure(failure, config.give_up_after_s if self.record.good else first_s)

    def endure(self, failure: Failure, patience_s: float) -> None:
        """Raise EndpointDownError when no call has succeeded for this long; waiting in the line is no silence."""
        now = self.clock()
        silent_s = now - (self.record.last_good if self.record.good else self._failing_since or now)
        if silent_s > patience_s:
            error = EndpointDownError(
                f"no answer from the endpoint for {silent_s:.0f} s ({failure.detail})",
                hint="start it, or check the judge's address, and run the same command again: what is paid is kept",
            )
            self.stop_run(error)
            raise error

    def count_retry(self, request: Request, failure: Failure) -> None:
        """Count a try that is going to be repeated, and tell of it."""
        self._counters.retries += 1
        self._counters.last_failure = failure.detail
        self.hear(Word(About.RETRY, failure.detail))
        if self.watch is not None:
            self.watch.retry(request, failure)


class _Patience:
    """What tenacity asks after each failure of one call: whether to go on, and after how long."""

    def __init__(self, caller: Caller, request: Request, started: float) -> None:
        self._caller = caller
        self._request = request
        self._started = started
        self._trouble: Trouble | None = None
        self._renewed = False
        self._noted = 0
        self._step = Step.AGAIN

    def wait_s(self, state: RetryCallState) -> float:
        """Return the seconds to sleep: none where the lanes themselves hold the call back."""
        failure, step = _failure_of(state), self._decide(state)
        if failure.kind is Kind.RATE_LIMITED or self._caller.lane.all_down or self._trouble is None:
            return 0.0
        config = self._caller.config
        if step is Step.LATER:
            return config.max_wait_s * random.uniform(0.5, 1.0)  # noqa: S311  (jitter, not a secret)
        bound = min(config.max_wait_s, config.wait_s * 2.0 ** (self._trouble.in_visit - 1))
        return max(random.uniform(0.0, bound), min(failure.wait_s or 0.0, config.max_wait_s))  # noqa: S311

    def exhausted(self, state: RetryCallState) -> bool:
        """Whether the call is given up; EndpointDownError where it is not the call but the endpoint."""
        failure, step, caller = _failure_of(state), self._decide(state), self._caller
        if failure.kind is Kind.RATE_LIMITED:
            caller.endure(failure, caller.config.give_up_after_s)
            return False
        if self._trouble is None:
            return False
        if step is Step.NEVER:
            return True
        if failure.billed is Billed.NO or caller.record.in_a_row >= min(FEW, caller.config.attempts):
            caller.outlast(failure)
        return False

    def tell(self, state: RetryCallState) -> None:
        """Count and tell the retry."""
        self._caller.count_retry(self._request, _failure_of(state))

    def _decide(self, state: RetryCallState) -> Step:
        """Note each failure once, whichever of the two questions tenacity asks first."""
        failure = _failure_of(state)
        if state.attempt_number == self._noted or failure.kind is Kind.RATE_LIMITED:
            return self._step
        self._noted = state.attempt_number
        if failure.stale and not self._renewed:  # not counted as a try: a fresh connection will do
            self._renewed = True
            return self._step
        caller = self._caller
        if self._trouble is None:
            self._trouble = Trouble(caller.record, started=self._started, most=caller.config.attempts)
        self._step = self._trouble.note(failure, caller.clock(), alone=caller.under_way() <= 1)
        return self._step


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def _open_lanes(transport: Transport, config: EngineConfig, watch: Watch | None, clock: Callable[[], float]) -> Lanes:
    members = members_of(transport)
    many = len(members) > 1
    lanes = []
    for name, member in members.items():
        told = member if watch is None else WatchedTransport(member, watch, lane=name)
        lanes.append(Lane(told, config, name=name, many=many))
    return Lanes(lanes, ceiling=config.concurrency, clock=clock)


def _misfit(failure: Failure) -> RefusedError:
    return RefusedError(
        f"the endpoint refuses every request in the same way ({failure.detail})",
        hint="a setting of the judge's profile that it does not know? mend it and run again with --retry-errors",
    )


def _fresh(error: SvrError) -> SvrError:
    """Return a copy to raise: one instance raised by many tasks would gather all their tracebacks."""
    return type(error)(error.message, hint=error.hint)


def _bare(error: RetryableError) -> RetryableError:
    """Return an error without where it came from: those frames hold the body of a reply until the collector comes."""
    error.__traceback__ = error.__context__ = None
    return error


def _failure_of(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, RetryableError):
        raise AssertionError(f"only retryable failures come here, not {error!r}")
    return error.failure
