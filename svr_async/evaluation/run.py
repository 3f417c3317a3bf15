"""A run: every pair judged by a method, whatever happens on the way, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

from svr_async.engine.admission.lane import LaneStoppedError
from svr_async.engine.engine import Engine
from svr_async.engine.flow import bounded_map
from svr_async.errors import BudgetError, SvrError
from svr_async.evaluation.items import Item, item_from
from svr_async.evaluation.opinions import Case, Guess, nothing_guessed
from svr_async.evaluation.orders import OrderPlan
from svr_async.evaluation.plan import Plan, Seat, engines_of
from svr_async.judges.protocol import Judge
from svr_async.scoring.methods import Method
from svr_async.vocabulary.pair import PreferencePair

DRAIN_AFTER_SIGNAL_S = 6.0  # what is left of ten seconds is for clearing up and for writing the run folder
DRAIN_AFTER_ERROR_S = 1.5
DRAIN_AFTER_BUDGET_S = 60.0  # calls under way will be billed, so there is no hurry to lose their answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What to run: pairs, a method, and a plan of who judges.

    One judge, its orders and its engine (None for judges that send nothing) may stand in the place of a plan.
    `guessed` tells which decisions are only made up, as in a dry run.
    """

    pairs: Sequence[PreferencePair]
    method: Method
    judge: Judge | None = None
    orders: OrderPlan = field(default_factory=OrderPlan)
    engine: Engine | None = None
    workers: int = 64
    plan: Plan | None = None
    guessed: Guess = nothing_guessed

    @property
    def whole_plan(self) -> Plan:
        """The plan, made of the one judge where none is given."""
        if self.plan is not None:
            return self.plan
        judge = cast("Judge", self.judge)  # None will do for a method that asks no judge
        return Seat(judge=judge, orders=self.orders, engine=self.engine)

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engines of all judges that send anything."""
        return engines_of(self.plan) if self.plan is not None else (self.engine,) if self.engine is not None else ()


@dataclass(slots=True)
class Stopper:
    """Why a run ends before its end: the first error or signal. Waiting calls are turned away, others may finish."""

    engines: tuple[Engine, ...] = ()
    error: SvrError | None = None
    signal: int = 0
    _limit: asyncio.Timeout | None = None

    @property
    def stopped(self) -> bool:
        """Whether no further pair is begun."""
        return self.error is not None or self.signal != 0

    def fail(self, error: SvrError) -> None:
        """Stop because of an error."""
        if not self.stopped:
            self.error = error
            self._stop(DRAIN_AFTER_BUDGET_S if isinstance(error, BudgetError) else DRAIN_AFTER_ERROR_S)

    def interrupt(self, number: int) -> None:
        """Stop because of a signal; where an error has stopped the run already, wait for no more answers."""
        if self.error is not None:
            self._stop(0.0)
        elif not self.signal:
            self.signal = number
            self._stop(DRAIN_AFTER_SIGNAL_S)

    def within(self, limit: asyncio.Timeout) -> None:
        """Use this timeout to bound what is still under way after a stop."""
        self._limit = limit

    def _stop(self, drain_s: float) -> None:
        for engine in self.engines:
            engine.stop()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + drain_s)


async def run_evaluation(
    evaluation: Evaluation, stopper: Stopper, *, on_item: Callable[[Item], None] = lambda _: None
) -> list[Item | None]:
    """Judge every pair; return items in the order of the pairs, None for those that a stop left unjudged.

    A failed item is an item with its outcome. What ends the run is kept in `stopper`; what is paid for is in the memo.
    """
    stopper.engines = evaluation.engines
    plan = evaluation.whole_plan
    items: list[Item | None] = [None] * len(evaluation.pairs)
    workers = max(1, min(len(evaluation.pairs), evaluation.workers))

    async def work(pair: PreferencePair) -> Item | None:
        return await _judge_or_stop(evaluation, plan, pair, stopper)

    pairs = (pair for pair in evaluation.pairs if not stopper.stopped)
    try:
        async with asyncio.timeout(None) as limit:
            stopper.within(limit)
            async with aclosing(bounded_map(work, pairs, workers=workers)) as done:
                async for index, item in done:
                    items[index] = item
                    if item is not None:
                        on_item(item)
    except TimeoutError:
        if not stopper.stopped:  # not the end of a drain, but a bug somewhere below
            raise
    return items


async def _judge_or_stop(evaluation: Evaluation, plan: Plan, pair: PreferencePair, stopper: Stopper) -> Item | None:
    if stopper.stopped:
        return None
    try:
        for engine in evaluation.engines:
            await engine.turn()
        return await judge_pair(evaluation, plan, pair)
    except SvrError as error:
        stopper.fail(error)
    except LaneStoppedError:
        fatal = next((engine.fatal for engine in evaluation.engines if engine.fatal is not None), None)
        if fatal is not None:
            stopper.fail(fatal)
    return None


async def judge_pair(evaluation: Evaluation, plan: Plan, pair: PreferencePair) -> Item:
    """Judge one pair as the plan says."""
    opinion = await plan.decide(Case(pair=pair, method=evaluation.method, guessed=evaluation.guessed))
    return item_from(pair, opinion, alone=isinstance(plan, Seat))
