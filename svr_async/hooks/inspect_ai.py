"""A scorer for inspect_ai: `--scorer svr_async/svr`; only inspect_ai imports this file, by its entry point."""

from __future__ import annotations

from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from svr_async.core.verdict import Outcome
from svr_async.errors import EndpointDownError
from svr_async.hooks.judged import Judged, judge_alone, settings_with
from svr_async.serving.views import number

REASONS = {
    Outcome.PARSE_ERROR: "grader_failed",
    Outcome.REFUSAL: "grader_failed",
    Outcome.TRUNCATED: "grader_failed",
    Outcome.API_ERROR: "scoring_failed",
    Outcome.CONTEXT_TOO_LONG: "scoring_failed",
    Outcome.INVALID_INPUT: "scoring_failed",
}
NO_RESPONSE = "no_response"


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]  # not installed where types are checked
def svr(
    judge: str | None = None, bank: str | None = None, *, beside_target: bool = False, top_k: int | None = None
) -> Scorer:
    """Score a sample's completion by a bank's rubrics in [0, 1], or beside the target: 1 better, 0.5 tie, 0 worse.

    `judge` and `bank` are named as on the command line, by default by SVR_HOOK_JUDGE and SVR_HOOK_BANK. Without a
    verdict a sample is unscored, with a reason of inspect_ai's and the outcome in `metadata`; it is in no metric.
    """

    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        if not text.strip():
            return Score.unscored(reason=NO_RESPONSE, metadata={"outcome": NO_RESPONSE})
        settings = settings_with({"judge": judge, "bank": bank, "top_k": top_k})
        try:
            found = await judge_alone(settings, state.input_text, text, target.text if beside_target else None)
        except EndpointDownError as error:
            return Score.unscored(reason="scoring_failed", explanation=error.one_line())
        return _score(found, text)

    return score


def _score(found: Judged, text: str) -> Score:
    facts: dict[str, Any] = {
        "outcome": found.outcome.value,
        "judge": found.judge,
        "margin": found.margin,
        "coverage": found.coverage,
        "rubrics": dict(found.parts),
    }
    if found.value is None:
        reason = REASONS.get(found.outcome, found.outcome.value)
        return Score.unscored(reason=reason, answer=text, explanation=found.detail or None, metadata=facts)
    largest = sorted(found.parts.items(), key=lambda part: -abs(part[1]))
    why = "\n".join(f"{number(value)} {rubric}" for rubric, value in largest)
    return Score(value=found.value, answer=text, explanation=f"{found.judge}\n{why}", metadata=facts)
