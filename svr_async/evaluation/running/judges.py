"""Which judges settings name and how they work together: settled here, opened by `judge_pool.py`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.errors import UsageError
from svr_async.evaluation.orders import OrderPolicy, Orders
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.judges.limits import refuse_one_price
from svr_async.judges.open_judge import RULES, JudgeSpec
from svr_async.scoring.jury import JuryRule
from svr_async.scoring.methods.contract import Method

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledJudge:
    """A judge that is settled but not open: its name in the run, and the digests of its prompts or its recording."""

    spec: JudgeSpec
    name: str
    prompts: Mapping[str, str] = field(default_factory=dict)
    recording: str = ""

    @property
    def profile(self) -> Profile | None:
        """The profile of a judge behind an endpoint."""
        return self.spec.profile

    def identity(self) -> dict[str, Any]:
        """Return all of the judge that can change an item."""
        facts: dict[str, Any] = {"judge": self.spec.text, "prompts": dict(self.prompts), "recording": self.recording}
        if self.profile is not None:
            facts["endpoint"] = [self.profile.identity, self.profile.model, self.profile.max_tokens]
            facts["params"] = [self.profile.params(structured=flag) for flag in (False, True)]
        return facts


def settle_judge(settings: EvalSettings, text: str, method: Method) -> SettledJudge:
    """Settle which judge is meant, without opening it; a content-blind method needs none."""
    if not method.facts.asks_judge:
        return SettledJudge(spec=JudgeSpec.parse(RULES), name="none")
    spec = JudgeSpec.parse(text, base_url=settings.base_url).priced(settings.limits.price)
    if spec.profile is None:
        return SettledJudge(spec=spec, name=spec.name, recording=_digest_of(spec.recording))
    from svr_async.judges.templates import load_templates

    own = method.facts.own
    names = (*spec.prompts, *(own.templates if own is not None and spec.writes else ()))
    return SettledJudge(spec=spec, name=spec.name, prompts=load_templates(settings.limits.prompts, names).digests)


def _digest_of(recording: Path | None) -> str:
    return "" if recording is None or not recording.is_file() else hashlib.sha256(recording.read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledJudges:
    """The judges of a run, settled but not open: the first one or the jury, and whom it is escalated to.

    `beside` are those that a method asks for itself; `named` has the place of each name of them among all.
    """

    jurors: tuple[SettledJudge, ...]
    senior: SettledJudge | None
    rule: JuryRule
    below: float
    audit_below: float | None
    beside: tuple[SettledJudge, ...] = ()
    named: Mapping[str, int] = field(default_factory=dict)

    @property
    def deciding(self) -> tuple[SettledJudge, ...]:
        """The judges that decide: first the jurors, then the one it is escalated to."""
        return self.jurors if self.senior is None else (*self.jurors, self.senior)

    @property
    def judges(self) -> tuple[SettledJudge, ...]:
        """All judges: those that decide, then those beside them."""
        return (*self.deciding, *self.beside)

    @property
    def name(self) -> str:
        """A name for the run: all judges in it."""
        first = ",".join(judge.name for judge in self.jurors)
        return first if self.senior is None else f"{first}→{self.senior.name}"

    @property
    def prompts(self) -> Mapping[str, str]:
        """The digests of the prompt templates, which all judges share, but that decision judges have their own."""
        return {name: digest for judge in self.judges for name, digest in judge.prompts.items()}

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
        if self.beside:
            extra["beside"] = [judge.identity() for judge in self.beside]
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
        if self.beside:
            told.append(f"with {', '.join(judge.name for judge in self.beside)} beside")
        return "; ".join(told)


def orders_of(settings: EvalSettings) -> Orders:
    """Return in which orders the first judges are asked."""
    return Orders(
        policy=OrderPolicy(settings.order), audit=settings.audit, salt=settings.salt, audit_below=settings.audit_below
    )


def settle_judges(settings: EvalSettings, method: Method) -> SettledJudges:
    """Settle who judges; UsageError for judges that are named twice, or that a method has no use for."""
    specs = _jury_of(settings)
    if not method.facts.asks_judge and (len(specs) > 1 or settings.escalate_to or settings.audit_below):
        raise UsageError(
            f"--method {method.name} asks no judge", hint="leave --jury, --escalate-to and --audit-below out"
        )
    jurors = tuple(settle_judge(settings, spec, method) for spec in specs)
    senior = None if settings.escalate_to is None else settle_judge(settings, settings.escalate_to, method)
    settled = SettledJudges(
        jurors=jurors,
        senior=senior,
        rule=JuryRule(settings.jury_rule),
        below=settings.escalate_below or 0.0,
        audit_below=settings.audit_below,
    )
    settled = _with_others(settled, settings, method)
    names = [judge.name for judge in settled.judges]
    refuse_one_price(settings.limits.price, [judge.name for judge in settled.judges if judge.profile is not None])
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise UsageError(f"the judge {again} is named twice", hint="the same judge gives the same replies")
    return settled


def _with_others(settled: SettledJudges, settings: EvalSettings, method: Method) -> SettledJudges:
    """Add the judges that a method asks for itself, those of the run taken for what they are named again.

    UsageError where one of all these writes nothing, for a method that asks in words of its own.
    """
    own = method.facts.own
    if own is None:
        return settled
    places = {judge.spec.text: place for place, judge in enumerate(settled.deciding)}
    beside: list[SettledJudge] = []
    for text in own.others:
        if text not in places:
            places[text] = len(settled.deciding) + len(beside)
            beside.append(settle_judge(replace(settings, base_url=""), text, method))
    found = replace(settled, beside=tuple(beside), named={text: places[text] for text in own.others})
    silent = next((judge for judge in found.judges if not judge.spec.writes), None)
    if silent is not None:
        hint = "name text judges of `svr judges`, or URL#model"
        raise UsageError(
            f"--method {method.name} has the judge write, and {silent.spec.text} writes nothing", hint=hint
        )
    return found


def _jury_of(settings: EvalSettings) -> list[str]:
    if settings.jury is None:
        return [settings.judge]
    specs = [spec.strip() for spec in settings.jury.split(",") if spec.strip()]
    if len(specs) < 2:
        raise UsageError(f"--jury {settings.jury} names fewer than two judges", hint="write them as J1,J2,J3")
    return specs
