"""Signals: the first one drains a run, the second ends it at once, with what is committed kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from svr_async.engine.stopper import DRAIN_AFTER_SIGNAL_S, Stopper

HANGUP = getattr(signal, "SIGHUP", None)  # a closed terminal, or a lost connection to it; not on Windows
SIGNALS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, HANGUP) if number is not None)


@contextlib.contextmanager
def draining(stopper: Stopper, say: Callable[[str], None]) -> Iterator[None]:
    """Drain on the first SIGINT, SIGTERM or SIGHUP; the second of them ends the process at once."""
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopper.signal:
            os._exit(128 + number)
        with contextlib.suppress(OSError):  # after a hang-up there is no terminal to write to
            say(f"stopping: calls under way may finish ({DRAIN_AFTER_SIGNAL_S:g} s); again to stop at once")
        stopper.interrupt(number)

    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    for number in heard:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def told_to_stop() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set; the next of them does what it would have done."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def tell(number: int) -> None:
        loop.remove_signal_handler(number)
        told.set()

    heard = (signal.SIGINT, signal.SIGTERM)
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C is a KeyboardInterrupt there
        for number in heard:
            loop.add_signal_handler(number, tell, number)
    try:
        yield told
    finally:
        with contextlib.suppress(NotImplementedError):
            for number in heard:
                loop.remove_signal_handler(number)


def has_hung_up(stopper: Stopper) -> bool:
    """Whether the terminal has gone, so that nothing can be shown."""
    return HANGUP is not None and stopper.signal == HANGUP
