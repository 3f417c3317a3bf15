"""System One: a state, questions about it by name, and the probability of a yes to each.

Shapes: the schema in the package typesafe-sdk 0.7.5 (`_schemas/models.py`, September 2026); a "noul" is its yes/no
question. Open models are served in the same shape, so any base URL may stand behind it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from svr_async.engine.reply import BadBodyError, Reply, json_of, json_value
from svr_async.engine.wires import Wire, WireRequest
from svr_async.engine.wires.decisions import chance_of, params, parted, read_usage, reply_of
from svr_async.engine.wires.openai import error_in_body, headers

MOST_QUESTIONS = 200  # the schema names no bound; OpenRouter, which serves the same shape, passes on so many


def body(asked: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST; the state is one text, as its messages follow each other."""
    shown, statements = parted(asked)
    return {
        "model": asked.model,
        "state": "\n\n".join(content for _, content in shown),
        "questions": {name: {"type": "noul", "instructions": text} for name, text in statements.items()},
        **dict(asked.params),
    }


def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read answers by name; an answer that is null or of type refusal was refused."""
    value = json_of(data, status)
    answers = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(answers, dict):
        raise BadBodyError("the reply has no answers")
    return reply_of({str(name): _chance(one) for name, one in answers.items()}, value, read_usage(value.get("usage")))


def _chance(answer: Any) -> float | None:
    if answer is None or (isinstance(answer, dict) and answer.get("type") == "refusal"):
        return None
    return chance_of(answer.get("noul") if isinstance(answer, dict) else answer)


def error(data: bytes) -> dict[str, Any]:
    """Return what a body says of an error: a form that OpenAI's wire reads, a message, or one under `detail`."""
    found = error_in_body(data)
    if found:
        return found
    try:
        value = json_value(data)
    except ValueError:
        return {}
    if not isinstance(value, dict) or "answers" in value:
        return {}
    detail = value.get("detail")
    message = detail.get("message") if isinstance(detail, dict) else value.get("message")
    return {"message": message} if isinstance(message, str) else {}


WIRE = Wire(
    name="systemone",
    path="/systemone",
    headers=headers,
    params=params,
    body=body,
    read=read,
    error=error,
    questions=MOST_QUESTIONS,
)
