"""A set of cache keys that may grow to hundreds of millions: 8 bytes of each key in open-addressed tables.

A Python set of the keys takes some 130 bytes each and stands still for seconds while it grows; here it is 12 to 24, and
one of 256 small tables grows at a time. Two keys that agree in 8 of their 32 bytes would be taken for one: of a hundred
million keys, that happens to one pair in a run of two thousand.
"""

from __future__ import annotations

import struct
from array import array

SHARDS = 256
_EIGHT_BYTES = struct.Struct("<8xQ").unpack_from
_FIRST_SLOTS = 16


class SeenKeys:
    """Keys (digests of at least 16 bytes) that have been added."""

    __slots__ = ("_counts", "_tables")

    def __init__(self) -> None:
        self._tables = [array("Q", bytes(8 * _FIRST_SLOTS)) for _ in range(SHARDS)]
        self._counts = [0] * SHARDS

    def __len__(self) -> int:
        return sum(self._counts)

    def __contains__(self, key: bytes) -> bool:
        table = self._tables[key[0]]
        return bool(table[_slot(table, _EIGHT_BYTES(key)[0] or 1)])

    def add(self, key: bytes) -> bool:
        """Add a key; return whether it is new."""
        shard = key[0]
        table, mark = self._tables[shard], _EIGHT_BYTES(key)[0] or 1  # 0 is an empty slot
        slot = _slot(table, mark)
        if table[slot]:
            return False
        table[slot] = mark
        self._counts[shard] += 1
        if 3 * self._counts[shard] > 2 * len(table):
            self._tables[shard] = _grown(table)
        return True


def _slot(table: array[int], mark: int) -> int:
    """Return where in a table a mark is, or the empty slot where it would be."""
    last = len(table) - 1
    slot = mark & last
    while (held := table[slot]) and held != mark:
        slot = (slot + 1) & last
    return slot


def _grown(table: array[int]) -> array[int]:
    larger = array("Q", bytes(2 * 8 * len(table)))
    for mark in table:
        if mark:
            larger[_slot(larger, mark)] = mark
    return larger
