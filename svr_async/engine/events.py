"""What an engine tells those who watch it: one frozen record an event, handed to each observer as it happens.

Nobody watches unless asked to: `Watch.over` is None without observers, and the engine then builds no record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from svr_async.engine.classify import Failure
    from svr_async.engine.reply import Reply
    from svr_async.engine.request import Request
    from svr_async.engine.stats import EngineStats

KEY_CHARS = 12  # of a cache key's hex: enough to find its row, 48 bits
SAME_PAUSE_S = 0.25
WHOLE_RUN = 0
_SOURCES = count(WHOLE_RUN + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A command begins. `config` is a digest of its flags, so that equal runs can be told from others."""

    command: str
    version: str
    config: str
    judge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A command ended. `totals` add up its engines; `error` is the line that a person saw, "" for none."""

    command: str
    exit_code: int
    seconds: float
    error: str = ""
    totals: Mapping[str, int | float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """One HTTP request ended. `status` is None where there was no HTTP reply.

    `error` is "" for status 200, the status in digits for another, else a short name of what went wrong.
    """

    key: str
    model: str
    lane: str
    status: int | None
    seconds: float
    error: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """One call ended: all attempts at one request and the waits between them. `error` is "" for a complete reply.

    `seconds` runs from asking for a slot to the end; `status` is that of the last attempt, None without an HTTP reply.
    Tokens are None where the endpoint did not say.
    """

    key: str
    model: str
    endpoint: str
    lane: str
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
class LanePaused:
    """No call leaves on this lane for so many seconds, unless a later deadline comes."""

    lane: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneChanged:
    """A lane opened, cooled down or came back; `limit` is how many calls it now admits at once."""

    lane: str
    state: str
    limit: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailed:
    """A question was given up; others go on."""

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
    """The engine's facts, about once a second while it is busy, when it falls idle, and when it closes.

    `source` tells the engines of one process apart, and is WHOLE_RUN for those of all processes of a run together;
    `model` is that of the engine's last request, "" before the first.
    """

    source: int
    model: str
    stats: EngineStats
    closing: bool = False


Event: TypeAlias = (
    RunStarted
    | RunEnded
    | AttemptEnded
    | CallEnded
    | RetryPlanned
    | LanePaused
    | LaneChanged
    | ItemFailed
    | EngineStopped
    | Snapshot
)
Observer: TypeAlias = Callable[[Event], None]
"""Called on the event loop for each event: it returns at once, does no I/O, and never blocks."""

_OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("svr_observers", default=())


@contextmanager
def observing(*observers: Observer) -> Iterator[None]:
    """Have every engine that is made inside the block tell these observers, besides those of blocks around it."""
    token = _OBSERVERS.set((*_OBSERVERS.get(), *observers))
    try:
        yield
    finally:
        _OBSERVERS.reset(token)


def tell_whole_run(stats: EngineStats, model: str, *, closing: bool = False) -> None:
    """Tell the observers of this context the facts of all processes of a run; they replace those of single engines."""
    watch = Watch.over()
    if watch is not None:
        watch.tell(Snapshot(source=WHOLE_RUN, model=model, stats=stats, closing=closing))


class _Attempts(NamedTuple):
    """The attempts at a call so far: how many, and lane and status of the last."""

    number: int
    lane: str
    status: int | None


NONE_YET = _Attempts(0, "", None)


class Watch:
    """The observers of one engine. One that raises is dropped with a warning: watching never stops a run."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)
        self._source = next(_SOURCES)
        self._model = ""
        self._under_way: dict[str, _Attempts] = {}
        self._paused_until: dict[str, float] = {}

    @classmethod
    def over(cls, observers: Sequence[Observer] = ()) -> Watch | None:
        """Return a watch with these observers and those of `observing`; None where there is none."""
        found = (*_OBSERVERS.get(), *observers)
        return cls(found) if found else None

    def tell(self, event: Event) -> None:
        """Hand an event to all observers."""
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001  (whatever an observer does wrong, the run goes on)
                self._observers.remove(observer)
                logging.getLogger("svr_async").warning("an observer failed and is dropped: %r", error)

    def facts(self, stats: EngineStats, *, closing: bool = False) -> None:
        """Tell the engine's facts."""
        self.tell(Snapshot(source=self._source, model=self._model, stats=stats, closing=closing))

    def attempt(
        self,
        request: Request,
        lane: str,
        seconds: float,
        *,
        status: int | None = None,
        error: str = "",
        detail: str = "",
    ) -> None:
        """Tell that one HTTP request ended, with its status or the error in place of a reply."""
        key = key_of(request)
        self._model = request.model
        self._under_way[key] = _Attempts(self._under_way.get(key, NONE_YET).number + 1, lane, status)
        if status is not None and status != HTTPStatus.OK:
            error = str(status)
        ended = AttemptEnded(
            key=key, model=request.model, lane=lane, status=status, seconds=seconds, error=error, detail=detail
        )
        self.tell(ended)

    def call(
        self,
        request: Request,
        seconds: float,
        *,
        reply: Reply | None = None,
        usd: float | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Tell that one call ended, with its reply or the error that it raises."""
        key = key_of(request)
        attempts = self._under_way.pop(key, NONE_YET)
        facts: dict[str, Any] = {} if reply is None else _answer(reply)
        if error is not None:
            facts = {"error": _name_of(error), "detail": str(error)}
        ended = CallEnded(
            key=key,
            model=request.model,
            endpoint=request.endpoint,
            lane=attempts.lane,
            attempts=attempts.number,
            status=attempts.status,
            seconds=seconds,
            max_tokens=request.max_tokens,
            usd=usd,
            wire=request.wire.name,
            **facts,
        )
        self.tell(ended)

    def pause(self, lane: str, seconds: float, reason: str) -> None:
        """Tell that a lane is paused; once for calls that were refused together."""
        until = time.monotonic() + seconds
        if until > self._paused_until.get(lane, 0.0) + SAME_PAUSE_S:
            self._paused_until[lane] = until
            self.tell(LanePaused(lane=lane, seconds=seconds, reason=reason))

    def retry(self, request: Request, failure: Failure) -> None:
        """Tell that a call will be tried again."""
        key = key_of(request)
        planned = RetryPlanned(
            key=key, kind=failure.kind.value, attempt=self._under_way.get(key, NONE_YET).number, detail=failure.detail
        )
        self.tell(planned)


def key_of(request: Request) -> str:
    """Return the beginning of a request's cache key in hex."""
    return request.key.hex()[:KEY_CHARS]


def _answer(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "answered_by": reply.model,
        "finish_reason": reply.finish_reason,
    }


def _name_of(error: BaseException) -> str:
    failure = getattr(error, "failure", None)
    return str(failure.kind.value) if failure is not None else type(error).__name__
