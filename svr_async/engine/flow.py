"""The one place that owns concurrency: N workers pull from one iterator; results come out as they end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from svr_async.engine.collector import calm_collector

START_AT_ONCE = 64
WAKE_AT_ONCE = 2
T = TypeVar("T")
R = TypeVar("R")


async def bounded_map(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, workers: int
) -> AsyncGenerator[tuple[int, R], None]:
    """Yield (index, result) in order of completion, with at most `workers` items under way.

    Memory is flat in the number of items: one task a worker, started when there is no result to hand over, and results
    that nobody has taken yet hold the workers up. An exception in `work` or leaving the loop early cancels what is
    left. Use it under `contextlib.aclosing`.
    """
    source = iter(enumerate(items))
    outcomes: _Outcomes[R] = _Outcomes(room=min(2 * max(1, workers), 512))
    tasks: list[asyncio.Task[None]] = []
    wanted, ended = max(1, workers), 0
    try:
        with calm_collector():
            while len(tasks) < wanted or ended < len(tasks):
                if outcomes.ready:
                    result = outcomes.take()
                    if isinstance(result, BaseException):
                        raise result
                    if result is not None:
                        yield result
                    else:  # the items are at their end
                        wanted, ended = 0, ended + 1
                elif len(tasks) >= wanted:
                    await outcomes.wait()
                else:  # some in each round of the event loop, which has other work too
                    some = 0 if outcomes.held_up else min(START_AT_ONCE, wanted - len(tasks))
                    tasks += [asyncio.create_task(_worker(work, source, outcomes)) for _ in range(some)]
                    await asyncio.sleep(0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Outcomes(Generic[R]):
    """A queue with one reader: what a worker puts costs no wake-up where the reader is not waiting.

    Workers that find it full wait. Once half is taken two of them are woken, and each wakes two more: where work ends
    at once, the first one fills the queue again, and to wake a thousand others for that would cost more than the work.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.ready: deque[tuple[int, R] | BaseException | None] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._workers: deque[asyncio.Future[None]] = deque()

    @property
    def held_up(self) -> bool:
        """Whether workers wait for room."""
        return bool(self._workers)

    @property
    def full(self) -> bool:
        """Whether results wait that nobody has taken, and no more should be begun."""
        return len(self.ready) >= self._room

    def put(self, outcome: tuple[int, R] | BaseException | None) -> None:
        """Add an outcome."""
        self.ready.append(outcome)
        if self._reader is not None:
            if not self._reader.done():
                self._reader.set_result(None)
            self._reader = None

    async def wait(self) -> None:
        """Wait for an outcome."""
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def take(self) -> tuple[int, R] | BaseException | None:
        """Return the next outcome; there has to be one."""
        outcome = self.ready.popleft()
        if self._workers and len(self.ready) == self._room // 2:
            self._wake()
        return outcome

    async def space(self) -> None:
        """Wait until there is room."""
        while self.full:
            place = asyncio.get_running_loop().create_future()
            self._workers.append(place)
            await place
        self._wake()

    def _wake(self) -> None:
        for _ in range(min(WAKE_AT_ONCE, len(self._workers))):
            place = self._workers.popleft()
            if not place.done():
                place.set_result(None)


async def _worker(work: Callable[[T], Awaitable[R]], source: Iterator[tuple[int, T]], outcomes: _Outcomes[R]) -> None:
    try:
        for index, item in source:
            outcomes.put((index, await work(item)))
            if outcomes.full:
                await outcomes.space()
    except asyncio.CancelledError as error:
        outcomes.put(error)  # where it came from within the work, there is a reader
        raise
    except BaseException as error:  # noqa: BLE001  (handed to the consumer, which raises it)
        outcomes.put(error)
    else:
        outcomes.put(None)
