"""OpenAI's decisions: one input, up to 400 predicates about it, and the probability of each, or a refusal of it.

Shapes: the types of the package openai 3.51.0 (`openai/types/decision*.py`, October 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from svr_async.engine.reply import BadBodyError, Reply, Usage, json_of, token_count
from svr_async.engine.wires import QUESTION, Params, Settings, Wire, WireRequest
from svr_async.engine.wires.openai import error_in_body, headers

MOST_QUESTIONS = 400
REFUSED = "refusal"


def name_of(number: int) -> str:
    """Return what a request calls its statement of this number, from 0 on."""
    return f"q{number + 1}"


def parted(asked: WireRequest) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return the messages that are shown, and the statements about them by name, in the order asked."""
    shown = [(role, content) for role, content in asked.messages if role != QUESTION]
    stated = [content for role, content in asked.messages if role == QUESTION]
    return shown, {name_of(number): content for number, content in enumerate(stated)}


def chance_of(value: Any) -> float:
    """Return a probability; BadBodyError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadBodyError(f"an answer is no probability: {str(value)[:40]}")
    return float(value)


def reply_of(chances: Mapping[str, float | None], value: Mapping[str, Any], usage: Usage) -> Reply:
    """Return a reply whose text is the JSON of its probabilities by name, None for a statement that was refused.

    A reply that refuses every statement is a refusal.
    """
    refused = bool(chances) and all(chance is None for chance in chances.values())
    return Reply(
        text=orjson.dumps(dict(chances)).decode(),
        finish_reason=REFUSED if refused else "stop",
        usage=usage,
        model=str(value.get("model") or ""),
        fingerprint=str(value.get("system_fingerprint") or ""),
        id=str(value.get("id") or ""),
    )


def read_usage(value: Any) -> Usage:
    """Return the tokens in the words of OpenAI's newer endpoints: input_tokens, output_tokens."""
    if not isinstance(value, dict):
        return Usage()
    details = value.get("input_tokens_details")
    return Usage(
        prompt_tokens=token_count(value.get("input_tokens")),
        cached_tokens=token_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        completion_tokens=token_count(value.get("output_tokens")),
    )


def params(settings: Settings) -> Params:
    """Return only the fields that a profile adds by itself: the endpoint knows none of a chat's settings."""
    return settings.extra


def body(asked: WireRequest) -> dict[str, Any]:
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
