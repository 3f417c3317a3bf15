"""Rows with a list of responses and a score or rank for each, as UltraFeedback's: the best against the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.adapters.columns import LIST_COLUMNS
from svr_async.adapters.fields import Fields
from svr_async.adapters.labels import as_number

_TEXTS = ("response", "answer", "completion", "output", "text", "content")
_SCORES = ("fine_grained_score", "fine-grained_score", "score", "rating", "reward", "overall_score")
_RANKS = ("rank", "ranking")
_LISTED = {"scores": False, "ratings": False, "rewards": False, "ranks": True, "rankings": True}


def best_and_worst(fields: Fields, *, lower: bool | None) -> tuple[str, str] | None:
    """Return the best and the worst of a list of scored responses, two empty texts for a tie; None where there is none.

    `lower`: less is better; None leaves it to the name, of which a rank's says so. RowError for a missing score.
    """
    found = scored_responses(fields)
    return None if found is None else _ends(*found, lower)


def scored_responses(fields: Fields) -> tuple[list[tuple[float, str]], bool] | None:
    """Return (number, text) of each listed response, and whether they are ranks, of which less is better.

    None where a row lists no responses with numbers. RowError for a missing number.
    """
    for column in LIST_COLUMNS:
        listed = fields.row.values.get(column)
        if isinstance(listed, list) and listed:
            found = _inside(fields, column, listed) or _beside(fields, listed)
            if found is not None:
                return found
    return None


def text_key(response: Mapping[str, Any]) -> str:
    """Return under which name an object holds a response's text, or an empty text."""
    return next((key for key in _TEXTS if isinstance(response.get(key), str)), "")


def _inside(fields: Fields, column: str, listed: Sequence[Any]) -> tuple[list[tuple[float, str]], bool] | None:
    """Return responses that are objects with a text and a score."""
    first = listed[0]
    if not isinstance(first, Mapping):
        return None
    text = text_key(first)
    score = next((key for key in (*_SCORES, *_RANKS) if key in first), "")
    if not text or not score:
        return None
    scored = []
    for one in listed:
        number = as_number(one.get(score)) if isinstance(one, Mapping) else None
        if number is None or not isinstance(one.get(text), str):
            raise fields.unfit(column, f"objects with {text} and a number in {score}", one, within=True)
        scored.append((number, str(one[text])))
    return scored, score in _RANKS


def _beside(fields: Fields, listed: Sequence[Any]) -> tuple[list[tuple[float, str]], bool] | None:
    """Return responses that are texts, with a list of scores in another column."""
    name = next((one for one in _LISTED if isinstance(fields.row.values.get(one), list)), "")
    if not name or not all(isinstance(one, str) for one in listed):
        return None
    numbers = [as_number(one) for one in fields.value(name)]
    told = [number for number in numbers if number is not None]
    if len(told) != len(listed) or len(told) != len(numbers):
        raise fields.unfit(name, f"{len(listed)} numbers", fields.value(name))
    return list(zip(told, listed, strict=True)), _LISTED[name]


def _ends(scored: list[tuple[float, str]], is_rank: bool, lower: bool | None) -> tuple[str, str]:
    less = is_rank if lower is None else lower
    low, high = min(scored, key=lambda one: one[0]), max(scored, key=lambda one: one[0])
    if low[0] == high[0]:
        return "", ""
    return (low[1], high[1]) if less else (high[1], low[1])
