"""Which judge the flags of `svr eval` name: settled first, opened later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.commands.eval.flags import EvalFlags
from svr_async.commands.eval.shares import limits_of
from svr_async.errors import UsageError
from svr_async.judges.opening import OpenJudge, needs_endpoint, open_offline_judge
from svr_async.scoring.methods.contract import Method
from svr_async.vocabulary.pair import PreferencePair

if TYPE_CHECKING:
    from svr_async.engine.config import EngineConfig
    from svr_async.engine.money import Budget
    from svr_async.judges.profiles import Profile

MOST_CONCURRENCY = 8192
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePlan:
    """A judge that is settled but not open: its name, and for an endpoint its profile and prompt digests."""

    spec: str
    name: str
    profile: Profile | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    recording: str = ""

    def identity(self) -> dict[str, Any]:
        """Return all of the judge that can change an item."""
        facts: dict[str, Any] = {"judge": self.spec, "prompts": dict(self.prompts), "recording": self.recording}
        if self.profile is not None:
            facts["endpoint"] = [self.profile.identity, self.profile.model, self.profile.max_tokens]
            facts["params"] = [self.profile.params(structured=flag) for flag in (False, True)]
        return facts


def plan_judge(flags: EvalFlags, method: Method) -> JudgePlan:
    """Settle which judge is meant, without opening it; a content-blind method needs none."""
    if not method.facts.asks_judge:
        return JudgePlan(spec="rules", name="none")
    spec = flags.judge
    if not needs_endpoint(spec):
        return JudgePlan(spec=spec, name=spec if spec == "rules" else "recorded", recording=_digest_of(spec))
    from svr_async.judges.profiles import find_profile  # noqa: PLC0415  (offline judges need none)
    from svr_async.judges.templates import load_templates  # noqa: PLC0415

    profile = find_profile(spec.removesuffix("+rules"), base_url=flags.base_url)
    name = profile.name + ("+rules" if spec.endswith("+rules") else "")
    return JudgePlan(spec=spec, name=name, profile=profile, prompts=load_templates(flags.prompts).digests)


def _digest_of(spec: str) -> str:
    path = Path(spec.removeprefix("recorded:"))
    return hashlib.sha256(path.read_bytes()).hexdigest() if spec != "rules" and path.is_file() else ""


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
    if plan.profile is None:
        return open_offline_judge(plan.spec, {pair.id: pair.prompt for pair in pairs})
    from svr_async.engine.failures import FailureLog  # noqa: PLC0415
    from svr_async.engine.money import Budget  # noqa: PLC0415
    from svr_async.judges.opening import EndpointOptions, open_endpoint_judge  # noqa: PLC0415

    options = EndpointOptions(
        memo=flags.memo,
        config=_engine_config(flags, plan.profile),
        budget=budget or Budget(max_calls=flags.max_calls, max_usd=flags.budget),
        failures=FailureLog(folder / "failures.jsonl", forget=flags.retry_errors),
        prompts=flags.prompts,
        timeout_s=flags.timeout_s,
        engines=judges,
    )
    if flags.budget is not None and plan.profile.price is None:
        raise UsageError(
            f"--budget needs a price, and judge {plan.name} has none",
            hint="add price = [in, cached, out] in judges.toml",
        )
    return open_endpoint_judge(plan.spec, plan.profile, options)


def _engine_config(flags: EvalFlags, profile: Profile) -> EngineConfig:
    """Return how an engine asks: the flags before the profile, and this process's share of the limits."""
    from svr_async.engine.config import EngineConfig  # noqa: PLC0415  (offline judges need none)

    whole = EngineConfig(
        concurrency=parse_concurrency(flags.concurrency, profile.concurrency),
        adaptive=flags.concurrency == AUTO,
        rpm=flags.rpm or profile.rpm,
        tpm=flags.tpm or profile.tpm,
        give_up_after_s=flags.give_up_after_s,
        offline=flags.offline,
        strict_model=flags.strict_model,
        dry_run=flags.dry_run,
    )
    return whole if flags.share == (0, 1) else limits_of(whole, flags.share)


def parse_concurrency(text: str, default: int) -> int:
    """Read --concurrency; auto finds out how many calls pay, up to the profile's number."""
    if text == AUTO:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CONCURRENCY:
        raise UsageError(f"--concurrency {text} is not auto or a number", hint=f"1 to {MOST_CONCURRENCY}")
    return int(text)
