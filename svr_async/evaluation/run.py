"""A run: every pair judged by a method, whatever happens on the way, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svr_async.core.pair import PreferencePair
from svr_async.engine.concurrency import ShutdownController
from svr_async.evaluation.items import Item, item_from
from svr_async.evaluation.opinions import Case, Guess, nothing_guessed
from svr_async.evaluation.plan import Plan, Seat, engines_of
from svr_async.evaluation.unread import Unread
from svr_async.scoring.methods.contract import Decider

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What to run: pairs, a method, and a plan of who judges.

    `guessed` tells which decisions are only made up, as in a dry run. `beside` are the engines of judges that the
    method asks for itself, `tallied` tells what it has asked. With `accepts_unread` a judge none of whose replies can
    be read is asked to the end.
    """

    pairs: Sequence[PreferencePair]
    method: Decider
    plan: Plan
    workers: int = 64
    guessed: Guess = nothing_guessed
    beside: tuple[CallEngine, ...] = ()
    tallied: Callable[[], Mapping[str, Any]] = dict
    accepts_unread: bool = False

    @property
    def engines(self) -> tuple[CallEngine, ...]:
        """The engines of all judges that send anything."""
        return (*engines_of(self.plan), *self.beside)

    def unread(self) -> Unread:
        """Return what says, pair by pair, whether the judges can be read at all."""
        return Unread(self.engines, accepted=self.accepts_unread)


async def run_evaluation(
    evaluation: Evaluation, shutdown: ShutdownController, *, on_item: Callable[[Item], None] = lambda _: None
) -> list[Item | None]:
    """Judge every pair; return items in the order of the pairs, None for those that a stop left unjudged."""
    items: list[Item | None] = [None] * len(evaluation.pairs)

    def keep(place: int, item: Item) -> None:
        items[place] = item
        on_item(item)

    await judge_pairs(evaluation, shutdown, keep)
    return items


async def judge_pairs(
    evaluation: Evaluation, shutdown: ShutdownController, on_item: Callable[[int, Item], None] = lambda *_: None
) -> None:
    """Judge every pair and tell each item with the place of its pair, as they come; nothing is kept here.

    A failed item is an item with its outcome. What ends the run is kept in `shutdown`; paid replies are in the cache.
    """
    shutdown.engines = evaluation.engines
    unread = evaluation.unread()

    async def work(pair: PreferencePair) -> Item:
        return await judge_pair(evaluation, pair)

    def hear(place: int, item: Item) -> None:
        on_item(place, item)
        if error := unread.note(item.outcome):
            shutdown.fail(error)

    workers = max(1, min(len(evaluation.pairs), evaluation.workers))
    await shutdown.run(work, evaluation.pairs, workers=workers, on_result=hear)


async def judge_pair(evaluation: Evaluation, pair: PreferencePair) -> Item:
    """Judge one pair as the plan says."""
    opinion = await evaluation.plan.decide(Case(pair=pair, method=evaluation.method, guessed=evaluation.guessed))
    return item_from(pair, opinion, alone=isinstance(evaluation.plan, Seat))
