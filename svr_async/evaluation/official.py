"""A benchmark's own scores of a run: how they are headed, and which of them say more than accuracy and domains do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.evaluation.labels import adapter_of

UNJUDGED_ARE_WRONG = "pairs that are not judged yet count as wrong here"


def has_official_rule(metrics: Mapping[str, Any]) -> bool:
    """Whether somebody other than us has said how this data is to be scored."""
    adapter = adapter_of(metrics)
    return adapter is None or adapter.ruled


def own_scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores to show; where there is no official rule, without those that only repeat accuracy or domains.

    The texts among them (`rule`) are kept where any score is.
    """
    scores = dict(metrics.get("official") or {})
    if has_official_rule(metrics):
        return scores
    domains = {name: row.get("accuracy") for name, row in (metrics.get("by_domain") or {}).items()}
    told = {name: value for name, value in scores.items() if not _repeats(value, metrics.get("accuracy"), domains)}
    return told if any(not isinstance(value, str) for value in told.values()) else {}


def _repeats(value: Any, accuracy: float | None, domains: Mapping[str, float | None]) -> bool:
    """Whether a score, or a table of scores, is empty, the accuracy, or that of each domain."""
    if isinstance(value, Mapping):
        return not value or {name: _rounded(score) for name, score in value.items()} == domains
    return bool(_rounded(value) == accuracy)


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
