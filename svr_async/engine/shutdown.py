"""End a run early, at its first error or at a signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from svr_async.engine.concurrency import bounded_map
from svr_async.engine.endpoint import EngineStoppedError
from svr_async.errors import BudgetError, SvrError

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

DRAIN_AFTER_SIGNAL_S = 6.0  # supervisors wait ten seconds after a signal; the rest is for writing the run folder
DRAIN_AFTER_ERROR_S = 1.5
DRAIN_AFTER_BUDGET_S = 60.0  # calls in flight are billed in any case, so their answers are waited for
HANGUP = getattr(signal, "SIGHUP", None)  # a closed terminal; not on Windows
SIGNALS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, HANGUP) if number is not None)

T = TypeVar("T")
R = TypeVar("R")


class StoppedError(SvrError):
    """A signal has ended the run; `exit_code` is what shells expect of it."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}", hint="run the same command again to continue: replies are kept")
        self.exit_code = 128 + number


@dataclass(slots=True)
class ShutdownController:
    """Stops a run early at the first error or signal: no new calls start, running calls may finish.

    Running calls are billed, so their replies should be in the cache when the command is repeated.
    """

    engines: tuple[CallEngine, ...] = ()
    error: SvrError | None = None
    signal: int = 0
    _limit: asyncio.Timeout | None = None

    @property
    def stopped(self) -> bool:
        """Whether nothing new starts."""
        return self.error is not None or self.signal != 0

    def fail(self, error: SvrError) -> None:
        """Stop because of an error."""
        if not self.stopped:
            self.error = error
            self._stop(DRAIN_AFTER_BUDGET_S if isinstance(error, BudgetError) else DRAIN_AFTER_ERROR_S)

    def interrupt(self, number: int) -> None:
        """Stop because of a signal; if an error has stopped the run already, wait for no more answers."""
        if self.error is not None:
            self._stop(0.0)
        elif not self.signal:
            self.signal = number
            self._stop(DRAIN_AFTER_SIGNAL_S)

    def reraise(self) -> None:
        """Raise what stopped the run, StoppedError for a signal; do nothing if it was not stopped."""
        if self.error is not None:
            raise self.error
        if self.signal:
            raise StoppedError(self.signal)

    async def run(
        self,
        work: Callable[[T], Awaitable[R]],
        items: Iterable[T],
        *,
        workers: int,
        on_result: Callable[[int, R], None],
    ) -> None:
        """Do the work for each item, `workers` at a time; pass each result with the item's number to `on_result`.

        An SvrError of the work stops the run and is kept in `error`. Returns when all items are done or, after a stop,
        when those in flight have ended or had their time; their results are passed on too.
        """

        async def guarded(item: T) -> tuple[R] | None:
            return None if self.stopped else await self._try(work, item)

        try:
            async with asyncio.timeout(None) as self._limit:
                left = (item for item in items if not self.stopped)
                async with aclosing(bounded_map(guarded, left, workers=workers)) as done:
                    async for number, result in done:
                        if result is not None:
                            on_result(number, *result)
        except TimeoutError:
            if not self.stopped:  # a bug somewhere below, not the end of a drain
                raise
        finally:
            self._limit = None

    async def _try(self, work: Callable[[T], Awaitable[R]], item: T) -> tuple[R] | None:
        try:
            return (await work(item),)
        except SvrError as error:
            self.fail(error)
        except EngineStoppedError:
            fatal = next((engine.fatal for engine in self.engines if engine.fatal is not None), None)
            if fatal is not None:
                self.fail(fatal)
        return None

    def _stop(self, drain_s: float) -> None:
        for engine in self.engines:
            engine.stop()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + drain_s)

    @property
    def hung_up(self) -> bool:
        """Whether the terminal is closed, so that nothing can be shown."""
        return HANGUP is not None and self.signal == HANGUP


@contextlib.contextmanager
def draining(shutdown: ShutdownController, say: Callable[[str], None]) -> Iterator[None]:
    """Drain on the first SIGINT, SIGTERM or SIGHUP; the second one ends the process at once."""

    def stop(number: int) -> None:
        if shutdown.signal:
            os._exit(128 + number)
        with contextlib.suppress(OSError):  # after a hang-up the terminal is gone
            say(f"stopping: calls in flight may finish ({DRAIN_AFTER_SIGNAL_S:g} s); again to stop at once")
        shutdown.interrupt(number)

    with _handling([number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN], stop):
        yield  # nohup ignores SIGHUP


@contextlib.contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal has its usual effect."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def on_signal(number: int) -> None:
        loop.remove_signal_handler(number)
        event.set()

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NotImplementedError):  # on Windows Ctrl-C is a KeyboardInterrupt
            stack.enter_context(_handling([signal.SIGINT, signal.SIGTERM], on_signal))
        yield event


@contextlib.contextmanager
def _handling(signals: list[int], handler: Callable[[int], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, handler, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
