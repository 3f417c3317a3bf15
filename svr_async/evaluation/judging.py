"""Judges pairs: the judges of a run, open on one budget, and the loop over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from svr_async.core.integrity import joined_marks
from svr_async.core.pair import PreferencePair
from svr_async.core.verdict import Outcome
from svr_async.engine.money import Budget
from svr_async.engine.shutdown import ShutdownController
from svr_async.engine.stats import EngineStats
from svr_async.errors import RefusedError
from svr_async.evaluation.items import Item, item_from
from svr_async.evaluation.metrics import Cost, joined
from svr_async.evaluation.plan import Escalated, Guess, JudgeAssignment, Jury, OrderPolicy, Orders, Plan
from svr_async.evaluation.setup import PreparedRun, ResolvedJudges
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.scoring.methods.registry import Method

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine


FIRST = 20
UNREAD = frozenset({Outcome.PARSE_ERROR, Outcome.TRUNCATED})
HINT = (
    "svr doctor shows the judge's replies: fix its profile or name another, then --retry-errors asks again; "
    "--min-coverage 0 continues anyway"
)
OFFLINE_WORKERS = 8


class UnparseableReplies:
    """Ends a run whose first twenty pairs have no reply that can be parsed, unless `accepted`.

    Any other outcome shows that replies can be parsed, or that something else is wrong. Failures of an earlier run do
    not count: as many requests must fail in this one.
    """

    def __init__(self, engines: Sequence[CallEngine], *, accepted: bool = False) -> None:
        self._engines = engines
        self._before = self._failed()
        self._pairs = 0
        self._open = not accepted

    def note(self, outcome: str) -> RefusedError | None:
        """Count a judged pair; return the error that ends the run, if any."""
        self._pairs += 1
        self._open = self._open and outcome in UNREAD
        if not self._open or self._pairs < FIRST or self._failed() < self._before + FIRST:
            return None
        text, why = next((engine.unread for engine in self._engines if engine.unread[1]), ("", ""))
        wrote = f'the judge wrote "{text}"' if text else "the judge wrote nothing"
        sent = sum(engine.stats().sent for engine in self._engines)
        message = f"no reply on the first {self._pairs} pairs can be read, after {sent} calls: {wrote} ({why})"
        return RefusedError(message, hint=HINT)

    def _failed(self) -> int:
        return sum(engine.stats().failed for engine in self._engines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Pairs, a method, and the plan of who judges them.

    `engines` are those of all judges that send anything. `guessed` says which decisions are placeholders, as in a dry
    run. `tallied` returns the method's counts. `accepts_unread` continues although no reply can be parsed.
    """

    pairs: Sequence[PreferencePair]
    method: Method
    plan: Plan
    workers: int = 64
    guessed: Guess = lambda _: False
    engines: tuple[CallEngine, ...] = ()
    tallied: Callable[[], Mapping[str, Any]] = dict
    accepts_unread: bool = False


async def judge_pairs(
    evaluation: Evaluation, shutdown: ShutdownController, on_item: Callable[[int, Item], None] = lambda *_: None
) -> None:
    """Judge every pair and pass each item on with the index of its pair, as they are done.

    A failed pair is an item with its outcome. `shutdown` stores the error that ends the run; paid replies are cached.
    """
    shutdown.engines = evaluation.engines
    unread = UnparseableReplies(evaluation.engines, accepted=evaluation.accepts_unread)

    async def work(pair: PreferencePair) -> Item:
        judged = await evaluation.plan.decide(pair, evaluation.method, evaluation.guessed)
        return item_from(pair, judged, alone=isinstance(evaluation.plan, JudgeAssignment))

    def note(place: int, item: Item) -> None:
        on_item(place, item)
        if error := unread.note(item.outcome):
            shutdown.fail(error)

    workers = max(1, min(len(evaluation.pairs), evaluation.workers))
    await shutdown.run(work, evaluation.pairs, workers=workers, on_result=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePool:
    """The open judges of a run, with their plan and their shared budget."""

    resolved: ResolvedJudges
    plan: Plan
    judges: tuple[OpenJudge, ...]
    budget: Budget

    @property
    def engines(self) -> tuple[CallEngine, ...]:
        """The engines of the judges behind endpoints."""
        return tuple(judge.engine for judge in self.judges if judge.engine is not None)

    def stats(self) -> EngineStats:
        """Return the joined facts of all engines; there must be at least one."""
        found = [engine.stats() for engine in self.engines]
        known = any(stats.usd is not None for stats in found)
        return joined(found, self.budget.usd if known else None)

    def costs(self) -> dict[str, Cost]:
        """Return each judge's counts and price."""
        return {
            one.name: (
                None if judge.engine is None else judge.engine.stats(),
                None if judge.profile is None else judge.profile.price,
            )
            for one, judge in zip(self.resolved.judges, self.judges, strict=True)
        }

    @property
    def label(self) -> str:
        """The label of results: those of all judges, and how they work together."""
        if len(self.judges) == 1:
            return self.judges[0].label
        return f"{', '.join(judge.label for judge in self.judges)}: {self.resolved.description()}"

    def facts(self) -> dict[str, Any]:
        """Return the manifest's facts about the judges, without keys."""
        if len(self.judges) == 1:
            return self.judges[0].facts()
        return {
            "name": self.resolved.name,
            "label": self.label,
            "marks": sorted(joined_marks(judge.judge.marks for judge in self.judges)),
            "judges": [judge.facts() for judge in self.judges],
        }

    async def close(self) -> None:
        """Close all engines."""
        for judge in self.judges:
            await judge.close()


async def open_judge_pool(run: PreparedRun) -> JudgePool:
    """Open all judges on one budget; if one cannot be opened, the others are closed.

    Final failures of endpoints are stored in the run folder.
    """
    limits = replace(run.settings.limits, failures=run.folder / "failures.jsonl")
    budget = limits.new_budget()
    opened: list[OpenJudge] = []
    count = len(run.judges.judges)
    try:
        for one in run.judges.judges:
            prompts = {} if one.spec.recording is None else {pair.id: pair.prompt for pair in run.pairs}
            opened.append(open_judge(one.spec, limits, prompts=prompts, budget=budget, engines=count))
    except BaseException:
        for judge in opened:
            await judge.close()
        raise
    return JudgePool(resolved=run.judges, plan=_plan(run, opened), judges=tuple(opened), budget=budget)


def evaluation_of(run: PreparedRun, pool: JudgePool, pairs: Sequence[PreferencePair] | None = None) -> Evaluation:
    """Return the evaluation of a run's pairs, or of some of them, by its open judges."""
    method, own = run.method, run.method.facts.own
    if run.settings.rephrase:
        from svr_async.scoring.methods.svr import Svr, rephraser_of

        assert isinstance(method, Svr)
        method = replace(method, rephraser=rephraser_of(pool.judges[0].author, pool.judges[0].judge.name))
    elif own is not None:
        method = own.bind({name: pool.judges[place].judge for name, place in pool.resolved.places.items()})
    own = method.facts.own
    return Evaluation(
        pairs=run.pairs if pairs is None else pairs,
        method=method,
        plan=pool.plan,
        workers=sum(engine.config.workers for engine in pool.engines) or OFFLINE_WORKERS,
        engines=pool.engines,
        tallied=dict if own is None else own.tallied,
        accepts_unread=run.settings.min_coverage == 0,
    )


def _plan(run: PreparedRun, opened: Sequence[OpenJudge]) -> Plan:
    settings, resolved = run.settings, run.judges
    policy, below = OrderPolicy(settings.order), settings.audit_below
    orders = Orders(policy=policy, audit=settings.audit, salt=settings.salt, audit_below=below)
    several = len(resolved.deciding) > 1
    part = "jury" if len(resolved.jurors) > 1 else "first"
    assignments = [
        JudgeAssignment(judge=judge.judge, orders=orders, name=one.name if several else "", part=part)
        for one, judge in zip(resolved.deciding, opened, strict=False)  # the method's own judges decide nothing
    ]
    jurors = tuple(assignments[: len(resolved.jurors)])
    first: Plan = jurors[0] if len(jurors) == 1 else Jury(jurors, resolved.rule)
    if resolved.senior is None:
        return first
    then = replace(assignments[-1], part="escalation", orders=replace(orders, audit=0.0))
    return Escalated(first=first, then=then, below=resolved.below)
