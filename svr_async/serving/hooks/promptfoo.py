"""An assertion for promptfoo: `type: python`, `value: file://svr.py`, where svr.py imports `get_assert` from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.engine.concurrency import run_sync
from svr_async.errors import SvrError
from svr_async.serving.hooks.judging import judge_alone, settings_with
from svr_async.serving.pairs import number

__all__ = ["get_assert"]


def get_assert(output: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return promptfoo's grading of an output: pass, score, reason, and the score of each rubric.

    The assertion's `config` may set `judge`, `bank` and other settings over the environment's, `threshold` (0.5),
    `rubrics` with points, and `reference`: a text, or a variable of the test. Without a verdict the assertion fails and
    says so.
    """
    config, variables = dict(context.get("config") or {}), dict(context.get("vars") or {})
    reference = variables.get(config.get("reference"), config.get("reference"))
    threshold = float(config.get("threshold", 0.5))
    try:
        asked = judge_alone(
            settings_with(config), context.get("prompt") or "", output, reference, config.get("rubrics") or ()
        )
        judged = run_sync(asked)
    except SvrError as error:
        return {"pass": False, "score": 0.0, "reason": f"not judged: {error.one_line()}"}
    if judged.value is None:
        return {"pass": False, "score": 0.0, "reason": f"not judged: {judged.outcome.value} {judged.detail}".strip()}
    margin = "" if judged.margin is None else f", margin {number(judged.margin)}"
    limit = threshold if judged.margin is None else 0
    return {
        "pass": judged.value >= threshold,
        "score": judged.value,
        "reason": f"{judged.value:.2f}{margin} by {judged.judge}",
        "namedScores": dict(judged.parts),
        "componentResults": [
            {"pass": value >= limit, "score": value, "reason": rubric} for rubric, value in judged.parts.items()
        ],
    }
