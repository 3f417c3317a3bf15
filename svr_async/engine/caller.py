"""One call until there is a complete reply: slot, budget, send, classify, wait, retry, or stop the run."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from svr_async.core.verdict import Outcome
from svr_async.engine.classify import Failure, Kind, classify_status
from svr_async.engine.endpoint import Breaker, ConcurrencyLimit, Endpoint, EndpointPool, EngineStoppedError, Slot
from svr_async.engine.events import (
    EngineStopped,
    Notice,
    NoticeKind,
    OnNotice,
    Watch,
    WatchedTransport,
)
from svr_async.engine.fallbacks import MODEL, Fallbacks, ParameterFallback, find_fallbacks
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import BadBodyError, Reply, Usage, dollars
from svr_async.engine.request import Request, estimate_tokens
from svr_async.engine.stats import Counters
from svr_async.engine.transport import CallFailedError, FailureError, RawReply, Transport
from svr_async.errors import BudgetError, EndpointDownError, ModelError, RefusedError, SvrError

SPARE_WORKERS = 8
WORTH_A_NOTICE_S = 5.0
MAX_NOTES = 16
OUTAGE_FAILURES = 6  # failures in a row before the time without an answer is looked at
ALL_REFUSED = 20  # refusals without any success that end the run
SMOOTH = 0.1
DATED = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d{8}|\d{4})")  # suffix of the dated version of a model alias
COST_HEADER = "x-litellm-response-cost"
START_HINT = (
    "start a server there (for example: vllm serve MODEL, or svr sim), or give the address of another with --base-url; "
    "then run the same command again: replies are kept"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Limits and patience of an engine, in seconds.

    `concurrency` bounds the calls in flight, which start at `start` (None: at `concurrency`). `rpm` and `tpm` are
    requests and tokens a minute per endpoint, `attempts` the failures of one call while others succeed, `repairs` how
    often an unreadable reply is asked for again, `first_contact_s` the patience with an endpoint that never answered,
    `give_up_after_s` with one that did. `strict_model` ends the run if another model answers.
    """

    concurrency: int = 64
    start: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    attempts: int = 8
    repairs: int = 1
    wait_s: float = 0.5
    max_wait_s: float = 60.0
    first_contact_s: float = 15.0
    give_up_after_s: float = 1800.0
    offline: bool = False
    strict_model: bool = False
    dry_run: bool = False

    @property
    def workers(self) -> int:
        """Items to work on at once: a few more than calls, since some wait between two tries."""
        return self.concurrency + SPARE_WORKERS


class RetryableError(FailureError):
    """Carries a failure through tenacity."""


class ParameterRefusedError(Exception):
    """The endpoint refuses a parameter of the request; without it, the request can be sent again at once."""


class ItemFailedError(FailureError):
    """The call will not succeed for this item; others may."""


@dataclass(slots=True)
class Record:
    """How all calls have ended so far: successes, refusals, and transient failures since the last success."""

    good: int = 0
    refused: int = 0
    in_a_row: int = 0
    last_good: float = float("-inf")


class TokenEstimator:
    """Estimates the tokens of a call before it is sent; the usage of replies corrects the estimate."""

    def __init__(self) -> None:
        self._scale = 1.0  # reported prompt tokens, divided by our estimate
        self._written: float | None = None

    def estimate(self, request: Request) -> int:
        """Return input and output tokens."""
        written = request.max_tokens / 16 if self._written is None else self._written
        return int(self._scale * estimate_tokens(request.prompt_chars) + min(written, request.max_tokens)) + 1

    def learn(self, request: Request, prompt_tokens: int | None, written: int) -> int:
        """Correct the estimate by the tokens of a reply, and return their sum."""
        self._written = written if self._written is None else self._written + SMOOTH * (written - self._written)
        estimate = estimate_tokens(request.prompt_chars)
        if prompt_tokens:
            self._scale += SMOOTH * (min(4.0, max(0.25, prompt_tokens / estimate)) - self._scale)
        return (prompt_tokens or int(self._scale * estimate)) + written


class Caller:
    """Sends the requests of one engine. `usd` is what was paid, None while no cost is known.

    `asking` returns how many questions are being asked, including those between two tries.
    """

    def __init__(
        self,
        transport: Transport | Mapping[str, Transport],
        config: EngineConfig,
        counters: Counters,
        *,
        budget: Budget,
        price: Price | None,
        asking: Callable[[], int],
        fallbacks: Fallbacks | None = None,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.budget = budget
        self.price = price
        self.usd: float | None = None if price is None else 0.0
        self.fatal: SvrError | None = None
        self.on_notice: OnNotice = lambda _: None
        self.fallbacks = fallbacks or Fallbacks()
        self.record = Record()
        self.clock = clock
        self.pool = _open_pool(transport, config, watch, clock)
        self.asking = asking
        self._watch = watch
        self._estimator = TokenEstimator()
        self._counters = counters
        self._sleepers: set[asyncio.Future[None]] = set()
        self._noticed_until = 0.0
        self._failing_since: float | None = None  # when the first call without an answer left
        self._noted: set[str] = set()
        # With a budget, held by one call at a time until the cost of one is known: else all that fit in flight leave.
        self._first_cost = None if budget.max_usd is None else asyncio.Lock()

    async def call(self, request: Request) -> Reply:
        """Send until there is a complete reply. Success is one await; tenacity is used only after a failure."""
        try:
            if self._first_cost is None:
                return await self._send(request, self.clock())
            return await self._attempt(request)
        except RetryableError as error:
            failed = _without_trace(error)
        return await self._retry(request, failed)

    def stop_run(self, error: SvrError) -> None:
        """Remember the first error that ends the run, and let no further call leave."""
        if self.fatal is None:
            self.fatal = error
            self.stop()
            if self._watch is not None:
                self._watch.emit(EngineStopped(error=type(error).__name__, detail=error.message))

    def stop(self) -> None:
        """Let no further call leave; calls that wait for a slot or for their next try end at once."""
        self.pool.stop()
        for sleeper in self._sleepers:
            _wake(sleeper)

    def note(self, text: str, key: str = "") -> None:
        """Send a notice once per run; texts with the same key count as one."""
        if (key or text) not in self._noted and len(self._noted) < MAX_NOTES:
            self._noted.add(key or text)
            self.on_notice(Notice(NoticeKind.NOTE, text))

    def check_model(self, request: Request, reply: Reply, *, who: str) -> None:
        """Send a notice if another model answered; ModelError, which ends the run, with `strict_model`.

        A reply without a model name is accepted, and so is the dated version of an alias.
        """
        wanted, named = request.model, reply.model
        dated = named.startswith(wanted) and DATED.fullmatch(named[len(wanted) :])
        if not named or not wanted or named == wanted or dated:
            return
        message = f"{who} answered as {named[:80]!r}, not {wanted!r}"
        if not self.config.strict_model:
            self.note(message)
            return
        hint = "use the endpoint's name of the model, or leave out --strict-model"
        error = ModelError(f"{message} (--strict-model)", hint=hint)
        self.stop_run(error)
        raise error

    async def _retry(self, request: Request, failed: RetryableError) -> Reply:
        policy = _RetryPolicy(self, request)
        pending: RetryableError | None = failed
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(RetryableError),
            wait=policy.wait_s,
            stop=policy.gives_up,
            sleep=self._sleep,
            reraise=True,
        ):
            with attempt:
                if pending is not None:
                    first, pending = pending, None
                    raise first
                try:
                    return await self._attempt(request)
                except RetryableError as error:
                    failed = _without_trace(error)
                raise failed
        raise AssertionError("tenacity ended without a result")

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the run is stopped."""
        if seconds <= 0 or self.pool.stopped:
            return
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, sleeper)
        self._sleepers.add(sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            self._sleepers.discard(sleeper)

    async def _attempt(self, request: Request) -> Reply:
        if self._first_cost is not None:
            async with self._first_cost:
                if self.usd is None or not self.budget.answered:
                    return await self._send(request, self.clock())
        return await self._send(request, self.clock())

    async def _send(self, request: Request, now: float) -> Reply:
        pool = self.pool
        tokens = self._estimator.estimate(request) if pool.counts_tokens else 0
        slot = pool.try_enter(now, tokens)
        if slot is None:
            slot = await self._queue(tokens)
        try:
            if self.fallbacks.applied(request) is not request:  # learnt while this call waited
                raise ParameterRefusedError
            self._reserve()
            try:
                raw = await slot.endpoint.transport.send(request)
                try:
                    reply = request.wire.read(raw.body, raw.status)
                except BadBodyError as problem:
                    wire, error = request.wire, request.wire.error(raw.body)
                    failure = classify_status(raw.status, raw.headers, error, body_preview=str(problem), path=wire.path)
                else:
                    return self._accept(slot, raw, request, reply)
                self._read_headers(slot, self.clock(), raw)
                await self._try_fallback(slot, request, failure, raw)
                raise self._failed(slot, failure)
            except CallFailedError as error:
                raise self._failed(slot, error.failure) from None
            except asyncio.CancelledError:
                self._lose()
                raise
            finally:
                self.budget.release()
        finally:
            pool.leave(slot)

    async def _queue(self, tokens: int) -> Slot:
        try:
            return await self.pool.enter(tokens)
        except EngineStoppedError:
            if self.fatal is not None:
                raise _copy(self.fatal) from None
            raise

    def _reserve(self) -> None:
        if self.fatal is not None:
            raise _copy(self.fatal)
        try:
            self.budget.reserve()
        except SvrError as error:
            self.stop_run(error)
            raise
        self._counters.sent += 1

    def _accept(self, slot: Slot, raw: RawReply, request: Request, reply: Reply) -> Reply:
        now = self.clock()
        if now >= slot.endpoint.read_headers_at:
            self._read_headers(slot, now, raw)
        usage = reply.usage
        written = usage.completion_tokens or len(reply.text) // 4
        tokens = self._estimator.learn(request, usage.prompt_tokens, written) if slot.tokens else 0
        slot.endpoint.succeeded(slot, now, tokens=tokens)
        self.record.good, self.record.in_a_row, self.record.last_good = self.record.good + 1, 0, now
        self._counters.answered += 1
        self._counters.latest_s.append(now - slot.sent_at)
        if self.price is not None:
            self._pay(self.price.cost(usage), self._unreported_usd(request, usage, written))
        else:
            reply = self._pay_reported(raw, reply)
        if reply.model != request.model:
            self.check_model(request, reply, who="the endpoint")
        return reply

    def _read_headers(self, slot: Slot, now: float, raw: RawReply) -> None:
        slot.endpoint.read_headers(slot, now, raw.headers)
        self.pool.counts_tokens = self.pool.counts_tokens or slot.endpoint.counts_tokens

    def _pay(self, usd: float, estimated_usd: float = 0.0) -> None:
        self._first_cost = None
        self.usd = (self.usd or 0.0) + usd
        self.budget.pay(usd, estimated_usd=estimated_usd)

    def _pay_reported(self, raw: RawReply, reply: Reply) -> Reply:
        """Use the cost that a gateway reports; without one, a budget in dollars ends the run."""
        usd = reply.usage.cost_usd
        if usd is None:
            usd = dollars(raw.headers.get(COST_HEADER))
            if usd is not None:
                reply = structs.replace(reply, usage=structs.replace(reply.usage, cost_usd=usd))
        if usd is not None:
            self._pay(usd)
        elif self.usd is not None:
            self.budget.pay(0.0, estimated_usd=self.usd / max(1, self.budget.answered))
        elif self.budget.max_usd is not None:
            hint = "give --price IN/OUT in dollars per million tokens, or cap the calls with --max-calls"
            self.stop_run(BudgetError("--budget needs a price: the endpoint reports no cost", hint=hint))
        return reply

    def _unreported_usd(self, request: Request, usage: Usage, written: int) -> float:
        """Estimate the cost of tokens that the reply does not report."""
        if self.price is None or None not in (usage.prompt_tokens, usage.completion_tokens):
            return 0.0
        prompt = usage.prompt_tokens or estimate_tokens(request.prompt_chars)
        whole = self.price.cost(Usage(prompt_tokens=prompt, completion_tokens=written))
        return max(0.0, whole - self.price.cost(usage))

    async def _try_fallback(self, slot: Slot, request: Request, failure: Failure, raw: RawReply) -> None:
        """Raise ParameterRefusedError if the request can be sent again without the parameter that was refused.

        Such a refusal counts against nothing: the repeated request is another one.
        """
        if failure.outcome is not Outcome.API_ERROR:
            return
        found = find_fallbacks(request, failure.status or raw.status, request.wire.error(raw.body))
        if not found and failure.unknown_model:
            found = await _full_name(slot.endpoint.transport, request)
        if not found:
            return
        slot.endpoint.failed(slot, self.clock(), replace(failure, kind=Kind.ITEM))
        self._counters.retries += 1
        self._counters.last_failure = failure.detail
        message = self.fallbacks.learn(request, found)
        if message:
            self.note(f"{message} ({failure.detail})")
        raise ParameterRefusedError(failure.detail) from None

    def _lose(self) -> None:
        """Count a call that left and may be billed without an answer."""
        self._counters.lost += 1
        self.budget.lost += 1

    def _failed(self, slot: Slot, failure: Failure) -> Exception:
        """Return the exception of a failure, after noting its effects."""
        if failure.billed:
            self._lose()
        if failure.kind is Kind.RUN:
            error = failure.error(failure.detail, hint=failure.hint)
            self.stop_run(error)
            return error
        now, endpoint = self.clock(), slot.endpoint
        opened = endpoint.breaker.opened
        endpoint.failed(slot, now, failure)
        if failure.kind is Kind.ITEM:
            self.note(f"first failure of this kind: {failure.detail}", key=f"item {failure.status} {failure.outcome}")
            return self._refused(failure) or ItemFailedError(failure)
        if failure.kind is Kind.RATE_LIMITED:
            self._counters.rate_limited += 1
        else:
            self.record.in_a_row += 1
        self.note(f"retried: {failure.detail}", key=f"{failure.kind} {failure.status or failure.signature}")
        self._notice_wait(endpoint, now, failure, fell=endpoint.breaker.opened > opened)
        if self._failing_since is None:
            self._failing_since = slot.sent_at
        return RetryableError(failure)

    def _refused(self, failure: Failure) -> RefusedError | None:
        """Return the error that ends the run once the endpoint has refused every request so far."""
        self.record.refused += failure.outcome is Outcome.API_ERROR
        if self.record.good or self.record.refused < ALL_REFUSED:
            return None
        hint = "check the settings of the judge's profile, then run again with --retry-errors"
        error = RefusedError(f"the endpoint refuses every request ({failure.detail})", hint=hint)
        self.stop_run(error)
        return error

    def _notice_wait(self, endpoint: Endpoint, now: float, failure: Failure, *, fell: bool) -> None:
        """Send a notice for a long wait."""
        until = endpoint.breaker.retry_at if fell else endpoint.paused_until
        if until - now >= WORTH_A_NOTICE_S and until > self._noticed_until + WORTH_A_NOTICE_S:
            self._noticed_until = until
            where = f"{endpoint.name}: " if endpoint.name and len(self.pool.endpoints) > 1 else ""
            what = "no answer" if fell else "rate limited"
            text = f"{where}{what}: waiting {until - now:.0f} s ({failure.detail})"
            self.on_notice(Notice(NoticeKind.WAIT, text))

    def check_outage(self, failure: Failure, patience_s: float) -> None:
        """Raise EndpointDownError if no call has succeeded for this long."""
        now = self.clock()
        silent_s = now - (self.record.last_good if self.record.good else self._failing_since or now)
        if silent_s > patience_s:
            error = EndpointDownError(f"no answer for more than {patience_s:.0f} s ({failure.detail})", hint=START_HINT)
            self.stop_run(error)
            raise error

    def count_retry(self, request: Request, failure: Failure) -> None:
        """Count a call that will be tried again."""
        self._counters.retries += 1
        self._counters.last_failure = failure.detail
        self.on_notice(Notice(NoticeKind.RETRY, failure.detail))
        if self._watch is not None:
            self._watch.retry(request, failure)


class _RetryPolicy:
    """Whether one call is tried again, and after which wait.

    A call is given up once it has failed `attempts` times while others succeeded in between (or, if it is the only
    one, while the endpoint answered it with errors). An outage gives up no call.
    """

    def __init__(self, caller: Caller, request: Request) -> None:
        self._caller = caller
        self._request = request
        self._failures = self._against = 0
        self._last_at = caller.clock()

    def gives_up(self, state: RetryCallState) -> bool:
        """Note a failure; return whether the call is given up. EndpointDownError if the endpoint is down."""
        failure, caller = _failure_of(state), self._caller
        config = caller.config
        if failure.kind is Kind.RATE_LIMITED:
            caller.check_outage(failure, config.give_up_after_s)
            caller.count_retry(self._request, failure)
            return False
        self._failures += 1
        alone = caller.asking() <= 1 and failure.answered and caller.record.good > 0
        self._against += alone or caller.record.last_good > self._last_at
        self._last_at = caller.clock()
        if self._against >= config.attempts:
            return True
        if not failure.billed or caller.record.in_a_row >= min(OUTAGE_FAILURES, config.attempts):
            first_s = min(config.first_contact_s, config.give_up_after_s)
            caller.check_outage(failure, config.give_up_after_s if caller.record.good else first_s)
        caller.count_retry(self._request, failure)
        return False

    def wait_s(self, state: RetryCallState) -> float:
        """Return the seconds to sleep; 0 if the endpoint itself holds the call back."""
        failure, config = _failure_of(state), self._caller.config
        if failure.kind is Kind.RATE_LIMITED or self._caller.pool.all_down:
            return 0.0
        longest = min(config.max_wait_s, config.wait_s * 2.0 ** min(30, self._failures))
        return max(random.uniform(0.0, longest), min(failure.wait_s or 0.0, config.max_wait_s))  # noqa: S311  (jitter)


async def _full_name(transport: Transport, request: Request) -> tuple[ParameterFallback, ...]:
    """Return the fallback to the only listed model whose name ends in "/" and the asked name."""
    listing = getattr(transport, "model_names", None)
    names = await listing() if listing is not None else []
    full = [name for name in names if name.endswith(f"/{request.model}")]
    return (ParameterFallback(MODEL, full[0]),) if len(full) == 1 else ()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def _open_pool(
    transport: Transport | Mapping[str, Transport],
    config: EngineConfig,
    watch: Watch | None,
    clock: Callable[[], float],
) -> EndpointPool:
    members = transport if isinstance(transport, Mapping) else {"": transport}
    endpoints = [
        Endpoint(
            member if watch is None else WatchedTransport(member, watch, endpoint=name),
            limit=ConcurrencyLimit(ceiling=config.concurrency, start=config.start),
            breaker=Breaker(
                wait_s=config.wait_s, longest_s=config.max_wait_s, **({"least": 5} if len(members) > 1 else {})
            ),
            rpm=config.rpm,
            tpm=config.tpm,
            name=name,
        )
        for name, member in members.items()
    ]
    return EndpointPool(endpoints, ceiling=config.concurrency, clock=clock)


def _copy(error: SvrError) -> SvrError:
    """Return a copy to raise: one instance raised by many tasks would collect all their tracebacks."""
    return type(error)(error.message, hint=error.hint)


def _without_trace(error: RetryableError) -> RetryableError:
    """Drop the traceback: its frames hold the body of a reply until the garbage collector runs."""
    error.__traceback__ = error.__context__ = None
    return error


def _failure_of(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, RetryableError):
        raise AssertionError(f"only retryable failures are retried, not {error!r}")
    return error.failure
