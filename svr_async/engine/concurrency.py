"""Concurrency: workers that pull from one iterator, and event loops for code that cannot await."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import wait
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from svr_async.errors import UsageError

MOST_UNREAD = 512  # results that wait for the reader before workers pause
GC_THRESHOLDS = (100_000, 50, 100)
INTERRUPT_POLL_S, END_S = 0.2, 10.0

_gc_users = 0
_gc_before = gc.get_threshold()

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


async def bounded_map(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, workers: int
) -> AsyncGenerator[tuple[int, R], None]:
    """Yield (index, result) in order of completion, with at most `workers` items in flight.

    Memory does not grow with the number of items: one task per worker, and unread results hold the workers up. An
    exception in `work`, or leaving the loop early, cancels the rest. Use it under `contextlib.aclosing`.
    """
    source = iter(enumerate(items))
    results: asyncio.Queue[tuple[int, R] | BaseException | None] = asyncio.Queue(min(2 * max(1, workers), MOST_UNREAD))

    async def worker() -> None:
        try:
            for index, item in source:
                await results.put((index, await work(item)))
            ended: BaseException | None = None
        except asyncio.CancelledError as error:
            if tasks:  # cancelled by the work itself: the reader still waits
                await results.put(error)
            raise
        except BaseException as error:  # noqa: BLE001  (handed to the consumer, which raises it)
            ended = error
        await results.put(ended)

    tasks: list[asyncio.Task[None]] = []
    try:
        with tune_gc():
            tasks += [asyncio.create_task(worker()) for _ in range(max(1, workers))]
            running = len(tasks)
            while running:
                result = await results.get()
                if isinstance(result, BaseException):
                    raise result
                if result is None:  # the items are exhausted
                    running -= 1
                else:
                    yield result
    finally:
        started, tasks = tasks, []
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


@contextlib.contextmanager
def tune_gc() -> Iterator[None]:
    """Run Python's garbage collector less often while thousands of calls are alive.

    With the usual thresholds, walking them takes a third of the time at 4,096 calls in flight. Reference counts free
    nearly everything that a call allocates.
    """
    global _gc_users, _gc_before  # noqa: PLW0603  (the collector belongs to the whole process)
    if not _gc_users:
        _gc_before = gc.get_threshold()
        if _gc_before[0]:  # 0: switched off by the user
            gc.set_threshold(*map(max, GC_THRESHOLDS, _gc_before))
    _gc_users += 1
    try:
        yield
    finally:
        _gc_users -= 1
        if not _gc_users:
            gc.set_threshold(*_gc_before)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked child has its parent's loop without a thread


def own_loop() -> asyncio.AbstractEventLoop:
    """Return the library's event loop, which runs on a thread: for scripts, and notebooks with a running loop."""
    if os.getpid() not in _LOOPS:
        loop = (loop_factory() or asyncio.new_event_loop)()
        if _LOOPS.setdefault(os.getpid(), loop) is loop:
            threading.Thread(target=loop.run_forever, name="svr-loop", daemon=True).start()
            atexit.register(loop.call_soon_threadsafe, loop.stop)
        else:  # another thread was first
            loop.close()
    return _LOOPS[os.getpid()]


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, also inside a running event loop such as a notebook's.

    It runs on the library's own loop; KeyboardInterrupt cancels it. UsageError if called from a coroutine on that loop.
    """
    if _running_loop() is own_loop():
        work.close()
        raise UsageError(
            "this code already runs on the library's own event loop", hint="await its twin, as ascore_pair"
        )
    result = asyncio.run_coroutine_threadsafe(_contained(work), own_loop())
    try:
        while not wait([result], INTERRUPT_POLL_S).done:  # an endless wait may lose an interrupt
            pass
    except KeyboardInterrupt:
        result.cancel()
        wait([result], END_S)
        raise
    return result.result()


async def run_on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that runs on the library's own loop, so that one engine serves callers on any loop."""
    if _running_loop() is own_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_contained(work), own_loop()))


def run_whole(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that opens and closes all it needs: on this thread, or like `run_sync` inside a running loop."""
    if _running_loop() is not None:
        return run_sync(work)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def in_sync(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking twin of an async function whose name begins with `a`."""

    @wraps(call)
    def blocking(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_sync(call(*args, **kwargs))

    blocking.__name__ = blocking.__qualname__ = call.__name__.removeprefix("a")
    return blocking


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:  # it would end the loop
        raise RuntimeError(f"{type(error).__name__} was raised on the library's own event loop") from error


def descriptors_for(wanted: int) -> int | None:
    """Ask for `wanted` file descriptors and return how many this process may have; None without a limit."""
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and soft < wanted:
        soft = min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
