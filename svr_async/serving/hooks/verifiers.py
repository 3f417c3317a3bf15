"""A judge for verifiers (0.4), imported by verifiers only.

Its id is the module that ships with this package, `svr_judge`: `judges = [{id = "svr-judge", bank = "…"}]`.
"""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from verifiers.v1.judge import judge_question, judge_response

from svr_async.errors import SvrError
from svr_async.serving.hooks.judging import judge_alone, settings_with


class SvrJudgeConfig(vf.JudgeConfig):  # type: ignore[misc]  # verifiers is not installed for type checks
    """Configuration of a task's judge; empty fields are those of the environment (SVR_HOOK_JUDGE …)."""

    id: str = "svr-judge"
    judge: str | None = None
    bank: str | None = None
    top_k: int | None = None
    question_field: str = ""
    reference_field: str = ""
    rubrics_field: str = ""
    view: str = "last_reply"


class SvrJudge(vf.Judge[float, SvrJudgeConfig]):  # type: ignore[misc]
    """Reward by rubrics with points, by comparison with the task's reference (1, 0.5, 0), or by the bank in [0, 1].

    Without a verdict it raises, and verifiers tries the rollout again.
    """

    async def score(self, task: Any, trace: Any) -> float:
        """Return the reward of a rollout."""
        config = self.config
        settings = settings_with({"judge": config.judge, "bank": config.bank, "top_k": config.top_k})
        reference = getattr(task, config.reference_field, None) if config.reference_field else None
        rubrics = getattr(task, config.rubrics_field, None) if config.rubrics_field else None
        question, reply = judge_question(task, config.question_field), judge_response(trace, config.view)
        judged = await judge_alone(settings, question, reply, reference, rubrics or ())
        facts = {"judge": judged.judge, "margin": judged.margin, "parts": dict(judged.parts)}
        trace.info.setdefault("svr", []).append(facts)
        if judged.value is None:
            raise SvrError(f"no verdict: {judged.outcome.value} {judged.detail}".strip())
        return judged.value
