"""Rows of different lengths in one flat array (CSR): choose, pad, cut; and blocks of rows in a few threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]
Scalar = TypeVar("Scalar", bound=np.generic)
Block = TypeVar("Block")
Result = TypeVar("Result")

MOST_THREADS = 8  # more would wait for memory


def lengths(indptr: IntArray) -> npt.NDArray[np.int64]:
    """Return the number of entries of each row."""
    return np.diff(indptr).astype(np.int64)


def row_ids(indptr: IntArray) -> npt.NDArray[np.int64]:
    """Return the row number of every entry, in order."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), lengths(indptr))


def indptr_of(counts: IntArray) -> npt.NDArray[np.int64]:
    """Return the row borders for these numbers of entries."""
    out = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def kept_indptr(indptr: IntArray, keep: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the row borders after removing all entries except `keep` (entry,)."""
    before = np.zeros(len(keep) + 1, np.int64 if len(keep) > np.iinfo(np.int32).max else np.int32)
    np.cumsum(keep, out=before[1:])
    return before[indptr].astype(np.int64)


def take_rows(indptr: IntArray, rows: IntArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | slice]:
    """Return the borders of the chosen rows and the positions of their entries in the flat arrays.

    For consecutive rows the positions are a slice, so that indexing gives a view.
    """
    counts = lengths(indptr)[rows]
    if len(rows) and bool((np.diff(rows) == 1).all()):
        return indptr_of(counts), slice(int(indptr[rows[0]]), int(indptr[rows[-1] + 1]))
    borders = indptr_of(counts)
    offsets = np.arange(borders[-1], dtype=np.int64) - np.repeat(borders[:-1], counts)
    return borders, np.repeat(np.asarray(indptr)[:-1][rows], counts) + offsets


def padded(indptr: IntArray, values: npt.NDArray[Scalar], *, fill: float, width: int) -> npt.NDArray[Scalar]:
    """Return a (rows, width) array with the entries at the left and `fill` at the right; width >= the longest row."""
    counts = lengths(indptr)
    out = np.full((len(counts), width), fill, dtype=values.dtype)
    out[np.arange(width) < counts[:, None]] = values
    return out


def pieces(indptr: IntArray, width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut every row into pieces of at most `width` entries, one at least.

    Returns the borders of the pieces in the flat arrays, and how many pieces each row has. A row of a thousand
    entries then costs its own pieces instead of widening every other row.
    """
    counts = lengths(indptr)
    per_row = np.maximum(1, -(-counts // width))
    within = np.arange(per_row.sum(), dtype=np.int64) - np.repeat(indptr_of(per_row)[:-1], per_row)
    left = np.repeat(counts, per_row) - within * width
    return indptr_of(np.clip(left, 0, width)), per_row


def in_threads(function: Callable[[Block], Result], blocks: Iterable[Block]) -> list[Result]:
    """Return `function(block)` for each block, in order; SciPy's sparse products and NumPy release the interpreter."""
    blocks = list(blocks)
    workers = min(MOST_THREADS, len(blocks), processors())
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
