"""A benchmark's own scores of a run: how they are headed, and which of them say more than accuracy and domains do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.evaluation.labels import adapter_of

TOLD_ELSEWHERE = ("coverage", "tie_credit")  # beside the accuracy, and in the settings
UNJUDGED_ARE_WRONG = "pairs that are not judged yet count as wrong here"


def has_official_rule(metrics: Mapping[str, Any]) -> bool:
    """Whether somebody other than us has said how this data is to be scored."""
    adapter = adapter_of(metrics)
    return adapter is None or adapter.ruled


def chance_in_words(metrics: Mapping[str, Any]) -> str:
    """Say what guessing scores by the benchmark's own rule, where that is not one half; else nothing."""
    adapter = adapter_of(metrics)
    return "" if adapter is None else adapter.chance


def own_scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores to show: no table that repeats the domains, no coverage, no setting.

    Where there is no official rule, none that repeats the accuracy either. The texts among them (`rule`) are kept
    where any score is.
    """
    scores = {name: value for name, value in (metrics.get("official") or {}).items() if name not in TOLD_ELSEWHERE}
    domains = {name: _rounded(row.get("accuracy")) for name, row in (metrics.get("by_domain") or {}).items()}
    accuracy = None if has_official_rule(metrics) else metrics.get("accuracy")
    told = {name: value for name, value in scores.items() if not _repeats(value, accuracy, domains)}
    return told if any(not isinstance(value, str | bool) for value in told.values()) else {}


def _repeats(value: Any, accuracy: float | None, domains: Mapping[str, float | None]) -> bool:
    """Whether a score is empty or the accuracy, or a table of scores is empty or that of the domains."""
    if isinstance(value, Mapping):
        return not value or {name: _rounded(score) for name, score in value.items()} == domains
    return value is None or (accuracy is not None and _rounded(value) == _rounded(accuracy))


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
