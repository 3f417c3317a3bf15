"""Caps and rates of a run that machines lend each other: each begins with its part, and leaves what it does not need.

A machine that has judged its shard puts what is left of its calls and dollars into a purse on the server, once a day,
from which the others draw; while only some of the shards are being judged, those divide the rates that all have in the
settings. A server that is lost lends nothing: each machine then keeps to its own part, so that no cap is ever exceeded.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from svr_async.engine.money import Budget
from svr_async.engine.shared.link import Link, LostError, RefusedError
from svr_async.engine.shared.scripts import DRAW, PREFIX, PRESENT, PUT

BEAT_S = 1.0
GONE_S = 5.0  # a machine that gives no sign for so long is not counted
KEPT_S = 24 * 3600
MICRO = 1_000_000  # dollars are counted in millionths
DRAWS = 8  # a machine draws an eighth of its own part at a time


class Paced(Protocol):
    """What keeps to rates that can be more or less for a while: an engine."""

    def scale_rates(self, times: float) -> None:
        """Let so many times the rates of the settings leave."""


@dataclass(slots=True, kw_only=True)
class Lender:
    """The purse of a run, and how many machines are at it. `share` is which shard of how many this one judges."""

    link: Link
    run: bytes
    share: tuple[int, int]
    calls: int | None
    usd: float | None
    finished: bool = False
    _drawn: dict[bytes, int] = field(default_factory=dict)
    _token: str = field(default_factory=lambda: secrets.token_hex(8))
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def machines(self) -> int:
        """How many shards the run has."""
        return self.share[1]

    async def borrow(self, budget: Budget) -> None:
        """Draw from the purse what a budget is short of; nothing where there is none, or no server."""
        async with self._lock:
            if budget.short and budget.max_calls is not None and self.calls is not None:
                budget.max_calls += await self._draw(b"calls", self.calls)
            if budget.short and budget.max_usd is not None and self.usd is not None:
                budget.max_usd += await self._draw(b"usd", int(self.usd * MICRO)) / MICRO

    async def _draw(self, what: bytes, part: int) -> int:
        """Draw a little of what others have left; never more in all than the parts of all others."""
        wanted = min(math.ceil(part / DRAWS), part * (self.machines - 1) - self._drawn.get(what, 0))
        try:
            got = await self.link.send("EVAL", DRAW, 1, self._key(what), wanted)
        except (LostError, RefusedError):
            return 0
        if type(got) is not int or not 0 <= got <= wanted:
            return 0
        self._drawn[what] = self._drawn.get(what, 0) + got
        return got

    async def leave(self, budget: Budget) -> None:
        """Put what is left of the caps into the purse, where the shard is judged to its end, and be gone."""
        calls, usd = budget.left
        left = {b"calls": calls or 0, b"usd": int((usd or 0.0) * MICRO)} if self.finished else {}
        sent = [self.link.send("ZREM", self._key(b"here"), self._token)]
        for what, amount in left.items():
            once = self._key(b"%s:%d" % (what, self.share[0]))
            sent.append(self.link.send("EVAL", PUT, 2, self._key(what), once, amount, KEPT_S))
        await asyncio.gather(*sent, return_exceptions=True)

    async def pace(self, paced: Sequence[Paced]) -> None:
        """Divide the rates among the machines that are at the run, for as long as this is not cancelled."""
        while True:
            here = await self._count()
            for one in paced:
                one.scale_rates(self.machines / here)
            await asyncio.sleep(BEAT_S)

    async def _count(self) -> int:
        """Say that this machine is there; return how many are, or all where nobody can tell."""
        now = time.time()
        try:
            here = await self.link.send("EVAL", PRESENT, 1, self._key(b"here"), now, self._token, now - GONE_S, KEPT_S)
        except (LostError, RefusedError):
            return self.machines
        return here if type(here) is int and 1 <= here <= self.machines else self.machines

    def _key(self, what: bytes) -> bytes:
        return PREFIX + b"l:" + self.run + b":" + what


@contextlib.asynccontextmanager
async def lending(
    url: str | None, run: str, share: tuple[int, int], budget: Budget, paced: Sequence[Paced]
) -> AsyncIterator[Lender | None]:
    """Lend and borrow while the shard of a run is judged; None without a server, or for a run in one piece.

    Whoever enters says by `finished` that the shard is judged to its end.
    """
    if url is None or share[1] == 1 or not paced:
        yield None
        return
    link = Link(url, lambda _: None)  # that the server is lost, the engines tell
    lender = Lender(link=link, run=run.encode(), share=share, calls=budget.max_calls, usd=budget.max_usd)
    budget.lender, pacing = lender, asyncio.create_task(lender.pace(paced))
    try:
        yield lender
    finally:
        budget.lender = None
        pacing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pacing
        await lender.leave(budget)
        await link.close()
