"""The forms of judges' JSON replies, as schemas for endpoints that hold a model to one.

Each is in the strict dialect that OpenAI, Anthropic, vLLM and llama.cpp share: all keys required, none beside them, no
bounds. Keys stand in the order in which they should be written: the nonce first, a reason before its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from svr_async.core.rubric import FACETS, IMPORTANCES
from svr_async.engine.wires import Form

_TEXT: dict[str, Any] = {"type": "string"}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_ROWS = _list(
    _object(
        rubric_id=_TEXT,
        reason=_TEXT,
        candidate_a_verdict=_one_of("pass", "fail"),
        candidate_b_verdict=_one_of("pass", "fail"),
        better=_one_of("A", "B"),
    )
)
_INDUCED = _object(
    nonce=_TEXT,
    contrastive_rubrics=_list(
        _object(facet=_one_of(*FACETS), importance=_one_of(*IMPORTANCES), rubric=_TEXT, grounding=_TEXT)
    ),
)
_SCHEMAS: dict[str, dict[str, Any]] = {
    "compare": _object(nonce=_TEXT, rubric_comparisons=_ROWS),
    "compare_overall": _object(nonce=_TEXT, rubric_comparisons=_ROWS, preferred_candidate=_one_of("A", "B")),
    "self_rubrics": _object(nonce=_TEXT, rubrics=_list(_TEXT), rubric_note=_TEXT),
    "pointwise": _object(nonce=_TEXT, rubric_scores=_list(_object(rubric_id=_TEXT, score={"type": "number"}))),
    "contrastive": _INDUCED,
    "descriptive": _INDUCED,
    "rrd_rubrics": _object(nonce=_TEXT, proposed_rubrics=_list(_TEXT)),
    "rrd_decompose": _object(nonce=_TEXT, finer_rubrics=_list(_TEXT)),
    "rephrase": _object(nonce=_TEXT, rephrased_rubrics=_list(_object(rubric_id=_TEXT, rubric=_TEXT))),
}
FORMS: Mapping[str, Form] = MappingProxyType(
    {name: Form(name=name, schema=orjson.dumps(schema)) for name, schema in _SCHEMAS.items()}
)
"""By the prompt that asks for the reply; the direct verdict and the probe are plain text and have none."""


def form_of(name: str, *, signed: bool) -> Form | None:
    """Return the form of the reply to a prompt, without the nonce where the prompt shows none; None for plain text."""
    if signed or name not in FORMS:
        return FORMS.get(name)
    properties = {key: value for key, value in _SCHEMAS[name]["properties"].items() if key != "nonce"}
    return Form(name=name, schema=orjson.dumps(_object(**properties)))
