"""The coordinator of a run on a cluster, an actor: it keeps the ledger, and the pieces of work until they are lent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from svr_async.evaluation.running.cluster.ledger import Ledger, Word
from svr_async.evaluation.running.cluster.outbox import Rows

Piece = tuple[int, list[int], Rows]
"""A piece of work: its number, the places of its pairs, and what of their replies is known."""


class Coordinator:
    """Keeps the ledger of a run. All that it knows, the workers and the driver say again to the next one."""

    def __init__(self, job: bytes) -> None:
        told = orjson.loads(job)
        self._ledger = Ledger(
            told["workers"],
            calls=told["calls"],
            usd=told["usd"],
            gone=(int(told["gone"][0]), float(told["gone"][1])),
            took_over=None if told["first"] else time.monotonic(),
        )
        for number in told["out"]:
            self._ledger.forget(number)
        self._pieces: dict[int, Piece] = {}
        self._over = False

    async def hear(self, number: int, word: bytes) -> tuple[bytes, Piece | None]:
        """Take a worker's word; return what it is lent, as JSON, and the piece itself where it is lent one."""
        loan = self._ledger.hear(number, Word(**orjson.loads(word)), time.monotonic())
        if loan is None:
            return b'{"gone":true}', None
        told = {"gone": False, "part": loan.part, "calls": loan.calls, "usd": loan.usd, "over": self._over}
        return orjson.dumps(told), None if loan.piece is None else self._pieces.pop(loan.piece)

    async def supply(self, pieces: Sequence[Piece]) -> None:
        """Add pieces of work."""
        self._pieces |= {piece[0]: piece for piece in pieces}
        self._ledger.supply(piece[0] for piece in pieces)

    async def look(self) -> bytes:
        """Return, as JSON, which pieces wait, which are held by whom, and which workers are silent."""
        now = time.monotonic()
        held: dict[str, Any] = {str(number): sorted(pieces) for number, pieces in self._ledger.held.items()}
        settled, silent = self._ledger.settled(now), self._ledger.silent(now)
        return orjson.dumps({"ready": self._ledger.ready, "held": held, "silent": silent, "settled": settled})

    async def forget(self, number: int) -> tuple[int, float]:
        """Give up a worker; return what it had drawn of the caps."""
        return self._ledger.forget(number)

    async def finish(self) -> None:
        """Tell all workers, at their next word, that there is nothing more to do."""
        self._over = True
