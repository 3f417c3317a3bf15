"""Who of a run's workers holds what: pieces of work, a part of the rates, and of the caps. Pure: no Ray, no clock.

Whoever keeps a ledger may be killed, and another begins anew. So nothing counts but what the workers say, again and
again, that they hold; a new ledger lends nothing before all of them have spoken, or had the time to.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

LEASE_S = 30.0  # a worker that has said nothing for so long is given up; it gives up itself as well
PART_S = 5.0  # how long a part of the rates may be used before it is lent anew
DRAWS = 8  # a worker draws an eighth of its even part of a cap at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a worker says of itself: the pieces it holds, what it has drawn so far, and what it would like to have.

    `life` counts how often the worker was started: what an earlier one says late is not heard.
    """

    life: int
    held: Sequence[int] = ()
    calls: int = 0
    usd: float = 0.0
    part: float = 0.0
    wants_work: bool = False
    wants_calls: bool = False
    wants_usd: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """What a worker is lent: a piece or None, its part of the rates (0: it has to wait), calls and dollars."""

    piece: int | None = None
    part: float = 0.0
    calls: int = 0
    usd: float = 0.0


@dataclass(slots=True)
class _Slot:
    life: int = -1
    heard_at: float | None = None
    held: set[int] = field(default_factory=set)
    part: float = 0.0
    part_until: float = float("-inf")
    calls: int = 0
    usd: float = 0.0
    out: bool = False


class Ledger:
    """The books of a run with so many workers.

    `calls` and `usd` are the caps of the whole run, None for none; `gone` is what workers that are over had drawn;
    `took_over` is when an earlier ledger was lost, None for the first.
    """

    def __init__(
        self,
        count: int,
        *,
        calls: int | None = None,
        usd: float | None = None,
        gone: tuple[int, float] = (0, 0.0),
        took_over: float | None = None,
    ) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self._calls, self._usd = calls, usd
        self._gone_calls, self._gone_usd = gone
        self._took_over = took_over
        self._ready: deque[int] = deque()

    def supply(self, pieces: Iterable[int]) -> None:
        """Add pieces of work that nobody holds."""
        self._ready += pieces

    def hear(self, number: int, word: Word, now: float) -> Loan | None:
        """Take what a worker says, and lend it what it wants; None where it is not to go on."""
        slot = self._slots[number]
        if word.life < slot.life or (slot.out and word.life == slot.life):
            return None
        if word.life > slot.life:
            self.forget(number)
        slot.life, slot.heard_at, slot.held, slot.out = word.life, now, set(word.held), False
        slot.calls, slot.usd = word.calls, word.usd
        if not self.settled(now):
            slot.part, slot.part_until = max(slot.part, word.part), max(slot.part_until, now + PART_S)
            return Loan(part=word.part)
        piece = self._lend_piece(slot) if word.wants_work else None
        calls = self._lend_calls(slot) if word.wants_calls else 0
        usd = self._lend_usd(slot) if word.wants_usd else 0.0
        return Loan(piece=piece, part=self._lend_part(slot, now), calls=calls, usd=usd)

    def settled(self, now: float) -> bool:
        """Whether all that an earlier ledger has lent is known or over: until then nothing is lent."""
        if self._took_over is None or now - self._took_over >= LEASE_S:
            return True
        return all(slot.out or slot.heard_at is not None for slot in self._slots)

    def silent(self, now: float) -> list[int]:
        """Return the workers that have been silent for the time of a lease; not those that are yet to begin."""
        return [number for number, slot in enumerate(self._slots) if not slot.out and self._is_silent(slot, now)]

    def _is_silent(self, slot: _Slot, now: float) -> bool:
        last = self._took_over if slot.heard_at is None else slot.heard_at
        return last is not None and now - last >= LEASE_S

    def forget(self, number: int) -> tuple[int, float]:
        """Give up a worker: what it held is nobody's, its part is lent to others. Return what it had drawn."""
        slot = self._slots[number]
        drawn = slot.calls, slot.usd
        self._gone_calls, self._gone_usd = self._gone_calls + drawn[0], self._gone_usd + drawn[1]
        slot.out, slot.held, slot.calls, slot.usd = True, set(), 0, 0.0
        return drawn

    @property
    def ready(self) -> tuple[int, ...]:
        """The pieces that wait for a worker."""
        return tuple(self._ready)

    @property
    def held(self) -> Mapping[int, frozenset[int]]:
        """The pieces that each worker holds."""
        return {number: frozenset(slot.held) for number, slot in enumerate(self._slots) if slot.held}

    def _lend_piece(self, slot: _Slot) -> int | None:
        """Lend a piece, unless the worker has its even part of what is left already."""
        left = len(self._ready) + sum(len(one.held) for one in self._slots)
        if not self._ready or len(slot.held) >= max(1, math.ceil(left / self._working)):
            return None
        piece = self._ready.popleft()
        slot.held.add(piece)
        return piece

    def _lend_part(self, slot: _Slot, now: float) -> float:
        """Lend an even part of the rates, and never more than nobody else may use now."""
        others = sum(self._used(one, now) for one in self._slots if one is not slot)
        slot.part, slot.part_until = min(1 / self._working, max(0.0, 1.0 - others)), now + PART_S
        return slot.part

    def _used(self, slot: _Slot, now: float) -> float:
        """Return what part a worker may use: the one that it was lent, and after that its even part of all."""
        even = 0.0 if slot.out else 1 / len(self._slots)
        return max(even, slot.part if now < slot.part_until else 0.0)

    @property
    def _working(self) -> int:
        return max(1, sum(not slot.out for slot in self._slots))

    def _lend_calls(self, slot: _Slot) -> int:
        if self._calls is None:
            return 0
        left = self._calls - self._gone_calls - sum(one.calls for one in self._slots)
        got = max(0, min(left, math.ceil(self._calls / (DRAWS * len(self._slots)))))
        slot.calls += got
        return got

    def _lend_usd(self, slot: _Slot) -> float:
        if self._usd is None:
            return 0.0
        left = self._usd - self._gone_usd - sum(one.usd for one in self._slots)
        got = max(0.0, min(left, self._usd / (DRAWS * len(self._slots))))
        slot.usd += got
        return got
