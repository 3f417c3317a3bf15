"""An assertion for promptfoo: `type: python`, `value: file://svr.py`, where svr.py imports `get_assert` from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.engine.concurrency import run_sync
from svr_async.errors import SvrError
from svr_async.hooks.judged import Judged, judge_alone, settings_with
from svr_async.serving.views import number

__all__ = ["get_assert"]
THRESHOLD = 0.5


def get_assert(output: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return promptfoo's grading of an output: pass, score in [0, 1], reason, and each rubric's own score.

    The assertion's `config` may name `judge`, `bank` and other settings over the environment's, `threshold` (0.5), and
    `reference`: a text, or the name of a variable of the test, beside which the output is judged and must not be worse.
    Without a verdict the assertion fails and says why; its score 0 is promptfoo's way to say so.
    """
    config = dict(context.get("config") or {})
    given = dict(context.get("vars") or {})
    reference = given.get(config.get("reference"), config.get("reference"))
    threshold = float(config.get("threshold", THRESHOLD))
    try:
        found = run_sync(judge_alone(settings_with(config), context.get("prompt") or "", output, reference))
    except SvrError as error:
        return {"pass": False, "score": 0.0, "reason": f"not judged: {error.one_line()}"}
    return _graded(found, threshold)


def _graded(found: Judged, threshold: float) -> dict[str, Any]:
    if found.value is None:
        return {"pass": False, "score": 0.0, "reason": f"not judged: {found.outcome.value} {found.detail}".strip()}
    margin = "" if found.margin is None else f", margin {number(found.margin)}"
    return {
        "pass": found.value >= threshold,
        "score": found.value,
        "reason": f"{found.value:.2f}{margin} by {found.judge}",
        "namedScores": dict(found.parts),
        "componentResults": [
            {"pass": value >= (threshold if found.margin is None else 0), "score": value, "reason": rubric}
            for rubric, value in found.parts.items()
        ],
    }
