"""The engine: memo, single flight, slot, send, classify, retry or keep, commit, hand over: in that order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from svr_async.engine.classify import Billed, Failure, Kind, classify_status
from svr_async.engine.failures import FailureLog
from svr_async.engine.flow import bounded_map
from svr_async.engine.lane import Lane, LaneStoppedError
from svr_async.engine.memo import Memo
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import BadBodyError, Reply, error_in_body, read_completion
from svr_async.engine.request import Question, ReplyRejectedError, Request, estimate_tokens
from svr_async.engine.stats import Counters, EngineStats
from svr_async.engine.transport import CallFailedError, RawReply, Transport
from svr_async.errors import EndpointDownError, SvrError
from svr_async.vocabulary.verdict import Outcome

T = TypeVar("T")
TOKEN_LIMIT_GROWTH = 2
MAX_NAMES_KEPT = 64  # system fingerprints seen behind the results, for the record


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Generic[T]):
    """What came of a question: a value, or the outcome that says why there is none. `key` is the memo key in hex."""

    value: T | None
    outcome: Outcome
    key: str
    reply: Reply | None = None
    detail: str = ""
    from_memo: bool = False


class _RetryableError(Exception):
    """Carries a failure through tenacity."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class _ItemFailedError(Exception):
    """The call will not succeed for this item; others may."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class Engine:
    """Asks questions of one endpoint. Use it as an async context manager on one event loop."""

    def __init__(
        self,
        transport: Transport,
        memo: Memo,
        *,
        config: EngineConfig | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        failures: FailureLog | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        self.memo = memo
        self.budget = budget or Budget()
        self.price = price
        self.fatal: SvrError | None = None
        self._transport = transport
        self._lane = Lane(concurrency=self.config.concurrency, rpm=self.config.rpm, tpm=self.config.tpm)
        self._flights: dict[bytes, asyncio.Future[Completion[Any]]] = {}
        self._failures = FailureLog() if failures is None else failures  # an empty log is falsy
        self._counters = Counters()
        self._behind: set[bytes] = set()
        self.fingerprints: set[str] = set()
        self.models: set[str] = set()
        self.on_retry: Callable[[str], None] = lambda _: None
        self._planned: set[bytes] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and commit what is waiting."""
        await self._transport.close()
        await asyncio.to_thread(self.memo.drain)
        self.memo.close()

    def stop(self) -> None:
        """Send nothing more: calls under way end, calls that wait raise LaneStoppedError."""
        self._lane.stop()

    async def complete(self, question: Question[T]) -> Completion[T]:
        """Answer a question from the memo, from a call already under way, or by a call.

        A failed item is a `Completion` without a value; what stops the run (key, quota, budget, storage, endpoint
        down) is an `SvrError`. The reply is on disk when this returns.
        """
        request = question.request
        found = self._recall(question)
        if found is not None:
            return found
        known = self._failures.get(request.key.hex())
        if known is not None:
            return _failed(request, *known)
        if self.config.dry_run:
            return self._plan(question)
        if self.config.offline:
            return _failed(request, Outcome.API_ERROR, "not in the memo (--offline)")
        while (flight := self._flights.get(request.key)) is not None:
            try:
                completion: Completion[T] = await asyncio.shield(flight)
            except asyncio.CancelledError:
                if not flight.cancelled() or _being_cancelled():
                    raise
                continue
            self._counters.joined += 1
            return completion
        return await self._fly(question)

    async def map(
        self, questions: Iterable[Question[T]], *, workers: int | None = None
    ) -> AsyncGenerator[tuple[int, Completion[T]], None]:
        """Yield (index, completion) in order of completion, with memory flat in the number of questions."""
        flow = bounded_map(self.complete, questions, workers=workers or self.config.concurrency)
        async with aclosing(flow) as results:
            async for done in results:
                yield done

    def stats(self) -> EngineStats:
        """Return a snapshot of the engine's facts."""
        c = self._counters
        tallies = {name: getattr(c, name) for name in Counters.__slots__}
        usd = None if self.price is None else self.budget.usd
        return EngineStats(in_flight=self._lane.in_flight, waiting=self._lane.waiting, usd=usd, **tallies)

    def _recall(self, question: Question[T]) -> Completion[T] | None:
        reply = self.memo.get(question.request.key)
        if reply is None:
            return None
        try:
            value = _parse(question, reply, reply.tries)
        except ReplyRejectedError:
            return None
        self._counters.memo_hits += 1
        self._count_usage(question.request, reply)
        key = question.request.key.hex()
        return Completion(value=value, outcome=Outcome.SCORED, key=key, reply=reply, from_memo=True)

    def _plan(self, question: Question[T]) -> Completion[T]:
        request = question.request
        if request.key not in self._planned:
            self._planned.add(request.key)
            self._counters.planned_calls += 1
            self._counters.planned_prompt_tokens += estimate_tokens(request.prompt_chars)
            self._counters.planned_completion_tokens += question.expected_tokens
            self._counters.planned_max_completion_tokens += request.max_tokens
        return Completion(value=question.sketch(), outcome=Outcome.SCORED, key=request.key.hex())

    async def _fly(self, question: Question[T]) -> Completion[T]:
        key = question.request.key
        flight: asyncio.Future[Completion[T]] = asyncio.get_running_loop().create_future()
        self._flights[key] = flight
        try:
            completion = await self._ask(question)
        except asyncio.CancelledError:
            flight.cancel()
            raise
        except Exception as error:
            flight.set_exception(error)
            flight.exception()  # read here, so that a flight nobody joined is not reported as lost
            raise
        else:
            flight.set_result(completion)
            return completion
        finally:
            del self._flights[key]

    async def _ask(self, question: Question[T]) -> Completion[T]:
        """Call until a reply can be read, then keep it under the key of the question as first asked."""
        request, tries, refusals, problem, reply = question.request, 0, 0, "", None
        while tries <= self.config.repairs:
            try:
                reply = await self._call(request)
            except (_ItemFailedError, _RetryableError) as error:
                return self._fail(question.request, error.failure.outcome, error.failure.detail)
            tries += 1
            try:
                value = _parse(question, reply, tries)
            except ReplyRejectedError as error:
                problem = str(error)
                refusals += reply.refused
                if refusals > 1 or (reply.truncated and request.max_tokens > question.request.max_tokens):
                    break
                request = self._next_request(question.request, request, reply, problem, tries)
                self._counters.repaired += 1
                continue
            kept = replace(reply, tries=tries)
            await self._keep(question.request, kept)
            self._count_usage(question.request, kept)
            return Completion(value=value, outcome=Outcome.SCORED, key=question.request.key.hex(), reply=kept)
        return self._fail(question.request, _unreadable(reply), problem)

    def _fail(self, request: Request, outcome: Outcome, detail: str) -> Completion[Any]:
        self._counters.failed += 1
        try:
            self._failures.add(request.key.hex(), outcome, detail)
        except SvrError as error:
            self._stop_run(error)
            raise
        return _failed(request, outcome, detail)

    def _count_usage(self, request: Request, reply: Reply) -> None:
        """Count the tokens behind the results, each reply once, whether it was paid for now or earlier."""
        if request.key in self._behind:
            return
        self._behind.add(request.key)
        if len(self.fingerprints) < MAX_NAMES_KEPT:
            self.fingerprints.add(reply.fingerprint)
            self.models.add(reply.model)
        c, usage = self._counters, reply.usage
        c.prompt_tokens += usage.prompt_tokens or 0
        c.cached_tokens += usage.cached_tokens or 0
        c.completion_tokens += usage.completion_tokens or 0

    def _next_request(self, first: Request, last: Request, reply: Reply, problem: str, tries: int) -> Request:
        """Decide how to ask again: with more room after truncation, the same once more, then with a repair turn."""
        if reply.truncated:
            return last.with_max_tokens(first.max_tokens * TOKEN_LIMIT_GROWTH)
        return last.fresh() if tries == 1 or reply.refused else first.with_repair(reply.text, problem)

    async def _keep(self, request: Request, reply: Reply) -> None:
        try:
            await self.memo.put(request.key, reply)
        except SvrError as error:
            self._stop_run(error)
            raise

    async def _call(self, request: Request) -> Reply:
        """Send until there is a complete reply. The success path is a bare await; tenacity enters after a failure."""
        started = time.monotonic()
        try:
            return await self._attempt(request)
        except _RetryableError as error:
            pending: _RetryableError | None = error
        patience = _Patience(self, started)
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(_RetryableError),
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
            await self._lane.enter(estimate_tokens(request.prompt_chars))
        except LaneStoppedError:
            if self.fatal is not None:
                raise self.fatal from None
            raise
        try:
            self._reserve()
            try:
                raw = await self._transport.send(request)
            except CallFailedError as error:
                raise self._raised(error.failure) from None
        finally:
            self._lane.leave()
        return self._read(raw)

    def _reserve(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        try:
            self.budget.reserve(self._lane.in_flight - 1)
        except SvrError as error:
            self._stop_run(error)
            raise
        self._counters.sent += 1

    def _read(self, raw: RawReply) -> Reply:
        try:
            reply = read_completion(raw.body, raw.status)
        except BadBodyError as problem:
            error = error_in_body(raw.body)
            failure = classify_status(raw.status, raw.headers, error, body_preview=str(problem))
            raise self._raised(failure) from None
        self._lane.succeed()
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
            self._lane.pause(failure.wait_s)
        if failure.kind is Kind.RUN:
            error = failure.error(failure.detail, hint=failure.hint)
            self._stop_run(error)
            return error
        if failure.kind is Kind.ITEM:
            return _ItemFailedError(failure)
        return _RetryableError(failure)

    def _stop_run(self, error: SvrError) -> None:
        """Remember the first error that ends the run and let no further call leave."""
        if self.fatal is None:
            self.fatal = error
            self._lane.stop()

    @property
    def under_way(self) -> int:
        """Questions that are being asked, those between two tries too."""
        return len(self._flights)

    def succeeded_since(self, moment: float) -> bool:
        """Whether any call has succeeded after this moment of the steady clock."""
        return self._lane.succeeded and self._lane.last_success > moment

    def outlast(self, failure: Failure, started: float) -> None:
        """Raise EndpointDownError when the endpoint has been silent for too long; sooner where it never answered."""
        config = self.config
        first_s = min(config.first_contact_s, config.give_up_after_s)
        self.endure(failure, started, config.give_up_after_s if self._lane.succeeded else first_s)

    def endure(self, failure: Failure, started: float, patience_s: float) -> None:
        """Raise EndpointDownError when no call has succeeded for this long."""
        lane = self._lane
        silent_s = time.monotonic() - (lane.last_success if lane.succeeded else started)
        if silent_s > patience_s:
            error = EndpointDownError(
                f"no answer from the endpoint for {silent_s:.0f} s ({failure.detail})",
                hint="start it, or check --base-url, and run the same command again: what is paid is kept",
            )
            self._stop_run(error)
            raise error


class _Patience:
    """tenacity's stop condition: transient failures of one call, with rate limits left out of the count.

    A call is given up after `attempts` failures while others succeed: since it began, where the endpoint answered it,
    or between one failure and the next, where it did not. So an outage, which hits all calls alike, loses none (but
    the very last call of a run, where it is the only one left: there is nothing to tell an outage by).
    """

    def __init__(self, engine: Engine, started: float) -> None:
        self._engine = engine
        self._started = self._failed_at = started
        self._failures = self._alone = 0

    def exhausted(self, state: RetryCallState) -> bool:
        failure = _failure_of(state)
        if failure.kind is Kind.RATE_LIMITED:
            self._engine.endure(failure, self._started, self._engine.config.give_up_after_s)
            return False
        engine, most = self._engine, self._engine.config.attempts
        self._failures += 1
        self._alone += engine.succeeded_since(self._started if failure.answered else self._failed_at)
        self._failed_at = time.monotonic()
        if self._failures < most:
            if failure.billed is Billed.NO:  # nothing listens: no need to try so often before giving up
                engine.outlast(failure, self._started)
            return False
        own_fault = failure.answered or engine.under_way == 1
        if self._alone >= most or (own_fault and engine.succeeded_since(self._started)):
            return True
        engine.outlast(failure, self._started)
        return False


def _failure_of(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, _RetryableError):
        raise AssertionError(f"only retryable failures come here, not {error!r}")
    return error.failure


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(request: Request, outcome: Outcome, detail: str) -> Completion[Any]:
    return Completion(value=None, outcome=outcome, key=request.key.hex(), detail=detail)


def _parse(question: Question[T], reply: Reply, tries: int) -> T:
    """Read a reply; from the second on, one that is whole but broken is repaired."""
    if reply.refused:
        raise ReplyRejectedError(f"The judge refused ({reply.finish_reason}).")
    if reply.truncated:
        raise ReplyRejectedError("The answer was cut off by the token limit.")
    try:
        return question.parse(reply.text)
    except ReplyRejectedError:
        if question.salvage is None or tries == 1:
            raise
        return question.salvage(reply.text)


def _unreadable(reply: Reply | None) -> Outcome:
    if reply is not None and reply.refused:
        return Outcome.REFUSAL
    return Outcome.TRUNCATED if reply is not None and reply.truncated else Outcome.PARSE_ERROR


__all__ = ["Completion", "Engine", "EngineConfig", "LaneStoppedError"]
