"""One call until there is a complete reply: slot, budget, send, classify, wait, try again, or stop the run."""

from __future__ import annotations

import time
from collections.abc import Callable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from svr_async.engine.classify import Billed, Failure, Kind, classify_status
from svr_async.engine.config import EngineConfig
from svr_async.engine.lane import Lane, LaneStoppedError
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import BadBodyError, Reply, error_in_body, read_completion
from svr_async.engine.request import Request, estimate_tokens
from svr_async.engine.stats import Counters
from svr_async.engine.transport import CallFailedError, RawReply, Transport
from svr_async.errors import EndpointDownError, SvrError


class RetryableError(Exception):
    """Carries a failure through tenacity."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class ItemFailedError(Exception):
    """The call will not succeed for this item; others may."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class Caller:
    """Sends requests to one endpoint, one call at a time for each of its users, within the limits of the lane.

    `under_way` says how many questions are being asked in all, those between two tries too.
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
    ) -> None:
        self.config = config
        self.budget = budget
        self.price = price
        self.fatal: SvrError | None = None
        self.on_retry: Callable[[str], None] = lambda _: None
        self.transport = transport
        self.lane = Lane(concurrency=config.concurrency, rpm=config.rpm, tpm=config.tpm)
        self.under_way = under_way
        self._counters = counters

    async def call(self, request: Request) -> Reply:
        """Send until there is a complete reply. The success path is a bare await; tenacity enters after a failure."""
        started = time.monotonic()
        try:
            return await self._attempt(request)
        except RetryableError as error:
            pending: RetryableError | None = error
        patience = _Patience(self, started)
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(RetryableError),
            wait=self._wait,
            stop=patience.exhausted,
            before_sleep=self._count_retry,
            reraise=True,
        ):
            with attempt:
                if pending is not None:
                    first, pending = pending, None
                    raise first
                return await self._attempt(request)
        raise AssertionError("tenacity ended without a result")

    def _wait(self, state: RetryCallState) -> float:
        failure = _failure_of(state)
        if failure.kind is Kind.RATE_LIMITED:
            return 0.0  # the lane is paused, with jitter
        backoff = wait_random_exponential(multiplier=self.config.wait_s, max=self.config.max_wait_s)(state)
        return max(float(backoff), min(failure.wait_s or 0.0, self.config.max_wait_s))

    def _count_retry(self, state: RetryCallState) -> None:
        self._counters.retries += 1
        self._counters.last_failure = _failure_of(state).detail
        self.on_retry(self._counters.last_failure)

    async def _attempt(self, request: Request) -> Reply:
        try:
            await self.lane.enter(estimate_tokens(request.prompt_chars))
        except LaneStoppedError:
            if self.fatal is not None:
                raise self.fatal from None
            raise
        try:
            self._reserve()
            try:
                raw = await self.transport.send(request)
            except CallFailedError as error:
                raise self._raised(error.failure) from None
        finally:
            self.lane.leave()
        return self._read(raw)

    def _reserve(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        try:
            self.budget.reserve(self.lane.in_flight - 1)
        except SvrError as error:
            self.stop_run(error)
            raise
        self._counters.sent += 1

    def _read(self, raw: RawReply) -> Reply:
        try:
            reply = read_completion(raw.body, raw.status)
        except BadBodyError as problem:
            error = error_in_body(raw.body)
            failure = classify_status(raw.status, raw.headers, error, body_preview=str(problem))
            raise self._raised(failure) from None
        self.lane.succeed()
        self._charge(reply)
        return reply

    def _charge(self, reply: Reply) -> None:
        if self.price is not None:
            self.budget.usd += self.price.cost(reply.usage)

    def _raised(self, failure: Failure) -> Exception:
        """Turn a failure into the exception that its kind calls for, with its side effects."""
        if failure.billed is Billed.UNKNOWN:
            self._counters.lost += 1
        if failure.kind is Kind.RATE_LIMITED:
            self._counters.rate_limited += 1
            self.lane.pause(failure.wait_s)
        if failure.kind is Kind.RUN:
            error = failure.error(failure.detail, hint=failure.hint)
            self.stop_run(error)
            return error
        if failure.kind is Kind.ITEM:
            return ItemFailedError(failure)
        return RetryableError(failure)

    def stop_run(self, error: SvrError) -> None:
        """Remember the first error that ends the run and let no further call leave."""
        if self.fatal is None:
            self.fatal = error
            self.lane.stop()

    def succeeded_since(self, moment: float) -> bool:
        """Whether any call has succeeded after this moment of the steady clock."""
        return self.lane.succeeded and self.lane.last_success > moment

    def outlast(self, failure: Failure, started: float) -> None:
        """Raise EndpointDownError when the endpoint has been silent for too long; sooner where it never answered."""
        config = self.config
        first_s = min(config.first_contact_s, config.give_up_after_s)
        self.endure(failure, started, config.give_up_after_s if self.lane.succeeded else first_s)

    def endure(self, failure: Failure, started: float, patience_s: float) -> None:
        """Raise EndpointDownError when no call has succeeded for this long."""
        lane = self.lane
        silent_s = time.monotonic() - (lane.last_success if lane.succeeded else started)
        if silent_s > patience_s:
            error = EndpointDownError(
                f"no answer from the endpoint for {silent_s:.0f} s ({failure.detail})",
                hint="start it, or check --base-url, and run the same command again: what is paid is kept",
            )
            self.stop_run(error)
            raise error


class _Patience:
    """tenacity's stop condition: transient failures of one call, with rate limits left out of the count.

    A call is given up after `attempts` failures while others succeed: since it began, where the endpoint answered it,
    or between one failure and the next, where it did not. So an outage, which hits all calls alike, loses none (but
    the very last call of a run, where it is the only one left: there is nothing to tell an outage by).
    """

    def __init__(self, caller: Caller, started: float) -> None:
        self._caller = caller
        self._started = self._failed_at = started
        self._failures = self._alone = 0

    def exhausted(self, state: RetryCallState) -> bool:
        failure = _failure_of(state)
        if failure.kind is Kind.RATE_LIMITED:
            self._caller.endure(failure, self._started, self._caller.config.give_up_after_s)
            return False
        caller, most = self._caller, self._caller.config.attempts
        self._failures += 1
        self._alone += caller.succeeded_since(self._started if failure.answered else self._failed_at)
        self._failed_at = time.monotonic()
        if self._failures < most:
            if failure.billed is Billed.NO:  # nothing listens: no need to try so often before giving up
                caller.outlast(failure, self._started)
            return False
        own_fault = failure.answered or caller.under_way() == 1
        if self._alone >= most or (own_fault and caller.succeeded_since(self._started)):
            return True
        caller.outlast(failure, self._started)
        return False


def _failure_of(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, RetryableError):
        raise AssertionError(f"only retryable failures come here, not {error!r}")
    return error.failure
