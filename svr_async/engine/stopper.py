"""Ending a run before its end: an error or a signal begins nothing more, and calls under way get a while to end.

They will be billed, so their replies should be in the cache when the same command is given again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from svr_async.engine.admission.lane import LaneStoppedError
from svr_async.engine.flow import bounded_map
from svr_async.errors import BudgetError, SvrError

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

DRAIN_AFTER_SIGNAL_S = 6.0  # of ten seconds after a signal; the rest is for clearing up and for writing the run folder
DRAIN_AFTER_ERROR_S = 1.5
DRAIN_AFTER_BUDGET_S = 60.0  # calls under way are billed in any case, so their answers are waited for
T = TypeVar("T")
R = TypeVar("R")


class StoppedError(SvrError):
    """A signal has ended the run; `exit_code` is what shells expect of it."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}", hint="run the same command to go on: what is answered is kept")
        self.exit_code = 128 + number


@dataclass(slots=True)
class Stopper:
    """Why a run ends before its end: the first error or signal. Waiting calls are turned away, others may finish."""

    engines: tuple[CallEngine, ...] = ()
    error: SvrError | None = None
    signal: int = 0
    _limit: asyncio.Timeout | None = None

    @property
    def stopped(self) -> bool:
        """Whether nothing further is begun."""
        return self.error is not None or self.signal != 0

    def fail(self, error: SvrError) -> None:
        """Stop because of an error."""
        if not self.stopped:
            self.error = error
            self._stop(DRAIN_AFTER_BUDGET_S if isinstance(error, BudgetError) else DRAIN_AFTER_ERROR_S)

    def interrupt(self, number: int) -> None:
        """Stop because of a signal; where an error has stopped the run already, wait for no more answers."""
        if self.error is not None:
            self._stop(0.0)
        elif not self.signal:
            self.signal = number
            self._stop(DRAIN_AFTER_SIGNAL_S)

    def reraise(self) -> None:
        """Raise what has stopped the run, StoppedError for a signal; nothing where nothing has."""
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
        """Do the work for each item, `workers` at a time, and tell each result with the item's number as it comes.

        An SvrError of the work stops the run and is kept in `error`. Returns when all items are done or, after a stop,
        when those under way have ended or had their time; their results are told too.
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
            if not self.stopped:  # not the end of a drain, but a bug somewhere below
                raise
        finally:
            self._limit = None

    async def _try(self, work: Callable[[T], Awaitable[R]], item: T) -> tuple[R] | None:
        try:
            for engine in self.engines:
                await engine.turn()
            return (await work(item),)
        except SvrError as error:
            self.fail(error)
        except LaneStoppedError:
            fatal = next((engine.fatal for engine in self.engines if engine.fatal is not None), None)
            if fatal is not None:
                self.fail(fatal)
        return None

    def _stop(self, drain_s: float) -> None:
        for engine in self.engines:
            engine.stop()
        if self._limit is not None and not self._limit.expired():  # else its time is over already
            self._limit.reschedule(asyncio.get_running_loop().time() + drain_s)
