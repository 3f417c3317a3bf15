"""Statements and the probabilities that they are true: what the wires of decision judges have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from svr_async.engine.reply import BadBodyError, Reply, Usage, token_count
from svr_async.engine.wires.contract import QUESTION, Asked

REFUSED = "refusal"


def name_of(number: int) -> str:
    """Return what a request calls its statement of this number, from 0 on."""
    return f"q{number + 1}"


def parted(asked: Asked) -> tuple[list[tuple[str, str]], dict[str, str]]:
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
