"""Which judges the flags of `svr eval` name and how they work together: settled first, opened later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svr_async.commands.eval.flags import EvalFlags
from svr_async.commands.eval.judge import JudgePlan, open_judge, plan_judge
from svr_async.engine.money import Budget
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.evaluation.costs import JudgeCost, joined
from svr_async.evaluation.orders import OrderPlan, OrderPolicy
from svr_async.evaluation.plan import Escalated, Jury, Plan, Seat
from svr_async.judges.opening import OpenJudge
from svr_async.judges.templates import load_templates
from svr_async.scoring.jury import JuryRule
from svr_async.scoring.methods.contract import Method
from svr_async.vocabulary.integrity import joined_marks
from svr_async.vocabulary.pair import PreferencePair

ENDPOINT_FLAGS = (
    "base_url",
    "concurrency",
    "processes",
    "rpm",
    "tpm",
    "timeout",
    "give_up_after",
    "budget",
    "max_calls",
    "retry_errors",
    "strict_model",
    "prompts",
    "memo",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledPlan:
    """The judges of a run, settled but not open: the first one or the jury, and whom it is escalated to."""

    jurors: tuple[JudgePlan, ...]
    senior: JudgePlan | None
    rule: JuryRule
    below: float
    audit_below: float | None

    @property
    def judges(self) -> tuple[JudgePlan, ...]:
        """All judges: first the jurors, then the one it is escalated to."""
        return self.jurors if self.senior is None else (*self.jurors, self.senior)

    @property
    def name(self) -> str:
        """A name for the run: all judges in it."""
        first = ",".join(judge.name for judge in self.jurors)
        return first if self.senior is None else f"{first}→{self.senior.name}"

    @property
    def prompts(self) -> Mapping[str, str]:
        """The digests of the prompt templates, which all judges share."""
        return next((judge.prompts for judge in self.judges if judge.prompts), {})

    def identity(self) -> dict[str, Any]:
        """Return all of the plan that can change an item; that of its judge, where it is nothing more."""
        facts = self.jurors[0].identity()
        extra: dict[str, Any] = {}
        if self.audit_below is not None:
            extra["audit_below"] = self.audit_below
        if len(self.jurors) > 1:
            extra["jury"] = [self.rule, *(judge.identity() for judge in self.jurors)]
        if self.senior is not None:
            extra["escalation"] = [self.below, self.senior.identity()]
        return facts | {"plan": extra} if extra else facts

    def words(self) -> str:
        """Say how the judges work together; nothing where there is one."""
        told = []
        if len(self.jurors) > 1:
            told.append(f"a jury, {'mean of margins' if self.rule is JuryRule.MEAN else 'by majority'}")
        if self.senior is not None:
            unsure = "for ties and pairs without a verdict"
            where = f"where |margin| is below {self.below:g}, {unsure}" if self.below else unsure
            told.append(f"then {self.senior.name} {where}")
        return "; ".join(told)


def with_plan(flags: EvalFlags) -> EvalFlags:
    """Return the flags with what some of them mean for others; UsageError where they exclude each other."""
    if flags.jury is not None and "judge" in flags.given:
        raise UsageError("--jury and --judge exclude each other", hint="--jury names all judges")
    if flags.jury is None and "jury_rule" in flags.given:
        raise UsageError(f"--jury-rule {flags.jury_rule} needs a jury", hint="--jury J1,J2,J3 names one")
    if flags.escalate_below is not None and flags.escalate_to is None:
        raise UsageError("--escalate-below needs a judge to ask", hint="--escalate-to J names it")
    if flags.audit_below is None:
        return flags
    if "order" in flags.given and flags.order != OrderPolicy.BOTH.value:
        raise UsageError(
            f"--audit-below and --order {flags.order} exclude each other",
            hint="it is about the second call of --order both",
        )
    return replace(flags, order=OrderPolicy.BOTH.value)


def order_plan(flags: EvalFlags) -> OrderPlan:
    """Return in which orders the first judges are asked."""
    return OrderPlan(policy=OrderPolicy(flags.order), audit=flags.audit, salt=flags.salt, audit_below=flags.audit_below)


def settle_judges(flags: EvalFlags, method: Method) -> SettledPlan:
    """Settle who judges; UsageError for judges that are named twice, or that a method has no use for."""
    specs = _jury_of(flags)
    if not method.facts.asks_judge and (len(specs) > 1 or flags.escalate_to or flags.audit_below):
        raise UsageError(
            f"--method {method.name} asks no judge", hint="leave --jury, --escalate-to and --audit-below out"
        )
    jurors = tuple(plan_judge(replace(flags, judge=spec), method) for spec in specs)
    senior = None if flags.escalate_to is None else plan_judge(replace(flags, judge=flags.escalate_to), method)
    settled = SettledPlan(
        jurors=jurors,
        senior=senior,
        rule=JuryRule(flags.jury_rule),
        below=flags.escalate_below or 0.0,
        audit_below=flags.audit_below,
    )
    names = [judge.name for judge in settled.judges]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise UsageError(f"the judge {again} is named twice", hint="the same judge gives the same replies")
    return settled


def _jury_of(flags: EvalFlags) -> list[str]:
    if flags.jury is None:
        return [flags.judge]
    specs = [spec.strip() for spec in flags.jury.split(",") if spec.strip()]
    if len(specs) < 2:
        raise UsageError(f"--jury {flags.jury} names fewer than two judges", hint="write them as J1,J2,J3")
    return specs


def default_judge_notes(flags: EvalFlags, settled: SettledPlan) -> tuple[str, ...]:
    """Say who judges where nobody was named, which is no model; nothing when quiet, or where no judge is asked."""
    named = flags.jury is not None or "judge" in flags.given
    if named or flags.quiet or settled.jurors[0].name != flags.judge:
        return ()
    return (f"judge {flags.judge} (offline checks, no model), as no --judge is named",)


def unused_flags(flags: EvalFlags, settled: SettledPlan) -> tuple[str, ...]:
    """Say which flags change nothing since no judge sends anything; UsageError or ConfigError for impossible values."""
    if any(judge.profile is not None for judge in settled.judges):
        return ()
    if flags.limits.prompts is not None:
        load_templates(flags.limits.prompts)
    names = [f"--{name.replace('_', '-')}" for name in ENDPOINT_FLAGS if name in flags.given]
    if not names:
        return ()
    what = "changes" if len(names) == 1 else "change"
    return (f"{', '.join(names)} {what} nothing: judge {settled.name} sends nothing",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All judges of a run, open, with the plan that they work by and the budget that they share."""

    settled: SettledPlan
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
        priced = any(judge.engine is not None and judge.engine.price is not None for judge in self.sending)
        return joined(found, self.budget.usd if priced else None)

    def costs(self) -> tuple[JudgeCost, ...]:
        """Return what each judge was asked, and its price."""
        return tuple(
            JudgeCost(
                name=plan.name,
                stats=None if judge.engine is None else judge.engine.stats(),
                price=None if judge.profile is None else judge.profile.price,
            )
            for plan, judge in zip(self.settled.judges, self.judges, strict=True)
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


async def open_bench(flags: EvalFlags, settled: SettledPlan, pairs: Sequence[PreferencePair], folder: Path) -> Bench:
    """Open all judges on one budget; those already open are closed where one cannot be."""
    budget = Budget(max_calls=flags.limits.max_calls, max_usd=flags.limits.budget)
    opened: list[OpenJudge] = []
    count = len(settled.judges)
    try:
        for one in settled.judges:
            judge = open_judge(flags, one, pairs, folder, budget=budget, judges=count)
            opened.append(judge)
    except BaseException:
        for judge in opened:
            await judge.close()
        raise
    return Bench(settled=settled, plan=_plan(flags, settled, opened), judges=tuple(opened), budget=budget)


def _plan(flags: EvalFlags, settled: SettledPlan, opened: Sequence[OpenJudge]) -> Plan:
    orders = order_plan(flags)
    several = len(settled.judges) > 1
    part = "jury" if len(settled.jurors) > 1 else "first"
    named = zip(settled.judges, opened, strict=True)
    seats = [
        Seat(judge=judge.judge, engine=judge.engine, orders=orders, name=plan.name if several else "", part=part)
        for plan, judge in named
    ]
    jurors = tuple(seats[: len(settled.jurors)])
    first: Plan = jurors[0] if len(jurors) == 1 else Jury(jurors, settled.rule)
    if settled.senior is None:
        return first
    then = replace(seats[-1], part="escalation", orders=replace(orders, audit=0.0))
    return Escalated(first=first, then=then, below=settled.below)
