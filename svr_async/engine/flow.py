"""The one place that owns concurrency: N workers pull from one iterator; results come out as they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def bounded_map(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, workers: int
) -> AsyncGenerator[tuple[int, R], None]:
    """Yield (index, result) in order of completion, with at most `workers` items under way.

    Memory is flat in the number of items: one task a worker, and a bounded queue of results. An exception in `work`
    or leaving the loop early cancels what is left. Use it under `contextlib.aclosing`.
    """
    source = iter(enumerate(items))
    done: asyncio.Queue[tuple[int, R] | BaseException | None] = asyncio.Queue(maxsize=2 * workers)
    tasks = [asyncio.create_task(_worker(work, source, done)) for _ in range(max(1, workers))]
    running = len(tasks)
    try:
        while running:
            result = await done.get()
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


async def _worker(
    work: Callable[[T], Awaitable[R]],
    source: Iterable[tuple[int, T]],
    done: asyncio.Queue[tuple[int, R] | BaseException | None],
) -> None:
    try:
        for index, item in source:
            await done.put((index, await work(item)))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  (handed to the consumer, which raises it)
        await done.put(error)
    else:
        await done.put(None)
