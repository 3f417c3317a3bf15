"""What the cache still lacks of a run: which pairs have to be asked about, and what of their replies is there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from svr_async.engine.request import Request
from svr_async.errors import SvrError
from svr_async.evaluation.run import Evaluation, judge_pair
from svr_async.evaluation.running.bench import Bench, evaluation_of, open_bench
from svr_async.evaluation.running.cluster.outbox import Rows, rows_of
from svr_async.evaluation.running.prepared import Prepared


@dataclass(slots=True)
class Lacking:
    """Goes through pairs with the cache alone, one after the other.

    `whole` are the places of those that lack nothing, `hits` how many replies each judge has for them.
    """

    bench: Bench
    evaluation: Evaluation
    whole: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    _asked: list[bytes] = field(default_factory=list)
    _missing: int = 0

    async def look(self, places: Sequence[int]) -> tuple[list[int], Rows]:
        """Return the places of the pairs that lack a reply, and the rows that there are for them."""
        left: list[int] = []
        known: list[bytes] = []
        for engine in self.evaluation.engines:
            engine.reload_failures()
        for place in places:
            self._asked, self._missing, before = [], 0, self._hits()
            with contextlib.suppress(SvrError):  # a worker meets it too, and says so
                await judge_pair(self.evaluation, self.evaluation.pairs[place])
                if not self._missing:
                    self._note(place, before)
                    continue
            left.append(place)
            known += self._asked
        return left, rows_of(self.evaluation.engines[0].cache, list(dict.fromkeys(known)))

    def _hits(self) -> list[int]:
        return [0 if judge.engine is None else judge.engine.stats().cache_hits for judge in self.bench.judges]

    def _note(self, place: int, before: list[int]) -> None:
        self.whole.append(place)
        more = [now - then for now, then in zip(self._hits(), before, strict=True)]
        self.hits = [one + other for one, other in zip(self.hits or [0] * len(more), more, strict=True)]

    def _ask(self, request: Request) -> None:
        self._asked.append(request.key)

    def _miss(self, _: object) -> None:
        self._missing += 1

    def listen(self) -> None:
        """Hear what the engines are asked, and what they do not find."""
        for engine in self.evaluation.engines:
            engine.on_asked, engine.on_missing = self._ask, self._miss


@contextlib.asynccontextmanager
async def looking_for_gaps(run: Prepared) -> AsyncIterator[Lacking]:
    """Open the judges of a run on the cache alone: nothing is sent."""
    limits = replace(run.settings.limits, offline=True, max_calls=None, budget=None)
    run = replace(run, settings=replace(run.settings, limits=limits))
    bench = await open_bench(run)
    try:
        found = Lacking(bench, evaluation_of(run, bench))
        found.listen()
        yield found
    finally:
        await bench.close()
