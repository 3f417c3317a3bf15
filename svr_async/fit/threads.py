"""Run blocks of work in a few threads; results keep the order of the blocks, so sums repeat to the bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Block = TypeVar("Block")
Result = TypeVar("Result")

MOST = 8  # threads; more would wait for memory


def in_threads(function: Callable[[Block], Result], blocks: Iterable[Block]) -> list[Result]:
    """Return `function(block)` for each block, in order; SciPy's sparse products and NumPy release the interpreter."""
    blocks = list(blocks)
    workers = min(MOST, len(blocks), processors())
    if workers < 2:
        return [function(block) for block in blocks]
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(function, blocks))


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rows_of(count: int, block: int) -> list[slice]:
    """Cut `count` rows into blocks of at most `block` rows; at least one block."""
    return [slice(first, min(first + block, count)) for first in range(0, max(1, count), block)]
