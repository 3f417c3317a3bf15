"""The one place that owns concurrency: N workers pull from one iterator; results come out as they end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Generic, TypeVar

from svr_async.engine.collector import calm_collector

START_AT_ONCE = 64
T = TypeVar("T")
R = TypeVar("R")


async def bounded_map(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, workers: int
) -> AsyncGenerator[tuple[int, R], None]:
    """Yield (index, result) in order of completion, with at most `workers` items under way.

    Memory is flat in the number of items: one task a worker, and results that nobody has taken yet hold the workers
    up. An exception in `work` or leaving the loop early cancels what is left. Use it under `contextlib.aclosing`.
    """
    source = iter(enumerate(items))
    outcomes: _Outcomes[R] = _Outcomes(room=min(2 * workers, 512))
    tasks: list[asyncio.Task[None]] = []
    try:
        with calm_collector():
            await _start(tasks, lambda: _worker(work, source, outcomes), max(1, workers))
            running = len(tasks)
            while running:
                result = await outcomes.take()
                if isinstance(result, BaseException):
                    raise result
                if result is None:
                    running -= 1
                else:
                    yield result
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Outcomes(Generic[R]):
    """A queue with one reader: what a worker puts costs no wake-up where the reader is not waiting."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._ready: deque[tuple[int, R] | BaseException | None] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._space: asyncio.Event | None = None

    def put(self, outcome: tuple[int, R] | BaseException | None) -> asyncio.Event | None:
        """Add an outcome; the event that is returned, if any, is to be awaited before the next."""
        self._ready.append(outcome)
        if self._reader is not None:
            if not self._reader.done():
                self._reader.set_result(None)
            self._reader = None
        if len(self._ready) >= self._room and self._space is None:
            self._space = asyncio.Event()
        return self._space

    async def take(self) -> tuple[int, R] | BaseException | None:
        """Return the next outcome."""
        while not self._ready:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        outcome = self._ready.popleft()
        if self._space is not None and len(self._ready) <= self._room // 2:
            self._space.set()
            self._space = None
        return outcome


async def _start(
    tasks: list[asyncio.Task[None]], worker: Callable[[], Coroutine[None, None, None]], count: int
) -> None:
    """Start workers and add them to `tasks`, some in each round of the event loop, which has other work too.

    One that has ended already has found the items at their end, or an error: no more are started then.
    """
    while len(tasks) < count:
        some = [asyncio.create_task(worker()) for _ in range(min(START_AT_ONCE, count - len(tasks)))]
        tasks += some
        if len(tasks) < count:
            await asyncio.sleep(0)
            if any(task.done() for task in some):
                return


async def _worker(work: Callable[[T], Awaitable[R]], source: Iterator[tuple[int, T]], outcomes: _Outcomes[R]) -> None:
    try:
        for index, item in source:
            space = outcomes.put((index, await work(item)))
            if space is not None:
                await space.wait()
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  (handed to the consumer, which raises it)
        outcomes.put(error)
    else:
        outcomes.put(None)
