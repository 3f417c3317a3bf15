"""The work of a run on a cluster: what of it waits, is lent and is done, told to a coordinator that may be lost."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Collection
from typing import Any

import orjson

from svr_async.errors import UsageError
from svr_async.evaluation.running.cluster.coordinator import Coordinator, Piece
from svr_async.evaluation.running.cluster.lacking import Lacking
from svr_async.evaluation.running.cluster.outbox import Rows
from svr_async.evaluation.running.cluster.start import actor, kill, lost_error, own_node
from svr_async.evaluation.running.processes import TOLD, SharedRun, hear_report, report_of
from svr_async.judges.shares import MOST_SHARES, all_places

PIECES = 8  # of work, for each worker: small, so that none is left with much at the end
AHEAD = 3  # pieces that wait at the coordinator, for each worker
LOOK_S = 0.1
TRIES, PAUSE_S = 5, 1.0  # to start a coordinator
IN_CACHE = (-1, 0)  # in the place of a worker, for pairs that lack nothing


class Supply:
    """Lends the pieces of a run through a coordinator, and what the cache lacks of those that come back.

    `name` begins the names of all actors of the run, `workers` are those that judge now, by their numbers, and `drawn`
    what each has drawn of the caps.
    """

    def __init__(self, shared: SharedRun, gaps: Lacking, count: int) -> None:
        self._shared, self._gaps, self._count = shared, gaps, count
        self.workers: dict[int, Any] = {}
        self.drawn: dict[int, tuple[int, float]] = {}
        self.opened = asyncio.Event()
        self.coordinator: Any = None
        self._gone = (0, 0.0)
        self.name, self._generation = f"svr-{shared.run.record.digest}-{secrets.token_hex(4)}", 0
        prompts = [pair.prompt for pair in shared.run.record.pairs]
        pieces = max(1, min(MOST_SHARES, count * PIECES, len(set(prompts))))
        self._todo = deque(enumerate(all_places(prompts, pieces)))
        self._lent: dict[int, set[int]] = {}
        self._looked: set[int] = set()  # pieces whose pairs may have replies in the cache
        self._blank = False

    async def keep_on(self, at_work: Collection[int], *, blank: bool) -> None:
        """Lend pieces as long as anybody is at work; `blank` is a cache without any reply."""
        self._blank = blank
        await self._start()
        self.opened.set()
        while at_work and self.coordinator is not None:
            try:
                await self._answer(orjson.loads(await self.coordinator.look.remote()))
            except lost_error():
                self._shared.listener.note("the coordinator of the workers was lost; another one goes on")
                await self._start()
            await asyncio.sleep(LOOK_S)
        kill(self.coordinator)

    async def forget(self, number: int) -> tuple[int, float]:
        """Give up a worker, whose pieces are then lent to others; return what it had drawn of the caps."""
        drawn = self.drawn.pop(number, (0, 0.0))
        with contextlib.suppress(lost_error()):
            calls, usd = await self.coordinator.forget.remote(number)
            drawn = max(drawn[0], calls), max(drawn[1], usd)
        self._gone = self._gone[0] + drawn[0], self._gone[1] + drawn[1]
        return drawn

    async def _start(self) -> None:
        """Start a coordinator, and tell all workers; where none can be started, the run stops."""
        for _ in range(TRIES):
            self._generation += 1
            name = f"{self.name}-coordinator-{self._generation}"
            with contextlib.suppress(lost_error()):
                self.coordinator = actor(Coordinator, own_node(), self._job(), name=name, elsewhere=True)
                await self.coordinator.look.remote()
                for worker in list(self.workers.values()):
                    worker.follow.remote(self.coordinator)
                return
            await asyncio.sleep(PAUSE_S)
        self.coordinator = None
        hint = "ray status looks at the cluster; the same command goes on"
        self._shared.shutdown.fail(UsageError("--ray: no coordinator can be started on the cluster", hint=hint))

    def _job(self) -> bytes:
        limits = self._shared.run.settings.limits
        first = self._generation == 1
        out = [] if first else sorted(set(range(self._count)) - set(self.workers))
        job = {"workers": self._count, "calls": limits.max_calls, "usd": limits.budget, "gone": self._gone}
        return orjson.dumps(job | {"out": out, "first": first})

    async def _answer(self, seen: dict[str, Any]) -> None:
        """Kill who is silent, take back what nobody holds, and add pieces while few wait."""
        for number in seen["silent"]:
            kill(self.workers.get(number))
        if not seen["settled"] or self._shared.shutdown.stopped:
            return
        done = self._shared.bench.told.done
        self._lent = {number: places for number, places in self._lent.items() if not places <= done}
        known = {*seen["ready"], *(number for held in seen["held"].values() for number in held)}
        for number in [number for number in self._lent if number not in known]:
            self._looked.add(number)
            self._todo.appendleft((number, sorted(self._lent.pop(number) - done)))
        room = AHEAD * self._count - len(seen["ready"])
        pieces = await self._pieces(room)
        if pieces:
            await self.coordinator.supply.remote(pieces)
        elif not self._todo and not self._lent:
            await self.coordinator.finish.remote()

    async def _pieces(self, most: int) -> list[Piece]:
        """Return pieces of which the cache lacks something, with what it has."""
        found: list[Piece] = []
        while self._todo and len(found) < most:
            number, places = self._todo.popleft()
            rows: Rows = []
            left = places
            if not self._blank or number in self._looked:
                left, rows = await self._gaps.look(places)
                self._tell_whole()
            if left:
                found.append((number, left, rows))
                self._lent[number] = set(left)
        return found

    def _tell_whole(self) -> None:
        """Count the pairs that lack nothing, as if a worker had read them."""
        done, self._gaps.whole = self._gaps.whole, []
        nothing = dict.fromkeys(TOLD, 0) | {"usd": 0.0, "damaged": 0, "last_failure": ""}
        judges = [nothing | {"cache_hits": hits} for hits in self._gaps.hits]
        message = report_of(None, done, None, ended=False) | {"judges": judges}
        hear_report(self._shared, IN_CACHE, message, range(len(self._shared.run.record.pairs)))
