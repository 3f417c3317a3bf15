"""A worker at work: it judges the pieces that it is lent, and tells the coordinator what it holds and wants."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import deque
from typing import Any

import orjson

from svr_async.engine.cache import Cache
from svr_async.engine.concurrency import ShutdownController
from svr_async.engine.events import Notice as EngineWord
from svr_async.engine.money import Budget
from svr_async.errors import SvrError
from svr_async.evaluation.run import Evaluation, judge_pair
from svr_async.evaluation.running.bench import Bench
from svr_async.evaluation.running.cluster.ledger import LEASE_S, PART_S, Notice
from svr_async.evaluation.running.cluster.outbox import Rows, rows_of, take_rows
from svr_async.evaluation.running.cluster.start import lost_error

BEAT_S, HUNGRY_S = 0.5, 0.05  # between two words to the coordinator: at most, and while something is wanted
PATIENCE_S = 5.0  # for its answer


class Judging:
    """The pairs that a worker has in hand. `number` is the worker's of `count`, `life` how often it was started before.

    `ended` is set when nothing more comes of it, and what it has learnt is in `done`, `kept` and `words`.
    """

    def __init__(
        self, bench: Bench, evaluation: Evaluation, coordinator: Any, *, number: int, count: int, life: int
    ) -> None:
        self.coordinator, self.shutdown, self.ended = coordinator, ShutdownController(), False
        self.drawn = (0, 0.0)  # of the caps of the run
        self.done: list[int] = []
        self.kept: deque[bytes] = deque()
        self.words: list[EngineWord] = []
        self._bench, self._evaluation, self._unread = bench, evaluation, evaluation.unread()
        self._number, self._count, self._life = number, count, life
        self._work: asyncio.Queue[int | None] = asyncio.Queue()
        self._held: dict[int, set[int]] = {}  # pieces, and their pairs that the driver does not know to be judged
        self._piece_of: dict[int, int] = {}
        self._given: set[bytes] = set()
        self._wants: set[str] = set()
        self._wake, self._answered, self._over = asyncio.Event(), asyncio.Event(), False
        self._seen_at = self._part_until = time.monotonic()
        self._part = 0.0
        self.shutdown.engines = evaluation.engines
        bench.budget.lender = self
        for engine in evaluation.engines:
            engine.tell(self.words.append)
            engine.cache.on_kept = self._keep

    @property
    def cache(self) -> Cache:
        """The cache of the worker, which its judges share."""
        return self._evaluation.engines[0].cache

    async def run(self) -> None:
        """Judge what comes, until the run is over or stops."""
        beating, lanes = asyncio.create_task(self._beat_on()), self._evaluation.workers
        try:
            await self.shutdown.run(self._lane, range(lanes), workers=lanes, on_result=lambda *_: None)
        finally:
            self._over = True
            self._wake.set()
            await beating
            self.ended = True

    def stop(self, *, quickly: bool) -> None:
        """Begin nothing more; where it is not quick, wait for what is under way."""
        if quickly:
            self.shutdown.fail(SvrError("another worker of this run has stopped it"))
        else:
            self.shutdown.interrupt(signal.SIGTERM)
        self._wake.set()

    def let_go(self, places: list[int]) -> None:
        """Hold no longer the pieces of which the driver knows every pair to be judged, these among them."""
        for place in places:
            number = self._piece_of.pop(place)
            self._held[number].discard(place)
            if not self._held[number]:
                del self._held[number]

    async def borrow(self, budget: Budget) -> None:
        """Draw of the run's caps what a budget is short of; nothing where nothing is left."""
        while budget.short and not self.shutdown.stopped:
            wants, before = {"wants_calls" if budget.left[0] == 0 else "wants_usd"}, self.drawn
            self._wants |= wants
            self._answered.clear()
            self._wake.set()
            await self._answered.wait()
            if self.drawn == before and not self._wants & wants:
                return

    async def _lane(self, _: int) -> None:
        while (place := await self._work.get()) is not None and not self.shutdown.stopped:
            for engine in self._evaluation.engines:
                await engine.turn()
            item = await judge_pair(self._evaluation, self._evaluation.pairs[place])
            self.done.append(place)
            if error := self._unread.note(item.outcome):
                self.shutdown.fail(error)

    def _keep(self, key: bytes) -> None:
        if key not in self._given:
            self.kept.append(key)

    async def _beat_on(self) -> None:
        while not self._over and not self.shutdown.stopped:
            await self._beat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), HUNGRY_S if self._is_hungry else BEAT_S)
            self._wake.clear()
        self._wants.clear()
        self._answered.set()
        for _ in range(self._evaluation.workers):
            self._work.put_nowait(None)

    @property
    def _is_hungry(self) -> bool:
        """Whether fewer pairs wait than would begin at once, if all that are under way ended now."""
        return self._work.qsize() < max(1, int(self._evaluation.workers * self._part))

    async def _beat(self) -> None:
        """Say what this worker holds and wants, and take what it is lent; a coordinator that is gone is waited for."""
        wants, now = set(self._wants), time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                told, piece = await self.coordinator.hear.remote(self._number, orjson.dumps(self._word(wants)))
        except (lost_error(), TimeoutError):
            self._go_alone(now)
            return
        loan = orjson.loads(told)
        if loan["gone"]:
            self.stop(quickly=False)  # another has taken its place
            return
        self._seen_at = now
        self._take_part(loan["part"], now + PART_S)
        self._take_caps(loan["calls"], loan["usd"], wants)
        if piece is not None:
            await self._take_piece(*piece)
        self._over = self._over or (loan["over"] and not self._held)

    def _word(self, wants: set[str]) -> Notice:
        return Notice(
            life=self._life,
            held=tuple(self._held),
            calls=self.drawn[0],
            usd=self.drawn[1],
            part=self._part,
            wants_work=self._part > 0 and self._is_hungry,
            wants_calls="wants_calls" in wants,
            wants_usd="wants_usd" in wants,
        )

    def _go_alone(self, now: float) -> None:
        """Keep to the even part of the rates once what was lent is over, and after the time of a lease give up."""
        if now >= self._part_until and self._part:
            self._take_part(1 / self._count, self._part_until)
        if now - self._seen_at >= LEASE_S:
            self.stop(quickly=False)

    def _take_part(self, part: float, until: float) -> None:
        self._part_until = until
        if part > 0 and part != self._part:
            self._part = part
            for engine in self._evaluation.engines:
                engine.take_part(part)

    def _take_caps(self, calls: int, usd: float, wants: set[str]) -> None:
        self.drawn = self.drawn[0] + calls, self.drawn[1] + usd
        budget = self._bench.budget
        budget.max_calls = None if budget.max_calls is None else self.drawn[0]
        budget.max_usd = None if budget.max_usd is None else self.drawn[1]
        self._wants -= wants
        if wants:
            self._answered.set()

    async def _take_piece(self, number: int, places: list[int], rows: Rows) -> None:
        self._given |= {key for key, _ in rows}
        await take_rows(self.cache, rows)
        self._held[number] = set(places)
        self._piece_of |= dict.fromkeys(places, number)
        for place in places:
            self._work.put_nowait(place)

    def some_kept(self, most: int) -> Rows:
        """Return replies that were kept since the last time, at most so many."""
        keys = [self.kept.popleft() for _ in range(min(most, len(self.kept)))]
        return rows_of(self.cache, keys)
