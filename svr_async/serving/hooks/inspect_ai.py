"""A scorer for inspect_ai: `inspect score --scorer svr_async/svr`; imported by inspect_ai only, by its entry point."""

from __future__ import annotations

from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from svr_async.core.verdict import Outcome
from svr_async.errors import EndpointDownError
from svr_async.serving.hooks.judging import Judged, judge_alone, settings_with
from svr_async.serving.pairs import number

GRADER_FAILED = frozenset({Outcome.PARSE_ERROR, Outcome.REFUSAL, Outcome.TRUNCATED})
NO_RESPONSE = "no_response"


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]  # not installed for type checks
def svr(
    judge: str | None = None, bank: str | None = None, *, compare_target: bool = False, top_k: int | None = None
) -> Scorer:
    """Score a completion by the sample's rubrics, by comparison with the target (1, 0.5, 0), or by a bank in [0, 1].

    `judge` and `bank` are named as on the command line, by default by SVR_HOOK_JUDGE and SVR_HOOK_BANK. Rubrics with
    points are read from the sample's metadata `rubrics`. Without a verdict a sample is unscored, with a reason.
    """

    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        if not text.strip():
            return Score.unscored(reason=NO_RESPONSE, metadata={"outcome": NO_RESPONSE})
        settings = settings_with({"judge": judge, "bank": bank, "top_k": top_k})
        rubrics = (state.metadata or {}).get("rubrics") or ()
        try:
            reference = target.text if compare_target else None
            judged = await judge_alone(settings, state.input_text, text, reference, rubrics)
        except EndpointDownError as error:
            return Score.unscored(reason="scoring_failed", explanation=error.one_line())
        return _score(judged, text)

    return score


def _score(judged: Judged, text: str) -> Score:
    facts: dict[str, Any] = {
        "outcome": judged.outcome.value,
        "judge": judged.judge,
        "margin": judged.margin,
        "coverage": judged.coverage,
        "rubrics": dict(judged.parts),
    }
    if judged.value is None:
        reason = "grader_failed" if judged.outcome in GRADER_FAILED else "scoring_failed"
        return Score.unscored(reason=reason, answer=text, explanation=judged.detail or None, metadata=facts)
    largest = sorted(judged.parts.items(), key=lambda part: -abs(part[1]))
    reasons = "\n".join(f"{number(value)} {rubric}" for rubric, value in largest)
    return Score(value=judged.value, answer=text, explanation=f"{judged.judge}\n{reasons}", metadata=facts)
