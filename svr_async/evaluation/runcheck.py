"""The types that a run folder's JSON must have, as tables; unknown keys pass, so that newer runs can be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from svr_async.core.validation import short
from svr_async.core.verdict import is_number, is_whole

Test = Callable[[Any], bool]
Schema = Mapping[str, tuple[Test, str]]
"""Key → a test of its value and words for what passes. Keys that are not listed pass."""
_MARK = re.compile("[a-z][a-z_]{0,39}")
_KEY = re.compile("(?:[0-9a-f]{2}){1,64}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(is_number(end) for end in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number_table(value: Any) -> bool:
    return _is_object(value) and all(entry is None or is_number(entry) for entry in value.values())


def _is_margins(value: Any) -> bool:
    return _is_object(value) and set(value) <= {"ab", "ba"} and all(map(is_number, value.values()))


def _is_domain_table(value: Any) -> bool:
    return _is_object(value) and all(_is_domain(entry) for entry in value.values())


def _is_domain(value: Any) -> bool:
    return (
        _is_object(value)
        and is_whole(value.get("n"))
        and _optional(is_number)(value.get("accuracy"))
        and _optional(_is_interval)(value.get("ci95"))
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_judge(value: Any) -> bool:
    """Whether it is an object whose marks, where it has any, are a list of short words."""
    return _is_object(value) and _optional(_is_marks)(value.get("marks"))


def _is_marks(value: Any) -> bool:
    return _is_list(value) and all(_is_text(mark) and _MARK.fullmatch(mark) for mark in value)


def _is_texts(value: Any) -> bool:
    return _is_list(value) and all(map(_is_text, value))


def _is_keys(value: Any) -> bool:
    return _is_texts(value) and all(map(_KEY.fullmatch, value))


def _is_chances(value: Any) -> bool:
    return _is_list(value) and len(value) == 3 and all(map(is_number, value))


def _one_of(*allowed: Any) -> Test:
    texts = frozenset(entry for entry in allowed if isinstance(entry, str))
    others = [entry for entry in allowed if not isinstance(entry, str)]
    return lambda value: value in texts if isinstance(value, str) else any(value is entry for entry in others)


def _optional(test: Test) -> Test:
    return lambda value: value is None or test(value)


METRICS: Schema = {
    "benchmark": (_is_text, "a text"),
    "method": (_is_text, "a text"),
    "judge": (_is_text, "a text"),
    "judge_label": (_optional(_is_text), "a text"),
    "bank": (_optional(_is_text), "a text or null"),
    "n_total": (is_whole, "a count"),
    "n_scored": (is_whole, "a count"),
    "coverage": (_optional(is_number), "a number"),
    "accuracy": (_optional(is_number), "a number"),
    "accuracy_scored": (_optional(is_number), "a number"),
    "accuracy_half_credit": (_optional(is_number), "a number"),
    "accuracy_bounds": (_optional(_is_interval), "[low, high]"),
    "accuracy_ci95": (_optional(_is_interval), "[low, high]"),
    "accuracy_ci95_unit": (_one_of("pair", "prompt", None), "pair or prompt"),
    "by_domain": (_optional(_is_domain_table), "{name: {n, accuracy, ci95}}"),
    "official": (_optional(_is_object), "an object"),
    "outcomes": (_optional(_is_number_table), "{name: count}"),
    "order": (_optional(_is_object), "an object"),
    "calls": (_optional(_is_number_table), "{name: count}"),
    "usage": (_optional(_is_number_table), "{name: count}"),
    "cost_usd": (_optional(is_number), "a number or null"),
    "wall_s": (_optional(is_number), "a number"),
    "notes": (_optional(_is_list), "a list"),
    "cache": (_optional(_is_number_table), "{name: number}"),
    "votes": (_optional(_is_number_table), "{name: number}"),
    "judges": (_optional(_is_object), "an object"),
}
MANIFEST: Schema = {
    **dict.fromkeys(("config", "data", "prompts", "versions"), (_optional(_is_object), "an object")),
    "judge": (_optional(_is_judge), "an object whose marks are words"),
}
ITEM: Schema = {
    **dict.fromkeys(("id", "item", "domain", "subset", "order", "outcome", "detail"), (_is_text, "a text")),
    "predicted": (_one_of("A", "B", None), "A, B or null"),
    "gold": (_one_of("A", "B", None), "A, B or null"),
    "correct": (_one_of(True, False, None), "true, false or null"),
    "margin": (_optional(is_number), "a number or null"),
    "margins": (_is_margins, "{ab or ba: margin}"),
    "rubrics": (_is_list, "a list"),
    "flags": (_is_texts, "a list of texts"),
    "requests": (_is_keys, "a list of cache keys in hex"),
    "judge": (_optional(_is_text), "a text"),
    "scores": (_optional(_is_interval), "two numbers"),
    "votes": (_optional(_is_list), "a list"),
}
VOTE: Schema = {
    **dict.fromkeys(("judge", "part", "order", "outcome"), (_is_text, "a text")),
    "margin": (_optional(is_number), "a number or null"),
    "predicted": (_one_of("A", "B", None), "A, B or null"),
    "contributions": (_optional(_is_number_table), "{rubric: number}"),
    "detail": (_optional(_is_text), "a text"),
}
RUBRIC: Schema = {
    **dict.fromkeys(("id", "text"), (_is_text, "a text")),
    "shown": (_one_of("ab", "ba"), "ab or ba"),
    **dict.fromkeys(("alpha", "weight", "importance", "contribution"), (is_number, "a number")),
    **dict.fromkeys(("a", "b"), (_one_of("pass", "fail", None), "pass, fail or null")),
    "better": (_one_of("A", "B", None), "A, B or null"),
    "delta": (_optional(is_number), "a number or null"),
    "filler": (_one_of(True, False), "true or false"),
    "chances": (_optional(_is_chances), "three numbers or null"),
    "rephrased": (_optional(_is_text), "a text or null"),
    "judge": (_optional(_is_text), "a text"),
}
EXAMPLE: Schema = dict.fromkeys(("id", "prompt", "response_a", "response_b"), (_is_text, "a text"))


def problem(value: Mapping[str, Any], schema: Schema) -> str:
    """Return what is wrong with the first key of the wrong type; empty where nothing is. A missing key is null."""
    for name, (test, words) in schema.items():
        if not test(value.get(name)):
            return f"{name} is {short(value.get(name))}, not {words}"
    return ""


def item_problem(value: Mapping[str, Any]) -> str:
    """Return what is wrong with one line of items.jsonl; empty where nothing is."""
    found = problem(value, ITEM)
    if found:
        return found
    return _problem_in("rubric", value["rubrics"], RUBRIC) or _problem_in("vote", value.get("votes") or [], VOTE)


def _problem_in(what: str, rows: list[Any], schema: Schema) -> str:
    for place, row in enumerate(rows):
        found = problem(row, schema) if isinstance(row, dict) else "it is not an object"
        if found:
            return f"{what} {place}: {found}"
    return ""
