"""Coroutines run by code that cannot await: commands, scripts, and notebooks, whose cells run inside a loop already.

A process has one loop of the library's own, on a thread of its own: made when it is first needed, closed when the
process ends, made anew in a forked child. A loop that the program runs itself is never touched.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from svr_async.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")
LOOK_S = 0.2  # between looks for an interrupt
END_S = 10.0  # at the process's end, for work that is still under way to be cancelled

_LOOPS: dict[int, OwnLoop] = {}  # by process: a child has its parent's loop in memory, and not its thread


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class OwnLoop:
    """An event loop on a thread of its own, from `start` to `close`."""

    def __init__(self) -> None:
        self.loop = (loop_factory() or asyncio.new_event_loop)()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="svr-loop", daemon=True)

    def start(self) -> None:
        """Begin to run; what was given to the loop before is done then."""
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether the code that asks runs on this loop's thread."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, from another thread. KeyboardInterrupt cancels it first, and passes then."""
        result: Future[T] = Future()
        context, tasks = copy_context(), list[asyncio.Task[T]]()

        def begin() -> None:
            tasks.append(self.loop.create_task(_kept_alive(work), context=context))
            tasks[0].add_done_callback(lambda task: _hand_over(task, work, result))

        def cancel() -> None:
            tasks[0].cancel()

        self.loop.call_soon_threadsafe(begin)
        try:
            _wait_for(result)
        except KeyboardInterrupt:
            self.loop.call_soon_threadsafe(cancel)
            _wait_for(result)  # a second interrupt ends this too
            raise
        return result.result()

    def close(self) -> None:
        """Cancel what is under way and close the loop."""
        self.loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._until_ending())
        finally:
            self.loop.close()

    async def _until_ending(self) -> None:
        await self._ending.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.loop.shutdown_asyncgens()


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of this library to its end and return its result, also inside a running event loop.

    It runs on the process's own loop, whatever loop the caller has: an engine that is opened so (`with Engine(…)`) is
    used so. UsageError inside a coroutine that was started so, as it would wait for itself, and for what is none.
    """
    if not asyncio.iscoroutine(work):
        raise UsageError(f"run_sync runs a coroutine, not {type(work).__name__}", hint="run_sync(score_pair(…))")
    own = own_loop()
    if own.here:
        work.close()
        raise UsageError("this is running on the library's own event loop already", hint="await the call without _sync")
    return own.run(work)


async def run_beside(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that runs on the process's own loop, from whatever event loop the caller has.

    So what belongs to one loop, as an engine does, serves callers on any. Cancelling the await cancels the work.
    """
    own = own_loop()
    if own.here:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_kept_alive(work), own.loop))


def run_whole(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that opens and closes all that it needs, and return its result.

    It runs on this thread, where signals reach its loop; inside of a running event loop as `run_sync` does.
    """
    if _in_a_loop():
        return run_sync(work)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def _in_a_loop() -> bool:
    """Whether this thread runs an event loop; asked apart, so that errors of the work have no other beneath them."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop().is_running()
    return False


def own_loop() -> OwnLoop:
    """Return this process's loop, which runs from now on."""
    process = os.getpid()
    own = _LOOPS.get(process)
    if own is not None:
        return own
    made = OwnLoop()
    own = _LOOPS.setdefault(process, made)
    if own is not made:  # another thread came first
        made.loop.close()
        return own
    atexit.register(lambda: made.close() if os.getpid() == process else None)
    made.start()
    return made


def in_sync(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return an async function as one that code without `await` can call, with the same arguments."""

    @wraps(call)
    def waits(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_sync(call(*args, **kwargs))

    waits.__name__ = waits.__qualname__ = f"{call.__name__}_sync"
    waits.__doc__ = f"Do the same as `{call.__name__}`, for code that cannot await it: a script, a notebook's function."
    return waits


def _wait_for(result: Future[Any]) -> None:
    while not wait([result], LOOK_S).done:
        pass  # here an interrupt is noticed that came when the wait was about to begin, or that cannot end a wait


async def _kept_alive(work: Coroutine[Any, Any, T]) -> T:
    """Let no exception through that would end the loop."""
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"{type(error).__name__} was raised on the library's own event loop") from error


def _hand_over(task: asyncio.Task[T], work: Coroutine[Any, Any, T], result: Future[T]) -> None:
    work.close()  # it has not begun where the task was cancelled at once
    if task.cancelled():
        result.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())
