"""The engine: cache, single flight, slot, send, classify, retry or keep, commit, hand over: in that order."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from svr_async.engine.admission.lane import LaneStoppedError
from svr_async.engine.cache import Cache
from svr_async.engine.caller import Caller, ItemFailedError, RetryableError, SettingRefusedError
from svr_async.engine.claims import Claims, NoClaims, open_claims
from svr_async.engine.config import EngineConfig
from svr_async.engine.events import ItemFailed, Observer, Watch, key_of
from svr_async.engine.failures import FailureLog
from svr_async.engine.flow import bounded_map
from svr_async.engine.healing import FILE as REFUSED_FILE
from svr_async.engine.healing import Cure, Healer
from svr_async.engine.http.transport import Transport
from svr_async.engine.lag import LagProbe
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import Reply, preview
from svr_async.engine.request import AmbiguousReplyError, Question, ReplyRejectedError, Request, estimate_tokens
from svr_async.engine.seen import SeenKeys
from svr_async.engine.stats import Counters, EngineStats, snapshot
from svr_async.engine.watched import WatchedCalls
from svr_async.engine.words import Hear
from svr_async.errors import SvrError, UsageError
from svr_async.vocabulary.verdict import Outcome

T = TypeVar("T")
TOKEN_LIMIT_GROWTH = 2
MAX_NAMES_KEPT = 64  # most system fingerprints, and models, that are kept for the manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Generic[T]):
    """What came of a question: a value, or the outcome that says why there is none. `key` is the cache key in hex."""

    value: T | None
    outcome: Outcome
    key: str
    reply: Reply | None = None
    detail: str = ""
    from_cache: bool = False


class CallEngine:
    """Asks questions of one endpoint. Use it as an async context manager on one event loop.

    `shared` is the address of a Redis server through which machines share who asks what, and replies.
    """

    def __init__(
        self,
        transport: Transport,
        cache: Cache,
        *,
        config: EngineConfig | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        failures: FailureLog | None = None,
        observers: Sequence[Observer] = (),
        shared: str | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        self.cache = cache
        self.price = price
        self._planned: set[bytes] = set()
        self._claims: Claims | None = None
        self._shared = shared
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._flights: dict[bytes, asyncio.Future[Completion[Any]] | None] = {}
        self._failures = FailureLog() if failures is None else failures  # an empty log is falsy
        self._counters = Counters()
        self._watch = watch = Watch.over(observers)
        self._caller = Caller(
            transport,
            self.config,
            self._counters,
            budget=budget or Budget(),
            price=price,
            under_way=self._flights.__len__,
            healer=Healer(cache.folder / REFUSED_FILE),
            watch=watch,
        )
        self._calls = self._caller if watch is None else WatchedCalls(self._caller.call, price, watch)
        self._probe = LagProbe(self._flights.__len__, self._tell_facts if watch else None)
        self._tell_nobody()

    def _tell_nobody(self) -> None:
        """Begin with nothing seen, and with nobody who wants to be called."""
        self._behind = SeenKeys()
        self.fingerprints: set[str] = set()
        self.models: set[str] = set()
        self.unread = ("", "")  # how the last reply that could not be read begins, and what is wrong with it
        self.on_planned: Callable[[Request], None] = lambda _: None
        self.on_recalled: Callable[[Request, Reply, int], None] = lambda _request, _reply, _expected: None
        self.on_missing: Callable[[Question[Any]], None] = lambda _: None
        self.on_asked: Callable[[Request], None] = lambda _: None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def fatal(self) -> SvrError | None:
        """The first error that ends the run, once there is one."""
        return self._caller.fatal

    def refused(self, endpoint: str, model: str) -> tuple[Cure, ...]:
        """Return what a model at an endpoint is known not to take, which is sent otherwise or not at all."""
        return self._caller.healer.cures(endpoint, model)

    @property
    def budget(self) -> Budget:
        """The caps, and what is spent."""
        return self._caller.budget

    def tell(self, hear: Hear) -> None:
        """Have `hear` called with what a person may want to know: a try that is repeated, a long wait, a note."""
        self._caller.hear = hear

    async def close(self) -> None:
        """Close connections and commit what is waiting; who is asking then has what was answered, or UsageError.

        In a forked child nothing is done: connections, locks and the event loop's sockets are its parent's too.
        """
        if os.getpid() != self._pid:
            return
        if self._flights and self._caller.fatal is None:
            hint = "await what asks it before its block ends"
            self._caller.fatal = UsageError("the engine was closed while it was being asked", hint=hint)
        self.stop()
        self._probe.stop()
        await self._caller.transport.close()
        await asyncio.to_thread(self.cache.drain)
        if self._claims is not None:
            await self._claims.close()
            self._claims = None
        self.cache.close()
        self._tell_facts(closing=True)

    def reload_failures(self) -> None:
        """Take in what other processes of this run have found to fail for good."""
        self._failures.reload()
        self._caller.healer.reload()

    def stop(self) -> None:
        """Send nothing more: calls under way end, calls that wait raise LaneStoppedError."""
        self._stopped = True
        self._caller.stop()

    def scale_rates(self, times: float) -> None:
        """Let so many times the named rates leave, as where other machines do not use theirs."""
        self._caller.lane.scale_rates(times)

    def take_part(self, part: float) -> None:
        """Keep to a part, above 0 and at most 1, of the calls under way and of the rates of the settings."""
        self.scale_rates(part)
        self._caller.lane.bound(max(1, int(part * self.config.concurrency)))

    async def turn(self) -> None:
        """Wait before a new item while many calls wait, so that items under way come first."""
        await self._caller.lane.turn()

    async def complete(self, question: Question[T]) -> Completion[T]:
        """Answer a question from the cache, from a call already under way, or by a call.

        A failed item is a `Completion` without a value; what stops the run (key, quota, budget, storage, endpoint
        down) is an `SvrError`. The reply is on disk when this returns.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._settle()
        found = self._recall(question, await self.cache.find(question.request.key))
        return await self._complete_missing(question) if found is None else found

    async def _complete_missing(self, question: Question[T]) -> Completion[T]:
        """Answer a question that the cache has just missed: as it is, without what the endpoint refuses of it."""
        while True:
            healed = self._healed(question)
            found = await self._recall_elsewhere(question, healed)
            if found is not None:
                return found
            with contextlib.suppress(SettingRefusedError):  # the healer knows of it by now
                return await self._complete_sent(healed)

    async def _recall_elsewhere(self, asked: Question[T], healed: Question[T]) -> Completion[T] | None:
        """Look for a reply under what is sent, and under an address as earlier versions spelled it."""
        others = [] if healed is asked else [healed]
        if asked.request.spelled:
            others += [replace(one, request=one.request.as_spelled()) for one in (asked, *others)]
        for other in others:
            found = self._recall(other, await self.cache.find(other.request.key))
            known = self._failures.get(other.request.key.hex()) if self._failures and found is None else None
            if found is not None or known is not None:
                return found or _failed(other.request, *(known or (Outcome.API_ERROR, "")))
        return None

    def _healed(self, question: Question[T]) -> Question[T]:
        request = self._caller.healer.healed(question.request)
        if request is question.request:
            return question
        told = self._caller.healer.recall(question.request)
        if told:
            self._caller.tell_once(told)
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
        missed_now = True
        while request.key in self._flights:
            flight = self._flights[request.key]
            if flight is None:
                flight = self._flights[request.key] = asyncio.get_running_loop().create_future()
            try:
                completion: Completion[T] = await asyncio.shield(flight)
            except asyncio.CancelledError:
                if not flight.cancelled() or _being_cancelled():
                    raise
                missed_now = False
                continue
            self._counters.joined += 1
            return completion
        return await self._fly(question, missed_now=missed_now)

    def map(
        self, questions: Iterable[Question[T]], *, workers: int | None = None
    ) -> AsyncGenerator[tuple[int, Completion[T]], None]:
        """Yield (index, completion) in order of completion, with memory flat in the number of questions."""
        workers = workers or self.config.workers
        return bounded_map(self.complete, questions, workers=workers)

    def stats(self) -> EngineStats:
        """Return a snapshot of the engine's facts."""
        usd = None if self.price is None else self._caller.usd
        return snapshot(self._counters, self._caller.lane, usd=usd, lag=self._probe.spread())

    def _tell_facts(self, *, closing: bool = False) -> None:
        if self._watch is not None:
            self._watch.facts(self.stats(), closing=closing)

    def _settle(self) -> None:
        """Belong to the running event loop from the first question on; RuntimeError on any other loop or process."""
        if os.getpid() != self._pid:
            raise RuntimeError("this engine was opened before the process forked: open one in each process")
        if self._loop is not None:
            raise RuntimeError("this engine belongs to another event loop or thread: open one for each")
        self._loop = asyncio.get_running_loop()

    def _open_claims(self) -> Claims:
        own = open_claims(self.cache.folder) if self.cache.writable else NoClaims()
        if self._shared is not None and self.cache.writable:
            from svr_async.engine.shared.claims import SharedClaims

            self._claims = SharedClaims(own, self.cache, self._shared, self._caller.tell_once)
        else:
            self._claims = own
        return self._claims

    def _is_stopping(self) -> bool:
        return self._stopped or self._caller.fatal is not None

    def _recall(self, question: Question[T], reply: Reply | None) -> Completion[T] | None:
        """Return what a reply from the cache says, None where there is none or it cannot be read."""
        if reply is None:
            return None
        try:
            value = _parse(question, reply, reply.tries)
        except ReplyRejectedError:
            return None
        if reply.model != question.request.model:
            self._caller.vet(question.request, reply, who="the endpoint, as the cache has it,")
        self._counters.cache_hits += 1
        self._count_usage(question.request, reply)
        self.on_asked(question.request)
        if self.config.dry_run:
            known = question.expected_tokens if question.expected_of is None else question.expected_of(value)
            self.on_recalled(question.request, reply, known)
        key = question.request.key.hex()
        return Completion(value=value, outcome=Outcome.SCORED, key=key, reply=reply, from_cache=True)

    def _plan(self, question: Question[T]) -> Completion[T]:
        request = question.request
        if request.key not in self._planned:
            self._planned.add(request.key)
            self.on_planned(request)
            self._counters.planned_calls += 1
            self._counters.planned_prompt_tokens += estimate_tokens(request.prompt_chars)
            self._counters.planned_completion_tokens += question.expected_tokens
            self._counters.planned_max_completion_tokens += request.max_tokens
        return Completion(value=question.sketch(), outcome=Outcome.SCORED, key=request.key.hex())

    async def _fly(self, question: Question[T], *, missed_now: bool) -> Completion[T]:
        key = question.request.key
        if not self._probe.running:
            self._probe.start()
        claims = self._claims or self._open_claims()
        held, found = missed_now and claims.hold(key), None
        self._flights[key] = None  # a future is made for the first who joins
        try:
            if not held:  # another process may be asking this, or may have asked it a moment ago
                held = await claims.obtain(key, self._is_stopping)
                found = self._recall(question, await self.cache.find(key))
            completion = found or await self._ask(question)
        except Exception as error:
            landed = error
            self._land(key, lambda joined: joined.set_exception(landed))
            raise
        except BaseException:  # cancelled or interrupted: one of those who joined asks in its place
            self._land(key, lambda joined: joined.cancel())
            raise
        else:
            if (joined := self._flights[key]) is not None:
                joined.set_result(completion)
            return completion
        finally:
            if held:
                claims.release(key)
            del self._flights[key]
            self._caller.lane.begin()

    def _land(self, key: bytes, tell: Callable[[asyncio.Future[Completion[Any]]], object]) -> None:
        """Tell those who joined a flight that it failed."""
        joined = self._flights[key]
        if joined is not None:
            tell(joined)
            if not joined.cancelled():
                joined.exception()  # read, so that asyncio does not warn where all who joined were cancelled

    async def _ask(self, question: Question[T]) -> Completion[T]:
        """Call until a reply can be read, then keep it under the key of the question as first asked."""
        self._check_cache()
        request, tries, refusals, doubts = question.request, 0, 0, 0
        rejected, reply = ReplyRejectedError(), None
        while tries <= self.config.repairs:
            try:
                reply = await self._calls.call(request)
            except (ItemFailedError, RetryableError) as error:
                return self._fail(question.request, error.failure.outcome, error.failure.detail)
            tries += 1
            try:
                value = _parse(question, reply, tries)
            except ReplyRejectedError as error:
                rejected = error
                refusals += reply.refused
                doubts += isinstance(error, AmbiguousReplyError)
                if max(refusals, doubts) > 1 or (reply.truncated and request.max_tokens > question.request.max_tokens):
                    break
                request = self._next_request(question.request, request, reply, error, tries)
                self._counters.repaired += 1
                continue
            kept = reply if reply.tries == tries else replace(reply, tries=tries)
            await self._keep(question.request, kept)
            self._count_usage(question.request, kept)
            return Completion(value=value, outcome=Outcome.SCORED, key=question.request.key.hex(), reply=kept)
        self.unread = preview(reply.text.encode(errors="replace")) if reply else "", str(rejected)
        return self._fail(question.request, _unreadable(reply, rejected), str(rejected))

    def _fail(self, request: Request, outcome: Outcome, detail: str) -> Completion[Any]:
        self._counters.failed += 1
        if self._watch is not None:
            self._watch.tell(ItemFailed(key=key_of(request), outcome=outcome.value, detail=detail))
        try:
            self._failures.add(request.key.hex(), outcome, detail)
        except SvrError as error:
            self._caller.stop_run(error)
            raise
        return _failed(request, outcome, detail)

    def _count_usage(self, request: Request, reply: Reply) -> None:
        """Count the tokens behind the results, each reply once, whether it was paid for now or earlier."""
        if not self._behind.add(request.key):
            return
        if len(self.fingerprints) < MAX_NAMES_KEPT:
            self.fingerprints.add(reply.fingerprint)
            self.models.add(reply.model)
        c, usage = self._counters, reply.usage
        c.prompt_tokens += usage.prompt_tokens or 0
        c.cached_tokens += usage.cached_tokens or 0
        c.completion_tokens += usage.completion_tokens or 0
        if usage.batch:
            c.batch_prompt_tokens += usage.prompt_tokens or 0
            c.batch_cached_tokens += usage.cached_tokens or 0
            c.batch_completion_tokens += usage.completion_tokens or 0

    def _next_request(
        self, first: Request, last: Request, reply: Reply, error: ReplyRejectedError, tries: int
    ) -> Request:
        """Decide how to ask again: with more room after truncation, the same once more, then with a repair turn.

        A reply that can be read in more than one way is told so at once.
        """
        if reply.truncated:
            return last.with_max_tokens(first.max_tokens * TOKEN_LIMIT_GROWTH)
        named = reply.whole and (tries > 1 or isinstance(error, AmbiguousReplyError))
        return first.with_repair(reply.answer, str(error)) if named else last.fresh()

    def _check_cache(self) -> None:
        """End the run before a call is paid for whose reply could not be kept."""
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
    if not reply.whole:
        raise ReplyRejectedError(f"The answer was broken off ({reply.finish_reason[:40]}).")
    try:
        return question.parse(reply.answer)
    except ReplyRejectedError:
        if question.salvage is None or tries == 1:
            raise
        return question.salvage(reply.answer)


def _unreadable(reply: Reply | None, rejected: ReplyRejectedError) -> Outcome:
    if reply is not None and reply.refused:
        return Outcome.REFUSAL
    return Outcome.TRUNCATED if reply is not None and reply.truncated else rejected.outcome


__all__ = ["CallEngine", "Completion", "LaneStoppedError"]
