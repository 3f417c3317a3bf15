"""Judges pairs: the judges of a run, open on one budget, and the loop over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from svr_async.core.integrity import joined_marks
from svr_async.core.pair import PreferencePair
from svr_async.core.verdict import Outcome
from svr_async.engine.concurrency import ShutdownController
from svr_async.engine.money import Budget
from svr_async.engine.stats import EngineStats
from svr_async.errors import RefusedError
from svr_async.evaluation.items import Item, item_from
from svr_async.evaluation.metrics import JudgeCost, joined
from svr_async.evaluation.plan import Case, Escalated, Guess, JudgeAssignment, Jury, Plan, engines_of, nothing_guessed
from svr_async.evaluation.setup import PreparedRun, ResolvedJudges, orders_of, rephrasing
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.scoring.methods.contract import Decider, Method

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine


FIRST = 20


UNREAD = frozenset({Outcome.PARSE_ERROR, Outcome.TRUNCATED})


HINT = (
    "svr doctor shows what the judge answers: mend its profile or name another, then --retry-errors asks again; "
    "--min-coverage 0 goes on all the same"
)


class UnparseableReplies:
    """Whether no reply on the first twenty pairs that are done can be read. With `accepted` that ends nothing.

    A pair with any other outcome shows that the judge can be read, or that something else is wrong. What an earlier
    run found to fail costs nothing and is no reason to end: as many questions have to fail in this one.
    """

    def __init__(self, engines: Sequence[CallEngine], *, accepted: bool = False) -> None:
        self._engines = engines
        self._before = self._failed()
        self._pairs = 0
        self._open = not accepted

    def note(self, outcome: str) -> RefusedError | None:
        """Take in what became of a pair; return the error that ends the run, where it is to end."""
        self._pairs += 1
        self._open = self._open and outcome in UNREAD
        if not self._open or self._pairs < FIRST or self._failed() < self._before + FIRST:
            return None
        return RefusedError(self._told(), hint=HINT)

    def _failed(self) -> int:
        return sum(engine.stats().failed for engine in self._engines)

    def _told(self) -> str:
        text, why = next((engine.unread for engine in self._engines if engine.unread[1]), ("", ""))
        wrote = f'the judge wrote "{text}"' if text else "the judge wrote nothing"
        sent = sum(engine.stats().sent for engine in self._engines)
        return f"no reply on the first {self._pairs} pairs can be read, after {sent} calls: {wrote} ({why})"


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

    def unread(self) -> UnparseableReplies:
        """Return what says, pair by pair, whether the judges can be read at all."""
        return UnparseableReplies(self.engines, accepted=self.accepts_unread)


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
    judged = await evaluation.plan.decide(Case(pair=pair, method=evaluation.method, guessed=evaluation.guessed))
    return item_from(pair, judged, alone=isinstance(evaluation.plan, JudgeAssignment))


OFFLINE_WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePool:
    """All judges of a run, open, with the plan that they work by and the budget that they share."""

    settled: ResolvedJudges
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


async def open_judge_pool(run: PreparedRun) -> JudgePool:
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


def evaluation_of(run: PreparedRun, pool: JudgePool, pairs: Sequence[PreferencePair] | None = None) -> Evaluation:
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


def _plan(run: PreparedRun, opened: Sequence[OpenJudge]) -> Plan:
    orders, settled = orders_of(run.settings), run.judges
    several = len(settled.deciding) > 1
    part = "jury" if len(settled.jurors) > 1 else "first"
    named = zip(settled.deciding, opened, strict=False)  # those beside them decide nothing
    assignments = [
        JudgeAssignment(
            judge=judge.judge, engine=judge.engine, orders=orders, name=one.name if several else "", part=part
        )
        for one, judge in named
    ]
    jurors = tuple(assignments[: len(settled.jurors)])
    first: Plan = jurors[0] if len(jurors) == 1 else Jury(jurors, settled.rule)
    if settled.senior is None:
        return first
    then = replace(assignments[-1], part="escalation", orders=replace(orders, audit=0.0))
    return Escalated(first=first, then=then, below=settled.below)
