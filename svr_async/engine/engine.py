"""The engine: cache, identical calls in flight, slot, send, classify, retry or keep, commit, return — in that order."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec.structs import replace

from svr_async.core.verdict import Outcome
from svr_async.engine.cache import Cache
from svr_async.engine.caller import Caller, EngineConfig, ItemFailedError, ParameterRefusedError, RetryableError
from svr_async.engine.concurrency import bounded_map
from svr_async.engine.events import ItemFailed, OnNotice, Watch, key_of
from svr_async.engine.failures import FailureLog
from svr_async.engine.fallbacks import FILE as FALLBACKS_FILE
from svr_async.engine.fallbacks import Fallbacks, ParameterFallback
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import Reply, preview
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.stats import Counters, EngineStats, snapshot
from svr_async.engine.transport import Transport
from svr_async.errors import SvrError, UsageError

T = TypeVar("T")
TOKEN_LIMIT_GROWTH = 2
SNAPSHOT_S = 1.0
MAX_NAMES_KEPT = 64  # most system fingerprints, and models, that are kept for the manifest


class Completion(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a question: a value, or the outcome that explains its absence. `key` is the cache key in hex."""

    value: T | None
    outcome: Outcome
    key: str
    reply: Reply | None = None
    detail: str = ""


class CallEngine:
    """Asks questions of one model. Use it as an async context manager on one event loop.

    `transport` may be several by name, for endpoints that serve the same model; each is limited on its own.
    """

    def __init__(
        self,
        transport: Transport | Mapping[str, Transport],
        cache: Cache,
        *,
        config: EngineConfig | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        failures: FailureLog | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        self.cache = cache
        self.price = price
        self.fingerprints: set[str] = set()
        self.models: set[str] = set()
        self.unread = ("", "")  # start of the last unreadable reply, and its problem
        self.on_planned: Callable[[Request], None] = lambda _: None
        self.on_recalled: Callable[[Request, Reply, int], None] = lambda _request, _reply, _expected: None
        self.on_missing: Callable[[Question[Any]], None] = lambda _: None
        self.on_asked: Callable[[Request], None] = lambda _: None
        self._planned: set[bytes] = set()
        self._counted: set[int] = set()  # keys of the replies behind the results, 8 bytes of each
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._flights: dict[bytes, asyncio.Future[Completion[Any]] | None] = {}
        self._failures = FailureLog() if failures is None else failures  # an empty log is falsy
        self._counters = Counters()
        self._watch = watch = Watch.begin()
        self._beat: asyncio.TimerHandle | None = None
        self._caller = Caller(
            transport,
            self.config,
            self._counters,
            budget=budget or Budget(),
            price=price,
            asking=self._flights.__len__,
            fallbacks=Fallbacks(cache.folder / FALLBACKS_FILE),
            watch=watch,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def fatal(self) -> SvrError | None:
        """The first error that ends the run, once there is one."""
        return self._caller.fatal

    @property
    def budget(self) -> Budget:
        """The caps and the spending so far."""
        return self._caller.budget

    def refused(self, endpoint: str, model: str) -> tuple[ParameterFallback, ...]:
        """Return the parameters that a model at an endpoint is known to refuse."""
        return self._caller.fallbacks.known(endpoint, model)

    def set_on_notice(self, on_notice: OnNotice) -> None:
        """Set the receiver of notices: retries, long waits, one-time warnings."""
        self._caller.on_notice = on_notice

    async def close(self) -> None:
        """Close connections and commit waiting replies; questions still being asked raise UsageError.

        In a forked child nothing is done: connections and the event loop are its parent's.
        """
        if os.getpid() != self._pid:
            return
        if self._flights and self._caller.fatal is None:
            hint = "await all questions before the engine's block ends"
            self._caller.fatal = UsageError("the engine was closed while it was being asked", hint=hint)
        self.stop()
        if self._beat is not None:
            self._beat.cancel()
        for endpoint in self._caller.pool.endpoints:
            await endpoint.transport.close()
        await self.cache.drain()
        self.cache.close()
        if self._watch is not None:
            self._watch.snapshot(self.stats(), closing=True)

    def stop(self) -> None:
        """Send nothing more: calls in flight end, calls that wait raise EngineStoppedError."""
        self._caller.stop()

    async def complete(self, question: Question[T]) -> Completion[T]:
        """Answer a question from the cache, from an identical call in flight, or by a call.

        A failed item is a `Completion` without a value. An `SvrError` ends the run: key, quota, budget, storage,
        endpoint down. The reply is on disk when this returns.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._bind_loop()
        while True:
            key = question.request.key
            found = self._recall(question, await self.cache.find(key) if self.cache.slow else self.cache.get(key))
            if found is not None:
                return found
            sent = self._with_fallbacks(question)
            if sent is not question:
                found = self._recall(sent, await self.cache.find(sent.request.key))
                if found is not None:
                    return found
            with contextlib.suppress(ParameterRefusedError):  # the fallback is known now
                return await self._complete_sent(sent)

    def map(
        self, questions: Iterable[Question[T]], *, workers: int | None = None
    ) -> AsyncGenerator[tuple[int, Completion[T]], None]:
        """Yield (index, completion) in order of completion; memory does not grow with the number of questions."""
        return bounded_map(self.complete, questions, workers=workers or self.config.workers)

    def stats(self) -> EngineStats:
        """Return a snapshot of the engine's facts."""
        return snapshot(self._counters, self._caller.pool, usd=self._caller.usd)

    def _with_fallbacks(self, question: Question[T]) -> Question[T]:
        request = self._caller.fallbacks.applied(question.request)
        if request is question.request:
            return question
        message = self._caller.fallbacks.recall(question.request)
        if message:
            self._caller.note(message)
        return replace(question, request=request)

    async def _complete_sent(self, question: Question[T]) -> Completion[T]:
        """Answer a question, as it is sent, that is not in the cache."""
        request = question.request
        self.on_asked(request)
        known = self._failures.get(request.key.hex()) if self._failures else None
        if known is not None:
            return _failed(request, *known)
        if self.config.dry_run:
            return self._plan(question)
        if self.config.offline:
            self.on_missing(question)
            return _failed(request, Outcome.API_ERROR, "not in the cache (--offline)")
        while request.key in self._flights:
            flight = self._flights[request.key]
            if flight is None:
                flight = self._flights[request.key] = asyncio.get_running_loop().create_future()
            try:
                completion: Completion[T] = await asyncio.shield(flight)
            except asyncio.CancelledError:
                if not flight.cancelled() or _is_being_cancelled():
                    raise
                continue  # the task that asked was cancelled: this one asks in its place
            self._counters.joined += 1
            return completion
        return await self._fly(question)

    def _bind_loop(self) -> None:
        """Bind the engine to the running event loop; RuntimeError on any other loop or process."""
        if os.getpid() != self._pid:
            raise RuntimeError("this engine was opened before the process forked: open one in each process")
        if self._loop is not None:
            raise RuntimeError("this engine belongs to another event loop or thread: open one for each")
        self._loop = asyncio.get_running_loop()

    def _recall(self, question: Question[T], reply: Reply | None) -> Completion[T] | None:
        """Return the completion from a cached reply; None if it is missing or unreadable."""
        if reply is None:
            return None
        request = question.request
        try:
            value = _parse(question, reply)
        except ReplyRejectedError:
            return None
        if reply.model != request.model:
            self._caller.check_model(request, reply, who="the endpoint, according to the cache,")
        self._counters.cache_hits += 1
        self._count_usage(request, reply)
        self.on_asked(request)
        if self.config.dry_run:
            known = question.expected_tokens if question.expected_of is None else question.expected_of(value)
            self.on_recalled(request, reply, known)
        return Completion(value=value, outcome=Outcome.SCORED, key=request.key.hex(), reply=reply)

    def _plan(self, question: Question[T]) -> Completion[T]:
        request = question.request
        if request.key not in self._planned:
            self._planned.add(request.key)
            self.on_planned(request)
            self._counters.planned_calls += 1
            self._counters.planned_completion_tokens += question.expected_tokens
            self._counters.planned_max_completion_tokens += request.max_tokens
        return Completion(value=question.placeholder(), outcome=Outcome.SCORED, key=request.key.hex())

    async def _fly(self, question: Question[T]) -> Completion[T]:
        """Ask, and let identical questions wait for the same answer."""
        key = question.request.key
        if self._watch is not None and self._beat is None:
            self._beat = asyncio.get_running_loop().call_later(SNAPSHOT_S, self._emit_snapshot)
        self._flights[key] = None  # a future is created for the first question that joins
        try:
            completion = await self._ask(question)
        except BaseException as error:
            joined = self._flights[key]
            if joined is not None and isinstance(error, Exception):
                joined.set_exception(error)
                joined.exception()  # mark it as read: all that joined may have been cancelled
            elif joined is not None:
                joined.cancel()
            raise
        else:
            if (joined := self._flights[key]) is not None:
                joined.set_result(completion)
            return completion
        finally:
            del self._flights[key]

    def _emit_snapshot(self) -> None:
        self._beat = None
        if self._watch is not None:
            self._watch.snapshot(self.stats())
            if self._flights and self._loop is not None:
                self._beat = self._loop.call_later(SNAPSHOT_S, self._emit_snapshot)

    async def _ask(self, question: Question[T]) -> Completion[T]:
        """Call until a reply can be read, then store it under the key of the question as first asked."""
        self._check_cache()
        request, tries = question.request, 0
        rejected, reply = ReplyRejectedError(), None
        while tries <= self.config.repairs:
            try:
                if self._watch is None:
                    reply = await self._caller.call(request)
                else:
                    reply = await self._watch.call(request, self._caller.call, self.price)
            except (ItemFailedError, RetryableError) as error:
                return self._fail(question.request, error.failure.outcome, error.failure.detail)
            tries += 1
            try:
                value = _parse(question, reply)
            except ReplyRejectedError as error:
                rejected = error
                request = _next_request(question.request, reply, error)
                self._counters.repaired += tries <= self.config.repairs
                continue
            kept = reply if reply.tries == tries else replace(reply, tries=tries)
            await self._keep(question.request, kept)
            self._count_usage(question.request, kept)
            return Completion(value=value, outcome=Outcome.SCORED, key=question.request.key.hex(), reply=kept)
        self.unread = preview(reply.text.encode(errors="replace")) if reply else "", str(rejected)
        outcome = _unreadable(reply)
        self._caller.note(f"first unreadable reply: {rejected} It starts: {self.unread[0]}", key=f"unread {outcome}")
        return self._fail(question.request, outcome, str(rejected), reply.text if reply else "")

    def _fail(self, request: Request, outcome: Outcome, detail: str, text: str = "") -> Completion[Any]:
        self._counters.failed += 1
        if self._watch is not None:
            self._watch.emit(ItemFailed(key=key_of(request), outcome=outcome.value, detail=detail))
        try:
            self._failures.add(request.key.hex(), outcome, detail, text)
        except SvrError as error:
            self._caller.stop_run(error)
            raise
        return _failed(request, outcome, detail)

    def _count_usage(self, request: Request, reply: Reply) -> None:
        """Count the tokens behind the results, each reply once, whether it was paid for now or earlier."""
        short = int.from_bytes(request.key[:8])
        if short in self._counted:
            return
        self._counted.add(short)
        if len(self.fingerprints) < MAX_NAMES_KEPT:
            self.fingerprints.add(reply.fingerprint)
            self.models.add(reply.model)
        c, usage = self._counters, reply.usage
        c.prompt_tokens += usage.prompt_tokens or 0
        c.cached_tokens += usage.cached_tokens or 0
        c.completion_tokens += usage.completion_tokens or 0
        if usage.cost_usd is not None:
            c.reported_usd = (c.reported_usd or 0.0) + usage.cost_usd
        if usage.batch:
            c.batch_prompt_tokens += usage.prompt_tokens or 0
            c.batch_cached_tokens += usage.cached_tokens or 0
            c.batch_completion_tokens += usage.completion_tokens or 0

    def _check_cache(self) -> None:
        """End the run before a call is paid for whose reply could not be stored."""
        error = self.cache.write_error()
        if error is not None:
            self._caller.stop_run(error)
            raise error.with_traceback(None)

    async def _keep(self, request: Request, reply: Reply) -> None:
        try:
            await self.cache.put(request.key, reply)
        except SvrError as error:
            self._caller.stop_run(error)
            raise


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(request: Request, outcome: Outcome, detail: str) -> Completion[Any]:
    return Completion(value=None, outcome=outcome, key=request.key.hex(), detail=detail)


def _next_request(first: Request, reply: Reply, error: ReplyRejectedError) -> Request:
    """Return the request that asks again: with twice the tokens, unchanged, or with the problem named."""
    if reply.truncated:
        return replace(first, max_tokens=first.max_tokens * TOKEN_LIMIT_GROWTH)
    if reply.whole and reply.answer.strip():
        return first.with_repair(reply.answer, str(error))
    return replace(first, no_cache=True)


def _parse(question: Question[T], reply: Reply) -> T:
    if reply.refused:
        raise ReplyRejectedError(f"The judge refused ({reply.finish_reason}).")
    if reply.truncated:
        raise ReplyRejectedError("The answer was cut off by the token limit.")
    if not reply.whole:
        raise ReplyRejectedError(f"The answer is incomplete ({reply.finish_reason[:40]}).")
    return question.parse(reply.answer)


def _unreadable(reply: Reply | None) -> Outcome:
    if reply is not None and reply.refused:
        return Outcome.REFUSAL
    return Outcome.TRUNCATED if reply is not None and reply.truncated else Outcome.PARSE_ERROR
