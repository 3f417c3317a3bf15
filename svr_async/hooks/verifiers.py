"""A judge for verifiers (0.4): scores a rollout's reply by a bank's rubrics; only verifiers imports this file.

Its id is the name of the module that ships with this package, `svr_judge`: `judges = [{id = "svr-judge", bank = "…"}]`.
"""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from verifiers.v1.judge import judge_question, judge_response

from svr_async.errors import SvrError
from svr_async.hooks.judged import judge_alone, settings_with


class SvrJudgeConfig(vf.JudgeConfig):  # type: ignore[misc]  # verifiers is not installed where types are checked
    """What the judge of a task is told; empty fields are those of the environment, SVR_HOOK_JUDGE and its kin."""

    id: str = "svr-judge"
    judge: str | None = None
    bank: str | None = None
    top_k: int | None = None
    question_field: str = ""
    reference_field: str = ""
    view: str = "last_reply"


class SvrJudge(vf.Judge[float, SvrJudgeConfig]):  # type: ignore[misc]
    """Reward in [0, 1]: the score by the bank, or beside the task's reference 1 for better, 0.5 for a tie, 0 for worse.

    Without a verdict it raises, and verifiers tries the rollout again: no number is made up.
    """

    async def score(self, task: Any, trace: Any) -> float:
        """Return the reward of a rollout."""
        config = self.config
        settings = settings_with({"judge": config.judge, "bank": config.bank, "top_k": config.top_k})
        reference = getattr(task, config.reference_field, None) if config.reference_field else None
        question, reply = judge_question(task, config.question_field), judge_response(trace, config.view)
        found = await judge_alone(settings, question, reply, reference)
        trace.info.setdefault("svr", []).append(
            {"judge": found.judge, "margin": found.margin, "parts": dict(found.parts)}
        )
        if found.value is None:
            raise SvrError(f"no verdict: {found.outcome.value} {found.detail}".strip())
        return found.value
