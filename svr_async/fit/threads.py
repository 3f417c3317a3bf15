"""Work on blocks of rows in a few threads, with results in the order of the blocks, so that sums repeat to the bit.

Much of the work is many short calls that let the interpreter go. A thread gets it back when its holder pauses, by
default after 5 ms; while threads of here are at work, turns are as short as the calls.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Block = TypeVar("Block")
Result = TypeVar("Result")

MOST = 8  # threads; more would wait for memory
TURN = 2e-5  # seconds that a thread keeps the interpreter while others want it


def in_threads(function: Callable[[Block], Result], blocks: Iterable[Block]) -> list[Result]:
    """Return `function(block)` for each block, in order; SciPy's sparse products and NumPy run side by side."""
    blocks = list(blocks)
    workers = min(MOST, len(blocks), processors())
    if workers < 2:
        return [function(block) for block in blocks]
    with _TURNS.short(), ThreadPoolExecutor(workers) as threads:
        return list(threads.map(function, blocks))


def side_by_side(*jobs: Callable[[], Any]) -> list[Any]:
    """Return the results of a few jobs of different kinds, in order."""
    return in_threads(lambda job: job(), jobs)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rows_of(count: int, block: int) -> list[slice]:
    """Cut `count` rows into blocks of at most `block`, one at least."""
    return [slice(first, min(first + block, count)) for first in range(0, max(1, count), block)]


class _Turns:
    """How long a thread keeps the interpreter: short from the first who asks for it to the last who is done."""

    def __init__(self) -> None:
        self._lock, self._users, self._usual = threading.Lock(), 0, 0.0

    @contextmanager
    def short(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(TURN, self._usual))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._usual)


_TURNS = _Turns()
