"""Coroutines run by code that cannot await: inside a running loop, interrupted, in a forked child, at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from contextvars import ContextVar

import pytest

from svr_async.engine.concurrency import OwnLoop, in_sync, own_loop, run_sync, run_whole
from svr_async.errors import UsageError

Told: ContextVar[str] = ContextVar("Told", default="nothing")


async def thread_name() -> str:
    """Return the name of the thread that runs this."""
    await asyncio.sleep(0)
    return threading.current_thread().name


async def told() -> str:
    """Return what the caller's context says."""
    return Told.get()


async def test_it_works_inside_a_running_loop_with_the_callers_context() -> None:
    """The library's loop is on a thread of its own, the same for every call, and knows the caller's context."""
    mark = Told.set("something")
    assert {run_sync(thread_name()), run_whole(thread_name()), in_sync(thread_name)()} == {"svr-loop"}
    assert run_sync(told()) == "something"
    Told.reset(mark)
    assert own_loop() is own_loop()


def test_what_opens_and_closes_all_it_needs_runs_here_where_no_loop_runs() -> None:
    """Signals reach the loop of a command: it is on the thread that asked."""
    assert run_whole(thread_name()) == threading.current_thread().name


def test_an_error_arrives_as_it_was_raised() -> None:
    """The caller gets the exception itself; one that would end the loop comes as RuntimeError, and the loop goes on."""

    async def fails(error: BaseException) -> None:
        raise error

    error = UsageError("no", hint="yes")
    with pytest.raises(UsageError) as caught:
        run_sync(fails(error))
    assert caught.value is error
    for fatal in (SystemExit(3), KeyboardInterrupt()):
        with pytest.raises(RuntimeError, match=f"{type(fatal).__name__} was raised on the library's own event loop"):
            run_sync(fails(fatal))
    assert run_sync(thread_name()) == "svr-loop"


def test_a_call_that_would_wait_for_itself_is_refused() -> None:
    """Inside a coroutine that was started so, the plain function is a UsageError that says to await."""

    async def asks() -> str:
        return in_sync(thread_name)()

    with pytest.raises(UsageError, match="own event loop already") as caught:
        run_sync(asks())
    assert "await" in caught.value.hint


def test_an_interrupt_cancels_the_work_and_leaves_the_loop() -> None:
    """KeyboardInterrupt passes once the work has ended, and the next call works."""
    ended: list[str] = []
    caller = threading.get_ident()

    async def endless() -> None:
        asyncio.get_running_loop().call_soon(signal.pthread_kill, caller, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # clearing up may take a while
            ended.append("cleared up")

    with pytest.raises(KeyboardInterrupt):
        run_sync(endless())
    assert ended == ["cleared up"]
    assert run_sync(thread_name()) == "svr-loop"


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """A child, in which the parent's thread is not, makes another loop; the parent's goes on."""
    before = own_loop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 on: the process has threads
        child = os.fork()
    if child == 0:
        os._exit(0 if run_sync(thread_name()) == "svr-loop" and own_loop() is not before else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert own_loop() is before
    assert run_sync(thread_name()) == "svr-loop"


def test_closing_cancels_what_is_under_way() -> None:
    """What still runs at the end of the process is cancelled and clears up, then the loop is closed."""
    ended = threading.Event()
    begun: asyncio.Event = asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    own = OwnLoop()
    own.start()
    asyncio.run_coroutine_threadsafe(endless(), own.loop)
    own.run(begun.wait())
    own.close()
    assert ended.is_set()
    assert own.loop.is_closed()


def test_a_plain_function_keeps_name_and_arguments() -> None:
    """It is called and shown like the awaited one, and is known as no coroutine function."""
    plain = in_sync(thread_name)
    assert plain.__name__ == "thread_name_sync"
    assert "`thread_name`" in (plain.__doc__ or "")
    assert not asyncio.iscoroutinefunction(plain)
