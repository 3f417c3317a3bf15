"""Concurrency: the bounded map, early stops, signals, and event loops for code that cannot await."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from contextvars import ContextVar

import pytest

from svr_async.engine import concurrency
from svr_async.engine.concurrency import bounded_map, in_sync, own_loop, run_sync, run_whole
from svr_async.engine.shutdown import ShutdownController, StoppedError, draining
from svr_async.errors import StorageError, UsageError

WORD: ContextVar[str] = ContextVar("word", default="nothing")


# --- the bounded map and early stops ----------------------------------------------------------------------------------


async def test_the_map_yields_every_result_with_few_in_flight() -> None:
    """At most `workers` items are in flight; the source is read only as fast as results are taken."""
    busy = peak = taken = 0

    async def work(number: int) -> int:
        nonlocal busy, peak
        busy += 1
        peak = max(peak, busy)
        await asyncio.sleep(0)
        busy -= 1
        return -number

    def source() -> Iterator[int]:
        nonlocal taken
        for number in range(500):
            taken += 1
            yield number

    found: dict[int, int] = {}
    async with aclosing(bounded_map(work, source(), workers=7)) as results:
        async for index, result in results:
            found[index] = result
            assert taken <= len(found) + 30
            await asyncio.sleep(0)
    assert found == {number: -number for number in range(500)}
    assert peak <= 7


async def test_an_error_stops_a_run_and_keeps_the_results_in_flight() -> None:
    """The first SvrError stops the run: no new item starts, running items may end, and `reraise` raises it."""
    shutdown, started, results = ShutdownController(), list[int](), dict[int, int]()

    async def work(number: int) -> int:
        started.append(number)
        await asyncio.sleep(0.005 if number == 2 else 0.02)
        if number == 2:
            raise StorageError("full", hint="free some space")
        return number

    await asyncio.wait_for(shutdown.run(work, range(100), workers=4, on_result=results.__setitem__), 10)
    assert (sorted(started), results) == ([0, 1, 2, 3], {0: 0, 1: 1, 3: 3})
    with pytest.raises(StorageError):
        shutdown.reraise()


async def test_a_signal_stops_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running items have a limited time after it; the exit code is the one that shells expect."""
    monkeypatch.setattr("svr_async.engine.shutdown.DRAIN_AFTER_SIGNAL_S", 0.05)
    shutdown, results, lines = ShutdownController(), dict[int, int](), list[str]()

    async def work(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(1000 * number)
        return number

    with draining(shutdown, lines.append):
        await asyncio.wait_for(shutdown.run(work, range(100), workers=4, on_result=results.__setitem__), 10)
    assert (results, len(lines)) == ({0: 0}, 1)
    with pytest.raises(StoppedError, match="SIGTERM") as caught:
        shutdown.reraise()
    assert caught.value.exit_code == 128 + signal.SIGTERM


# --- event loops for code that cannot await ---------------------------------------------------------------------------


async def thread_name() -> str:
    """Return the name of the thread that runs this."""
    await asyncio.sleep(0)
    return threading.current_thread().name


async def word() -> str:
    """Return the value of the caller's context."""
    return WORD.get()


async def test_run_sync_works_inside_a_running_loop() -> None:
    """The library's loop runs on its own thread, the same for every call, with the caller's context."""
    mark = WORD.set("something")
    assert {run_sync(thread_name()), run_whole(thread_name()), in_sync(thread_name)()} == {"svr-loop"}
    assert run_sync(word()) == "something"
    WORD.reset(mark)


def test_threads_that_begin_together_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two first calls at the same time, as by two loops of a trainer, do not make two loops."""
    both = threading.Barrier(2, timeout=10)
    monkeypatch.setattr(concurrency, "_LOOPS", {})

    def new_loop() -> asyncio.AbstractEventLoop:
        both.wait()
        return asyncio.new_event_loop()

    monkeypatch.setattr(concurrency, "loop_factory", lambda: new_loop)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: own_loop(), range(2))
    assert one is other
    one.call_soon_threadsafe(one.stop)


def test_errors_reach_the_caller() -> None:
    """The exception itself is raised; one that would end the loop becomes RuntimeError, and the loop continues."""

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


def test_an_interrupt_cancels_the_work() -> None:
    """KeyboardInterrupt is raised once the work has ended, and the next call works."""
    ended: list[str] = []
    caller = threading.get_ident()

    async def endless() -> None:
        asyncio.get_running_loop().call_soon(signal.pthread_kill, caller, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up may take a while
            ended.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        run_sync(endless())
    assert ended == ["cleaned up"]
    assert run_sync(thread_name()) == "svr-loop"
