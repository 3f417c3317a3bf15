"""System One: a state, named questions about it, and the probability of a yes to each.

Shapes: the schema in the package typesafe-sdk 0.7.5 (`_schemas/models.py`, September 2026); a "noul" is a yes/no
question. Other servers use the same shape for open models, so any base URL is accepted.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from svr_async.engine.reply import BadBodyError, Reply, json_of, json_value
from svr_async.engine.wires import Wire, WireRequest
from svr_async.engine.wires.decisions import params, probability_of, read_usage, reply_of, split_statements
from svr_async.engine.wires.openai import error_in_body, headers

MOST_QUESTIONS = 200  # OpenRouter's limit; the schema has no limit


def body(request: WireRequest) -> dict[str, Any]:
    """Return the JSON body; the state is one text of all messages."""
    shown, statements = split_statements(request)
    return {
        "model": request.model,
        "state": "\n\n".join(content for _, content in shown),
        "questions": {name: {"type": "noul", "instructions": text} for name, text in statements.items()},
        **dict(request.params),
    }


def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read answers by name; null and answers of type refusal are refusals."""
    value = json_of(data, status)
    answers = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(answers, dict):
        raise BadBodyError("the reply has no answers")
    probabilities = {str(name): _probability(answer) for name, answer in answers.items()}
    return reply_of(probabilities, value, read_usage(value.get("usage")))


def _probability(answer: Any) -> float | None:
    if answer is None or (isinstance(answer, dict) and answer.get("type") == "refusal"):
        return None
    return probability_of(answer.get("noul") if isinstance(answer, dict) else answer)


def error(data: bytes) -> dict[str, Any]:
    """Return the error of a body: as OpenAI's wire reads it, or a message at the top or under `detail`."""
    if found := error_in_body(data):
        return found
    try:
        value = json_value(data)
        message = value["detail"]["message"] if isinstance(value.get("detail"), dict) else value.get("message")
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {"message": message} if isinstance(message, str) and "answers" not in value else {}


WIRE = Wire(
    name="systemone", path="/systemone", headers=headers, params=params, body=body, read=read, error=error,
    questions=MOST_QUESTIONS,
)  # fmt: skip
