"""A run: every pair judged by a method, whatever happens on the way, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from svr_async.engine.engine import Engine
from svr_async.engine.flow import bounded_map
from svr_async.engine.lane import LaneStoppedError
from svr_async.errors import BudgetError, SvrError
from svr_async.evaluation.items import Item, build_item
from svr_async.evaluation.orders import OrderPlan, OrderPolicy
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, average, halved
from svr_async.scoring.methods import Method
from svr_async.vocabulary.pair import Order, PreferencePair, present

DRAIN_AFTER_SIGNAL_S = 10.0
DRAIN_AFTER_ERROR_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What to run: pairs, a method, a judge, orders; `engine` is None for judges that send nothing."""

    pairs: Sequence[PreferencePair]
    method: Method
    judge: Judge
    orders: OrderPlan = field(default_factory=OrderPlan)
    engine: Engine | None = None
    workers: int = 64


@dataclass(slots=True)
class Stopper:
    """Why a run ends before its end: the first error or signal. Waiting calls are turned away, others may finish."""

    engine: Engine | None = None
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
            paid = isinstance(error, BudgetError)  # calls under way will be billed, so their answers are waited for
            self._stop(DRAIN_AFTER_SIGNAL_S if paid else DRAIN_AFTER_ERROR_S)

    def interrupt(self, number: int) -> None:
        """Stop because of a signal."""
        if not self.stopped:
            self.signal = number
            self._stop(DRAIN_AFTER_SIGNAL_S)

    def within(self, limit: asyncio.Timeout) -> None:
        """Use this timeout to bound what is still under way after a stop."""
        self._limit = limit

    def _stop(self, drain_s: float) -> None:
        if self.engine is not None:
            self.engine.stop()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + drain_s)


async def run_evaluation(
    evaluation: Evaluation, stopper: Stopper, *, on_item: Callable[[Item], None] = lambda _: None
) -> list[Item | None]:
    """Judge every pair; return items in the order of the pairs, None for those that a stop left unjudged.

    A failed item is an item with its outcome. What ends the run is kept in `stopper`; what is paid for is in the memo.
    """
    stopper.engine = evaluation.engine
    items: list[Item | None] = [None] * len(evaluation.pairs)

    async def work(pair: PreferencePair) -> Item | None:
        return await _judge_or_stop(evaluation, pair, stopper)

    pairs = (pair for pair in evaluation.pairs if not stopper.stopped)
    try:
        async with asyncio.timeout(None) as limit:
            stopper.within(limit)
            async with aclosing(bounded_map(work, pairs, workers=evaluation.workers)) as done:
                async for index, item in done:
                    items[index] = item
                    if item is not None:
                        on_item(item)
    except TimeoutError:
        if not stopper.stopped:  # not the end of a drain, but a bug somewhere below
            raise
    return items


async def _judge_or_stop(evaluation: Evaluation, pair: PreferencePair, stopper: Stopper) -> Item | None:
    if stopper.stopped:
        return None
    try:
        return await judge_pair(evaluation, pair)
    except SvrError as error:
        stopper.fail(error)
    except LaneStoppedError:
        if evaluation.engine is not None and evaluation.engine.fatal is not None:
            stopper.fail(evaluation.engine.fatal)
    return None


async def judge_pair(evaluation: Evaluation, pair: PreferencePair) -> Item:
    """Judge one pair in each order that the plan asks for; the first decides unless the policy averages them."""
    orders = evaluation.orders.orders(pair)
    shown = [(await _decide(evaluation, pair, order)).in_data_order() for order in orders]
    if evaluation.orders.policy is OrderPolicy.BOTH:
        rows = [halved(decision) for decision in shown]
        return build_item(pair, average(shown), order="both", shown=shown, rows=rows)
    return build_item(pair, shown[0], order=orders[0].value, shown=shown, rows=shown[:1])


async def _decide(evaluation: Evaluation, pair: PreferencePair, order: Order) -> Decision:
    presentation = present(pair, order)
    return await evaluation.method.decide(evaluation.judge, presentation, pair.rubrics)
