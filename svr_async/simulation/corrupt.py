"""How a content fault damages a reply: its text becomes broken, chatty, incomplete, contradictory or empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.core.verdict import Verdict
from svr_async.simulation.brain import Composed
from svr_async.simulation.faults import Fault
from svr_async.simulation.world import draw_bytes, uniform

ROW_KEYS = ("rubric_comparisons", "rubric_scores")

Told = tuple[str, float | None]
"""The name of a statement, and its probability or None for a refusal."""


def corrupt(composed: Composed, fault: Fault, drawn: bytes) -> tuple[str, str]:
    """Return the damaged content and the finish reason, "" for the usual one."""
    if fault.name in ("missing-rubrics", "duplicate-ids", "unknown-ids"):
        return Composed(composed.prose, _with_rows(composed, fault.name, drawn)).text, ""
    own, whole = Composed("", composed.payload).text, composed.text
    return {
        "broken-json": (composed.prose + _broken(own, drawn), ""),
        "cut-json": (composed.prose + own[: max(1, int(len(own) * (0.3 + 0.6 * uniform(drawn, 2))))], ""),
        "prose": (f"Let me think about {{this}} first.\n```json\n{whole}\n```\nI hope that helps!", ""),
        "empty-content": ("", ""),
        "length": (whole[: len(whole) // 2], "length"),
        "refusal": ("", "content_filter"),
    }[fault.name]


def damaged_chances(chances: Mapping[str, float], fault: Fault | None, drawn: bytes) -> tuple[Told, ...]:
    """Return what a content fault leaves of the answers to statements, by name.

    None is a refusal. What is left out, told twice with two values or named otherwise leaves the other answers honest.
    """
    told: list[Told] = list(chances.items())
    name = "" if fault is None else fault.name
    if name == "refusal":
        return tuple(dict.fromkeys(chances).items())
    if name in ("missing-rubrics", "duplicate-ids", "unknown-ids") and told:
        return tuple(_retold(told, name, drawn))
    kept = {"empty-content": 0, "length": len(told) // 2}.get(name, len(told))
    return tuple(told[:kept])


def _retold(told: list[Told], kind: str, drawn: bytes) -> list[Told]:
    """Drop one answer, or contradict one ahead of it, or name one otherwise and add a stranger."""
    victim = int(uniform(drawn, 3) * len(told))
    name, chance = told[victim]
    before, after = told[:victim], told[victim + 1 :]
    if kind == "missing-rubrics":
        return before + after
    if kind == "duplicate-ids":
        return [(name, 1 - (chance or 0.0)), *told]
    return [("q999", 0.5), *before, (f"{name}-x", chance), *after]


def _broken(text: str, drawn: bytes) -> str:
    """Return the JSON with one of four defects that models are prone to; nothing of its content is lost."""
    defects = (
        text[:-1],
        text[:-1] + ",}",
        text.replace('"', "'") if "'" not in text else text[:-1],
        text.replace('","', '" "', 1),
    )
    return defects[int(uniform(drawn, 2) * len(defects))]


def _with_rows(composed: Composed, kind: str, drawn: bytes) -> dict[str, Any]:
    payload = dict(composed.payload or {})
    for key in ROW_KEYS:
        if payload.get(key):
            payload[key] = _changed(payload[key], kind, drawn)
    return payload


def _changed(rows: list[dict[str, Any]], kind: str, drawn: bytes) -> list[dict[str, Any]]:
    """Drop some rows, or repeat two (one of them contradicting itself), or rename one and add a stranger."""
    victim = int(uniform(drawn, 3) * len(rows))
    if kind == "missing-rubrics":
        kept = [row for place, row in enumerate(rows) if uniform(draw_bytes(drawn, place)) >= 0.4]
        return kept if len(kept) < len(rows) else rows[:victim] + rows[victim + 1 :]
    if kind == "duplicate-ids":
        return [*rows, rows[victim - 1], _contradicted(rows[victim])]
    renamed = dict(rows[victim], rubric_id=f"{rows[victim]['rubric_id']}-x")
    return [*rows[:victim], renamed, *rows[victim + 1 :], dict(rows[victim], rubric_id="R999")]


def _contradicted(row: dict[str, Any]) -> dict[str, Any]:
    if "score" in row:
        return dict(row, score=1.0 - row["score"])
    flipped = {"A": "B", "B": "A"}[row["better"]]
    a = Verdict.FAIL if row["candidate_a_verdict"] == Verdict.PASS else Verdict.PASS
    return dict(row, candidate_a_verdict=a.value, better=flipped)


def odd(reply: dict[str, Any], fault: Fault, drawn: bytes) -> dict[str, Any]:
    """Return a right answer with a wrong model name or absurd usage."""
    if fault.name == "wrong-model":
        return reply | {"model": f"{reply['model']}-preview"}
    usages: tuple[Any, ...] = (None, {}, {"prompt_tokens": -5, "completion_tokens": -1}, {"prompt_tokens": "many"})
    return reply | {"usage": usages[int(uniform(drawn, 2) * len(usages))]}
