"""A run: every pair is judged or has a reason, whatever happens on the way; stops keep what was judged."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rig import ask, by_turn, completion, judge_at, pairs, refusal, scripted_engine

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.core.verdict import Outcome
from svr_async.engine import concurrency as concurrency_module
from svr_async.engine.concurrency import ShutdownController
from svr_async.engine.engine import CallEngine
from svr_async.engine.failures import FailureLog
from svr_async.engine.money import Budget
from svr_async.errors import AuthError, BudgetError, RefusedError
from svr_async.evaluation.items import Item
from svr_async.evaluation.judging import Evaluation, run_evaluation
from svr_async.evaluation.plan import JudgeAssignment, OrderPolicy, Orders
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.simple import Direct, Oracle
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer

N = 12
NO_AUDIT = Orders(audit=0.0)
BAD = "I \x1b[2Jcan\nnot."


@dataclass
class Lengths:
    """A method that prefers the longer response, and notes what it was shown."""

    shown: list[Presentation] = field(default_factory=list)
    name: str = "lengths"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        self.shown.append(shown)
        margin = float(len(shown.response_a) - len(shown.response_b))
        return Decision(margin=margin, outcome=Outcome.SCORED, shown=shown.order)


@dataclass
class Asking:
    """A method that asks the engine one question a pair."""

    engine: CallEngine
    name: str = "asking"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        done = await self.engine.complete(ask(shown.pair_id, bad=(BAD,)))
        return Decision(margin=None if done.value is None else 1.0, outcome=done.outcome, shown=shown.order)


def by_one(
    *, judge: Any = None, orders: Orders | None = None, engine: CallEngine | None = None, **what: Any
) -> Evaluation:
    """Return an evaluation by one judge; a method that asks none needs none."""
    plan = JudgeAssignment(judge=judge, orders=orders or Orders())
    return Evaluation(plan=plan, engines=() if engine is None else (engine,), **what)


def lines(items: Sequence[Item | None]) -> list[bytes]:
    """Return the lines of items that are there."""
    return [item.to_line() for item in items if item is not None]


@pytest.mark.parametrize("policy", list(OrderPolicy))
async def test_items_are_in_the_order_of_the_pairs_and_of_the_data(policy: OrderPolicy) -> None:
    """Whatever was shown first, the item speaks of the data set's A and B, and the method saw no label."""
    method = Lengths()
    plan = Orders(policy=policy, audit=0.3)
    evaluation = by_one(pairs=pairs(N), method=method, orders=plan, workers=4)
    seen: list[Item] = []
    items = await run_evaluation(evaluation, ShutdownController(), on_item=seen.append)
    for pair, item in zip(pairs(N), items, strict=True):
        assert item is not None
        assert item.id == pair.id
        assert item.margin == len(pair.response_a) - len(pair.response_b)
        assert set(item.margins.values()) == {item.margin}
        assert item.order == ("both" if policy is OrderPolicy.BOTH else plan.orders(pair)[0].value)
    assert len(seen) == N
    assert len(method.shown) == sum(len(plan.orders(pair)) for pair in pairs(N))
    assert all(not hasattr(one, "chosen") for one in method.shown)


async def test_concurrency_and_faults_do_not_show_in_the_items(cache_folder: Path) -> None:
    """One worker, many workers, and an endpoint with faults: the same bytes."""
    found = []
    for number, (workers, rate) in enumerate(((1, 0.0), (8, 0.0), (64, 0.0), (8, 0.4))):
        cache = cache_folder / str(number)
        async with (
            SimServer(SimConfig(fault_rate=rate)) as sim,
            judge_at(sim.base_url, cache, concurrency=workers) as judge,
        ):
            steady = replace(judge, writer=replace(judge.writer, profile=replace(judge.writer.profile, identity="s")))
            evaluation = by_one(
                pairs=pairs(N), method=Oracle(), judge=steady, engine=judge.engine, workers=workers,
                orders=Orders(audit=0.3),
            )  # fmt: skip
            found.append(lines(await run_evaluation(evaluation, ShutdownController())))
    assert len(found[0]) == N
    assert found[0] == found[1] == found[2] == found[3]


async def test_an_error_that_ends_the_run_keeps_what_was_judged(cache_folder: Path) -> None:
    """Pairs judged before the key was refused are items; the others are None, and the shutdown has the error."""

    def answer(_: object, n: int) -> object:
        return completion("yes") if n < 5 else refusal(401, "revoked")

    async with scripted_engine(cache_folder, answer, concurrency=2) as (engine, _):
        shutdown = ShutdownController()
        evaluation = by_one(pairs=pairs(N), method=Asking(engine), engine=engine, workers=2, orders=NO_AUDIT)
        items = await run_evaluation(evaluation, shutdown)
        assert isinstance(shutdown.error, AuthError)
        assert [item is not None for item in items] == [True] * 5 + [False] * 7
        assert shutdown.stopped


async def test_a_signal_lets_calls_under_way_end(cache_folder: Path) -> None:
    """After an interrupt no pair is begun, those under way are finished and kept."""
    gate = asyncio.Event()

    async def answer() -> object:
        await gate.wait()
        return completion("yes")

    async with scripted_engine(cache_folder, lambda *_: answer(), concurrency=3) as (engine, transport):
        shutdown = ShutdownController()
        evaluation = by_one(pairs=pairs(N), method=Asking(engine), engine=engine, workers=8, orders=NO_AUDIT)
        task = asyncio.create_task(run_evaluation(evaluation, shutdown))
        while len(transport.sent) < 3:  # noqa: ASYNC110  (the script has no event for this)
            await asyncio.sleep(0.001)
        shutdown.interrupt(signal.SIGTERM)
        shutdown.interrupt(signal.SIGINT)
        gate.set()
        items = await task
        assert sum(item is not None for item in items) == 3
        assert (shutdown.signal, len(transport.sent)) == (signal.SIGTERM, 3)


@contextlib.asynccontextmanager
async def hanging_run(
    cache_folder: Path,
) -> AsyncIterator[tuple[ShutdownController, asyncio.Task[list[Item | None]], CallEngine]]:
    """Begin a run whose endpoint never answers, and wait until three calls are under way."""

    async def never() -> object:
        await asyncio.sleep(1000)
        return completion("no")

    async with scripted_engine(cache_folder, lambda *_: never(), concurrency=3) as (engine, transport):
        shutdown = ShutdownController()
        evaluation = by_one(pairs=pairs(N), method=Asking(engine), engine=engine, workers=3, orders=NO_AUDIT)
        task = asyncio.create_task(run_evaluation(evaluation, shutdown))
        while len(transport.sent) < 3:  # noqa: ASYNC110  (the script has no event for this)
            await asyncio.sleep(0.001)
        yield shutdown, task, engine


async def test_calls_that_do_not_end_are_left_after_the_drain(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that hangs holds a stopping run up for the time of the drain and no longer."""
    monkeypatch.setattr(concurrency_module, "DRAIN_AFTER_SIGNAL_S", 0.05)
    async with hanging_run(cache_folder) as (shutdown, task, engine):
        shutdown.interrupt(signal.SIGINT)
        assert await asyncio.wait_for(task, 10) == [None] * N
        assert engine.stats().in_flight == 0


async def test_at_the_budget_calls_under_way_are_waited_for(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cap stops new calls; those that were sent are paid, so their answers are not thrown away."""
    monkeypatch.setattr(concurrency_module, "DRAIN_AFTER_ERROR_S", 0.0)
    async with SimServer(SimConfig(latency_ms=50.0)) as sim:
        async with judge_at(sim.base_url, cache_folder, budget=Budget(max_calls=5), concurrency=5) as judge:
            shutdown = ShutdownController()
            evaluation = by_one(
                pairs=pairs(N), method=Direct(), judge=judge, engine=judge.engine, workers=8, orders=NO_AUDIT
            )
            items = await run_evaluation(evaluation, shutdown)
        assert isinstance(shutdown.error, BudgetError)
        assert sum(item is not None for item in items) == sim.stats()["completed"] == 5


async def test_a_failed_pair_is_an_item_with_its_reason(cache_folder: Path) -> None:
    """What could not be judged is in the list with outcome and detail, never missing."""
    async with scripted_engine(cache_folder, lambda *_: refusal(400, "bad")) as (engine, _):
        evaluation = by_one(pairs=pairs(3), method=Asking(engine), engine=engine, workers=3)
        items = await run_evaluation(evaluation, ShutdownController())
        assert [item.outcome for item in items if item is not None] == ["api_error"] * 3
        assert [item.correct for item in items if item is not None] == [False] * 3


async def test_a_judge_that_cannot_be_read_is_paid_for_twenty_pairs(cache_folder: Path, tmp_path: Path) -> None:
    """The run ends and says what came, of new pairs only; a mended judge goes on after them, as does who says so."""

    async def judged(text: str, **settings: Any) -> tuple[Any, int, int]:
        log = FailureLog(tmp_path / "failures.jsonl")
        async with scripted_engine(cache_folder, by_turn(completion(text)), failures=log) as (engine, sent):
            made = by_one(pairs=pairs(70), method=Asking(engine), engine=engine, workers=1, orders=NO_AUDIT, **settings)
            shutdown = ShutdownController()
            items = await run_evaluation(made, shutdown)
        return shutdown.error, len(items) - items.count(None), len(sent.sent)

    for before in (0, 20):  # what has failed for good is not paid for again, and is no reason to end
        error, done, calls = await judged(BAD)
        assert isinstance(error, RefusedError)
        assert f"can be read, after {calls} calls: " in str(error)
        assert 'the judge wrote "I [2Jcan not." (Your answer was bad.)' in str(error)
        assert "--min-coverage 0" in error.hint
        assert 20 <= done - before <= 22
        assert 40 <= calls <= 44
    error, done, _ = await judged(BAD, accepts_unread=True)
    assert (error, done) == (None, 70)
    (tmp_path / "failures.jsonl").unlink()
    assert await judged("good") == (None, 70, 70)
