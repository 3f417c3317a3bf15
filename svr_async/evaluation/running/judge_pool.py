"""The judges of a run, open, on one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from svr_async.core.integrity import joined_marks
from svr_async.core.pair import PreferencePair
from svr_async.engine.money import Budget
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.costs import JudgeCost, joined
from svr_async.evaluation.plan import Escalated, Jury, Plan, Seat
from svr_async.evaluation.run import Evaluation
from svr_async.evaluation.running.judges import SettledJudges, orders_of
from svr_async.evaluation.running.method import rephrasing
from svr_async.evaluation.running.prepared import Prepared
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.scoring.methods.contract import Method

OFFLINE_WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePool:
    """All judges of a run, open, with the plan that they work by and the budget that they share."""

    settled: SettledJudges
    plan: Plan
    judges: tuple[OpenJudge, ...]
    budget: Budget

    @property
    def first(self) -> OpenJudge:
        """The judge that is asked first."""
        return self.judges[0]

    @property
    def sending(self) -> tuple[OpenJudge, ...]:
        """The judges behind endpoints."""
        return tuple(judge for judge in self.judges if judge.engine is not None)

    @property
    def workers(self) -> int:
        """How many pairs may be under way: enough to keep every engine busy; 0 where none of them sends."""
        return sum(judge.engine.config.workers for judge in self.sending if judge.engine is not None)

    def stats(self) -> EngineStats:
        """Return the facts of all engines as one; there has to be one."""
        found = [judge.engine.stats() for judge in self.sending if judge.engine is not None]
        known = any(stats.usd is not None for stats in found)
        return joined(found, self.budget.usd if known else None)

    def costs(self) -> tuple[JudgeCost, ...]:
        """Return what each judge was asked, and its price."""
        return tuple(
            JudgeCost(
                name=one.name,
                stats=None if judge.engine is None else judge.engine.stats(),
                price=None if judge.profile is None else judge.profile.price,
            )
            for one, judge in zip(self.settled.judges, self.judges, strict=True)
        )

    @property
    def label(self) -> str:
        """How results are labelled: the labels of all judges, and how they work together."""
        if len(self.judges) == 1:
            return self.first.label
        return f"{', '.join(judge.label for judge in self.judges)}: {self.settled.words()}"

    def facts(self) -> dict[str, Any]:
        """Return what the manifest says about the judges: never a key."""
        if len(self.judges) == 1:
            return self.first.facts()
        return {
            "name": self.settled.name,
            "label": self.label,
            "marks": sorted(joined_marks(judge.judge.marks for judge in self.judges)),
            "judges": [judge.facts() for judge in self.judges],
        }

    async def close(self) -> None:
        """Close all engines."""
        for judge in self.judges:
            await judge.close()

    def ready(self, method: Method) -> Method:
        """Return a method that asks other judges itself with those judges, open."""
        own = method.facts.own
        return (
            method if own is None else own.bind({name: self.judges[n].judge for name, n in self.settled.named.items()})
        )


async def open_judge_pool(run: Prepared) -> JudgePool:
    """Open all judges on one budget; those already open are closed where one cannot be.

    The final failures of endpoints are kept in the run folder.
    """
    limits = replace(run.settings.limits, failures=run.folder / "failures.jsonl")
    budget = Budget(max_calls=limits.max_calls, max_usd=limits.budget)
    opened: list[OpenJudge] = []
    count = len(run.judges.judges)
    try:
        for one in run.judges.judges:
            prompts = {} if one.spec.recording is None else {pair.id: pair.prompt for pair in run.record.pairs}
            opened.append(open_judge(one.spec, limits, prompts=prompts, budget=budget, engines=count))
    except BaseException:
        for judge in opened:
            await judge.close()
        raise
    return JudgePool(settled=run.judges, plan=_plan(run, opened), judges=tuple(opened), budget=budget)


def evaluation_of(run: Prepared, pool: JudgePool, pairs: Sequence[PreferencePair] | None = None) -> Evaluation:
    """Return the evaluation of a run's pairs, or of these of them, by its open judges."""
    method = rephrasing(run.method, pool.first) if run.settings.rephrase else pool.ready(run.method)
    return Evaluation(
        pairs=run.record.pairs if pairs is None else pairs,
        method=method,
        plan=pool.plan,
        workers=pool.workers or OFFLINE_WORKERS,
        beside=tuple(judge.engine for judge in pool.judges[len(pool.settled.deciding) :] if judge.engine is not None),
        tallied=dict if method.facts.own is None else method.facts.own.tallied,
        accepts_unread=run.settings.min_coverage == 0,
    )


def _plan(run: Prepared, opened: Sequence[OpenJudge]) -> Plan:
    orders, settled = orders_of(run.settings), run.judges
    several = len(settled.deciding) > 1
    part = "jury" if len(settled.jurors) > 1 else "first"
    named = zip(settled.deciding, opened, strict=False)  # those beside them decide nothing
    seats = [
        Seat(judge=judge.judge, engine=judge.engine, orders=orders, name=one.name if several else "", part=part)
        for one, judge in named
    ]
    jurors = tuple(seats[: len(settled.jurors)])
    first: Plan = jurors[0] if len(jurors) == 1 else Jury(jurors, settled.rule)
    if settled.senior is None:
        return first
    then = replace(seats[-1], part="escalation", orders=replace(orders, audit=0.0))
    return Escalated(first=first, then=then, below=settled.below)
