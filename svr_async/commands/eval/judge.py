"""Which judge the flags of `svr eval` name: settled first, opened later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.commands.eval.flags import EvalFlags
from svr_async.judges import opening
from svr_async.judges.opening import OpenJudge
from svr_async.judges.spec import RULES, JudgeSpec
from svr_async.scoring.methods.contract import Method
from svr_async.vocabulary.pair import PreferencePair

if TYPE_CHECKING:
    from svr_async.engine.money import Budget
    from svr_async.judges.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePlan:
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


def plan_judge(flags: EvalFlags, method: Method) -> JudgePlan:
    """Settle which judge is meant, without opening it; a content-blind method needs none."""
    if not method.facts.asks_judge:
        return JudgePlan(spec=JudgeSpec.parse(RULES), name="none")
    spec = JudgeSpec.parse(flags.judge, base_url=flags.base_url)
    if spec.profile is None:
        return JudgePlan(spec=spec, name=spec.name, recording=_digest_of(spec.recording))
    from svr_async.judges.templates import load_templates  # noqa: PLC0415  (offline judges need none)

    return JudgePlan(spec=spec, name=spec.name, prompts=load_templates(flags.limits.prompts).digests)


def _digest_of(recording: Path | None) -> str:
    return "" if recording is None or not recording.is_file() else hashlib.sha256(recording.read_bytes()).hexdigest()


def open_judge(
    flags: EvalFlags,
    plan: JudgePlan,
    pairs: Sequence[PreferencePair],
    folder: Path,
    *,
    budget: Budget | None = None,
    judges: int = 1,
) -> OpenJudge:
    """Open the judge; an endpoint's final failures are kept in the run folder.

    The `judges` of one run share a budget, and the files that a process may open.
    """
    limits = replace(flags.limits, failures=folder / "failures.jsonl")
    prompts = {} if plan.spec.recording is None else {pair.id: pair.prompt for pair in pairs}
    return opening.open_judge(plan.spec, limits, prompts=prompts, budget=budget, engines=judges)
