"""OpenAI's decisions: one input, up to 400 predicates about it, and the probability of each, or a refusal of it.

Shapes: the types of the package openai 3.51.0 (`openai/types/decision*.py`, October 2026).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from svr_async.engine.reply import BadBodyError, Reply, json_of
from svr_async.engine.wires.contract import Asked, Params, Settings, Wire
from svr_async.engine.wires.openai import error_in_body, headers
from svr_async.engine.wires.statements import chance_of, name_of, parted, read_usage, reply_of

MOST_QUESTIONS = 400


def params(settings: Settings) -> Params:
    """Return only the fields that a profile adds by itself: the endpoint knows none of a chat's settings."""
    return settings.extra


def body(asked: Asked) -> dict[str, Any]:
    """Return the JSON body of the POST."""
    shown, statements = parted(asked)
    return {
        "model": asked.model,
        "input": [{"role": role, "content": content} for role, content in shown],
        "questions": [{"type": "predicate", "name": name, "instructions": text} for name, text in statements.items()],
        **dict(asked.params),
    }


def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read answers, which come in the order of the questions; BadBodyError where there are none.

    A statement that is answered twice has its answer where both are equal, and none where they are not.
    """
    value = json_of(data, status)
    answers = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        raise BadBodyError("the reply has no answers")
    told = [(str(one.get("name") or name_of(number)), _chance(one)) for number, one in enumerate(answers)]
    chances = dict(told)
    unlike = {name for name, chance in told if chance != chances[name]}
    kept = {name: chance for name, chance in chances.items() if name not in unlike}
    return reply_of(kept, value, read_usage(value.get("usage")))


def _chance(answer: dict[str, Any]) -> float | None:
    return None if answer.get("type") == "refusal" else chance_of(answer.get("probability"))


WIRE = Wire(
    name="decisions",
    path="/decisions",
    headers=headers,
    params=params,
    body=body,
    read=read,
    error=error_in_body,
    questions=MOST_QUESTIONS,
)
