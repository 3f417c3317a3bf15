"""OpenAI's decisions: one input, up to 400 predicates about it, and a probability or refusal for each.

Shapes: the types of the package openai 3.51.0 (`openai/types/decision*.py`, October 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.reply import BadBodyError, Reply, Usage, identity, json_of, token_count
from svr_async.engine.wires import QUESTION, Params, Settings, Wire, WireRequest
from svr_async.engine.wires.openai import error_in_body, headers

MOST_QUESTIONS = 400


def name_of(number: int) -> str:
    """Return the name of a statement in a request; numbers start at 0."""
    return f"q{number + 1}"


def split_statements(request: WireRequest) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return the messages to show, and the statements about them by name."""
    shown = [(role, content) for role, content in request.messages if role != QUESTION]
    statements = [content for role, content in request.messages if role == QUESTION]
    return shown, {name_of(number): content for number, content in enumerate(statements)}


def probability_of(value: Any) -> float:
    """Return a probability; BadBodyError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadBodyError(f"an answer is not a probability: {str(value)[:40]}")
    return float(value)


def reply_of(probabilities: Mapping[str, float | None], value: Mapping[str, Any], usage: Usage) -> Reply:
    """Return a reply whose text is the JSON of its probabilities by name, None for a refused statement.

    If every statement was refused, the reply is a refusal.
    """
    refused = bool(probabilities) and all(answer is None for answer in probabilities.values())
    return Reply(
        text=orjson.dumps(dict(probabilities)).decode(),
        finish_reason="refusal" if refused else "stop",
        usage=usage,
        **identity(value),
    )


def read_usage(value: Any) -> Usage:
    """Return the tokens; OpenAI's newer endpoints name them input_tokens and output_tokens."""
    if not isinstance(value, dict):
        return Usage()
    details = value.get("input_tokens_details")
    return Usage(
        prompt_tokens=token_count(value.get("input_tokens")),
        cached_tokens=token_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        completion_tokens=token_count(value.get("output_tokens")),
    )


def params(settings: Settings) -> Params:
    """Return the profile's own fields; the endpoint has no optional settings of a chat."""
    return settings.extra


def body(request: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST."""
    shown, statements = split_statements(request)
    return {
        "model": request.model,
        "input": [{"role": role, "content": content} for role, content in shown],
        "questions": [{"type": "predicate", "name": name, "instructions": text} for name, text in statements.items()],
        **dict(request.params),
    }


def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read answers, which come in the order of the questions; BadBodyError without any.

    A statement with two different answers counts as unanswered.
    """
    value = json_of(data, status)
    answers = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        raise BadBodyError("the reply has no answers")
    named = [(str(row.get("name") or name_of(number)), _probability(row)) for number, row in enumerate(answers)]
    last = dict(named)
    contradicted = {name for name, answer in named if answer != last[name]}
    kept = {name: answer for name, answer in last.items() if name not in contradicted}
    return reply_of(kept, value, read_usage(value.get("usage")))


def _probability(answer: dict[str, Any]) -> float | None:
    return None if answer.get("type") == "refusal" else probability_of(answer.get("probability"))


WIRE = Wire(
    name="decisions", path="/decisions", headers=headers, params=params, body=body, read=read, error=error_in_body,
    questions=MOST_QUESTIONS,
)  # fmt: skip
