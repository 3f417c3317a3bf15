"""Events and notices of an engine: one frozen record per event, handed to each observer as it happens.

Progress, JSON logs, OpenTelemetry and Prometheus read the same events. Without observers no `Watch` exists, and the
engine builds no records. Notices are lines for a person: retries, long waits, one-time warnings.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from svr_async.engine.transport import CallFailedError, RawReply, Transport

if TYPE_CHECKING:
    from svr_async.engine.classify import Failure
    from svr_async.engine.money import Price
    from svr_async.engine.reply import Reply
    from svr_async.engine.request import Request
    from svr_async.engine.stats import EngineStats

KEY_CHARS = 12  # of a cache key's hex: 48 bits, enough to find its row
_SOURCES = count(1)


class NoticeKind(StrEnum):
    """The subject of a notice."""

    RETRY = "retry"  # a call will be tried again
    WAIT = "wait"  # no call leaves for a long time
    NOTE = "note"  # sent once per run


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for a person."""

    kind: NoticeKind
    text: str


OnNotice: TypeAlias = Callable[[Notice], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A command starts. `config` is a digest of its flags: equal runs have equal digests."""

    command: str
    version: str
    config: str
    judge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A command ended. `totals` sum its engines; `error` is the line that a person saw, "" without an error."""

    command: str
    exit_code: int
    seconds: float
    error: str = ""
    totals: Mapping[str, int | float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """One HTTP request ended. `status` is None without an HTTP reply.

    `error` is "" for status 200, the status in digits for another, else a short name of the failure.
    """

    key: str
    model: str
    endpoint: str
    status: int | None
    seconds: float
    error: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """One call ended: all attempts at one request and the waits between them. `error` is "" for a complete reply.

    `endpoint` is the address of the last attempt, `identity` the endpoint in the cache key. `seconds` runs from the
    wait for a slot to the end; `status` is that of the last attempt, None without an HTTP reply. Tokens are None if not
    reported.
    """

    key: str
    model: str
    identity: str
    endpoint: str
    attempts: int
    status: int | None
    seconds: float
    max_tokens: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    answered_by: str = ""
    finish_reason: str = ""
    wire: str = "openai"
    error: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlanned:
    """A call will be tried again. `kind` is transient or rate_limited; `attempt` is the one that failed, from 1."""

    key: str
    kind: str
    attempt: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailed:
    """A question was given up; others continue."""

    key: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped:
    """The first error that ends the run: no further call leaves."""

    error: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The facts of an engine: about once a second while it is busy, and when it closes.

    `source` distinguishes the engines of a process; `model` is that of the last request, "" before the first.
    """

    source: int
    model: str
    stats: EngineStats
    closing: bool = False


Event: TypeAlias = (
    RunStarted | RunEnded | AttemptEnded | CallEnded | RetryPlanned | ItemFailed | EngineStopped | Snapshot
)
Observer: TypeAlias = Callable[[Event], None]
"""Called on the event loop for each event: it returns at once, does no I/O, and never blocks."""

SUMMED = (
    "sent", "cache_hits", "joined", "retries", "rate_limited", "repaired", "failed", "lost", "prompt_tokens",
    "cached_tokens", "completion_tokens",
)  # fmt: skip


class Latest:
    """An observer that keeps the last snapshot of each engine; another thread may read it."""

    def __init__(self) -> None:
        self._by_source: dict[int, Snapshot] = {}

    def __call__(self, event: Event) -> None:
        """Keep a snapshot; ignore other events."""
        if isinstance(event, Snapshot):
            self._by_source[event.source] = event

    def sums(self, field: str) -> dict[str, float]:
        """Return one fact by model, summed over the engines that know it; the model is "" before the first request."""
        found: dict[str, float] = {}
        for snapshot in list(self._by_source.values()):
            value = getattr(snapshot.stats, field)
            if value is not None:
                found[snapshot.model] = found.get(snapshot.model, 0) + value
        return found

    def totals(self) -> dict[str, int | float | None]:
        """Return the sums over all engines; `usd` is None if the cost of one of them is unknown."""
        engines = [snapshot.stats for snapshot in self._by_source.values()]
        sums: dict[str, int | float | None] = {name: sum(getattr(stats, name) for stats in engines) for name in SUMMED}
        dollars = [stats.usd for stats in engines if stats.usd is not None]
        return sums | {"usd": sum(dollars) if len(dollars) == len(engines) else None}


_OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("svr_observers", default=())


@contextmanager
def observing(*observers: Observer) -> Iterator[None]:
    """Let every engine that is made inside the block report to these observers, as well as to those of outer blocks."""
    token = _OBSERVERS.set((*_OBSERVERS.get(), *observers))
    try:
        yield
    finally:
        _OBSERVERS.reset(token)


NO_ATTEMPT = (0, "", None)
"""The attempts at a call so far: their number, and endpoint and status of the last."""


class Watch:
    """The observers of one engine. An observer that raises is dropped with a warning and never stops a run."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)
        self._source = next(_SOURCES)
        self._model = ""
        self._in_flight: dict[str, tuple[int, str, int | None]] = {}

    @classmethod
    def begin(cls) -> Watch | None:
        """Return a watch with the observers of `observing`; None without any."""
        found = _OBSERVERS.get()
        return cls(found) if found else None

    def emit(self, event: Event) -> None:
        """Hand an event to all observers."""
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001  (a fault of an observer must not stop the run)
                self._observers.remove(observer)
                logging.getLogger("svr_async").warning("an observer failed and is dropped: %r", error)

    def snapshot(self, stats: EngineStats, *, closing: bool = False) -> None:
        """Emit the facts of the engine."""
        self.emit(Snapshot(source=self._source, model=self._model, stats=stats, closing=closing))

    def attempt(self, request: Request, endpoint: str, began: float, status: int | None, **failure: str) -> None:
        """Emit the end of one HTTP request, with its status or the error in place of a reply."""
        key, seconds, self._model = key_of(request), time.monotonic() - began, request.model
        self._in_flight[key] = (self._in_flight.get(key, NO_ATTEMPT)[0] + 1, endpoint, status)
        if status is not None and status != HTTPStatus.OK:
            failure = {"error": str(status)}
        where = {"key": key, "model": request.model, "endpoint": endpoint}
        self.emit(AttemptEnded(**where, status=status, seconds=seconds, **failure))

    async def call(self, request: Request, send: Callable[[Request], Awaitable[Reply]], price: Price | None) -> Reply:
        """Make a call and emit its end, whatever its outcome."""
        began, key = time.monotonic(), key_of(request)
        facts: dict[str, Any] = {"model": request.model, "identity": request.endpoint, "wire": request.wire.name}
        try:
            reply = await send(request)
            facts |= _facts_of(reply, price)
        except BaseException as error:
            failure = getattr(error, "failure", None)
            facts |= {"error": failure.kind.value if failure else type(error).__name__, "detail": str(error)}
            raise
        finally:
            seconds, limit = time.monotonic() - began, request.max_tokens
            attempts, endpoint, status = self._in_flight.pop(key, NO_ATTEMPT)
            facts |= {"attempts": attempts, "endpoint": endpoint, "status": status}
            self.emit(CallEnded(key=key, seconds=seconds, max_tokens=limit, **facts))
        return reply

    def retry(self, request: Request, failure: Failure) -> None:
        """Emit that a call will be tried again."""
        key = key_of(request)
        attempt = self._in_flight.get(key, NO_ATTEMPT)[0]
        self.emit(RetryPlanned(key=key, kind=failure.kind.value, attempt=attempt, detail=failure.detail))


class WatchedTransport:
    """A transport that reports how each HTTP request on it ended, including cancelled ones."""

    def __init__(self, transport: Transport, watch: Watch, endpoint: str = "") -> None:
        self._transport = transport
        self._watch = watch
        self._endpoint = endpoint

    async def send(self, request: Request) -> RawReply:
        """Send one request; CallFailedError without a reply."""
        began = time.monotonic()
        try:
            raw = await self._transport.send(request)
        except CallFailedError as error:
            failure = error.failure
            name = failure.signature or failure.kind.value
            self._watch.attempt(request, self._endpoint, began, None, error=name, detail=failure.detail)
            raise
        except BaseException as error:
            self._watch.attempt(request, self._endpoint, began, None, error=type(error).__name__)
            raise
        self._watch.attempt(request, self._endpoint, began, raw.status)
        return raw

    async def model_names(self) -> list[str]:
        """Return the models that the endpoint lists."""
        listing = getattr(self._transport, "model_names", None)
        return [] if listing is None else list(await listing())

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


def key_of(request: Request) -> str:
    """Return the start of a request's cache key in hex."""
    return request.key.hex()[:KEY_CHARS]


def _facts_of(reply: Reply, price: Price | None) -> dict[str, Any]:
    usage = reply.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "usd": usage.cost_usd if price is None else price.cost(usage),
        "answered_by": reply.model,
        "finish_reason": reply.finish_reason,
    }
