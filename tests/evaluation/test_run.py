"""A run: every pair is judged or has a reason, whatever happens; stopped runs keep judged pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rig import ask, by_turn, completion, pairs, scripted_engine

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.core.verdict import Outcome
from svr_async.engine.engine import CallEngine
from svr_async.engine.failures import FailureLog
from svr_async.engine.shutdown import ShutdownController
from svr_async.errors import RefusedError
from svr_async.evaluation.items import Item
from svr_async.evaluation.judging import Evaluation, judge_pairs
from svr_async.evaluation.plan import JudgeAssignment, OrderPolicy, Orders
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision

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
    """Return an evaluation by one judge; some methods need no judge."""
    plan = JudgeAssignment(judge=judge, orders=orders or Orders())
    return Evaluation(plan=plan, engines=() if engine is None else (engine,), **what)


@pytest.mark.parametrize("policy", list(OrderPolicy))
async def test_items_are_in_the_order_of_the_pairs_and_of_the_data(policy: OrderPolicy) -> None:
    """Whatever was shown first, the item speaks of the data set's A and B, and the method saw no label."""
    method = Lengths()
    plan = Orders(policy=policy, audit=0.3)
    evaluation = by_one(pairs=pairs(N), method=method, orders=plan, workers=4)
    seen: dict[int, Item] = {}
    await judge_pairs(evaluation, ShutdownController(), seen.__setitem__)
    for place, pair in enumerate(pairs(N)):
        item = seen[place]
        assert item.id == pair.id
        assert item.margin == len(pair.response_a) - len(pair.response_b)
        assert set(item.margins.values()) == {item.margin}
        assert item.order == ("both" if policy is OrderPolicy.BOTH else plan.orders(pair)[0].value)
    assert len(seen) == N
    assert len(method.shown) == sum(len(plan.orders(pair)) for pair in pairs(N))
    assert all(not hasattr(one, "chosen") for one in method.shown)


async def test_a_judge_that_cannot_be_read_is_paid_for_twenty_pairs(cache_folder: Path, tmp_path: Path) -> None:
    """The run ends and shows a reply; only new pairs count; a repaired judge continues, or an explicit flag."""

    async def judged(text: str, **settings: Any) -> tuple[Any, int, int]:
        log = FailureLog(tmp_path / "failures.jsonl")
        async with scripted_engine(cache_folder, by_turn(completion(text)), failures=log) as (engine, sent):
            made = by_one(pairs=pairs(70), method=Asking(engine), engine=engine, workers=1, orders=NO_AUDIT, **settings)
            shutdown = ShutdownController()
            items: dict[int, Item] = {}
            await judge_pairs(made, shutdown, items.__setitem__)
        return shutdown.error, len(items), len(sent.sent)

    for before in (0, 20):  # final failures are not paid for again, and do not end the run
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
