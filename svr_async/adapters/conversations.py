"""Chosen and rejected as people store them: a text, a message, a list of messages, a Human/Assistant transcript."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from svr_async.core.pair import Message, Prompt, parse_prompt, user_prompt

_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


class Answered(NamedTuple):
    """A response, and the turns before it where they were stored with it."""

    before: Prompt
    response: str


def read_answer(value: Any, *, transcript: bool) -> Answered:
    """Take a response apart from the turns stored with it; ValueError says what is wrong.

    `transcript`: a text is a whole "Human: … Assistant: …" exchange, as there is no prompt beside it.
    """
    value = stored_messages(value)
    if isinstance(value, str):
        return _last_turn(transcript_turns(value)) if transcript else Answered((), value)
    if isinstance(value, Mapping):
        return _last_turn(parse_prompt([value]))
    if isinstance(value, list | tuple) and value and all(isinstance(turn, Mapping) for turn in value):
        return _last_turn(parse_prompt(value))
    raise ValueError("expected text, a message or a list of messages")


def stored_messages(value: Any) -> Any:
    """Return the messages that a text holds as JSON or as Python prints them, as in csv files; else the value."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[{", "{'role'", '{"role"')):
        return value
    for read in (orjson.loads, ast.literal_eval):
        try:
            found = read(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        messages = found if isinstance(found, list) else [found]
        if all(isinstance(one, Mapping) and ("role" in one or "from" in one) for one in messages):
            return messages
    return value


def read_prompt(value: Any) -> Any:
    """Return a prompt's text or messages; those inside an object are what OpenAI's preference files have."""
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
        return value["messages"]
    return stored_messages(value)


def past_turns(history: Any) -> Prompt:
    """Return the turns of a `history` column: a list of [question, answer]; nothing of any other form."""
    if not isinstance(history, list) or not all(isinstance(one, list) and len(one) == 2 for one in history):
        return ()
    return tuple(
        turn for asked, said in history for turn in (*user_prompt(str(asked)), Message("assistant", str(said)))
    )


def transcript_turns(text: str) -> Prompt:
    """Split a transcript whose turns start with "Human:" or "Assistant:" after an empty line."""
    _, *parts = _SPEAKER.split(text)
    if not parts or not _SPEAKER.match(text):
        raise ValueError("expected a prompt column beside it, or a transcript that starts with 'Human:'")
    return tuple(Message(_ROLES[who], what.strip()) for who, what in zip(parts[::2], parts[1::2], strict=True))


def _last_turn(turns: Prompt) -> Answered:
    if turns[-1].role != "assistant":
        raise ValueError(f"the last message is by {turns[-1].role}, not by the assistant")
    return Answered(turns[:-1], turns[-1].content)


def join_prompt(given: Prompt, before: Prompt) -> Prompt:
    """Return the whole conversation from a prompt column and the turns stored with a response.

    Some sets repeat the prompt in front of each response (then `before` ends with it), some go on from it.
    """
    if not before or not given:
        return before or given
    tail = before[-len(given) :]
    if len(tail) == len(given) and all(
        a.content.strip() == b.content.strip() for a, b in zip(tail, given, strict=True)
    ):
        return before
    return given + before
