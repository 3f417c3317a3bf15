"""Reads prompts and responses as data sets store them: text, a message, a list of messages, a transcript."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from svr_async.adapters.fields import Fields
from svr_async.core.pair import Message, Prompt, parse_prompt, user_prompt

PROMPT_COLUMNS = (
    "prompt", "messages", "conversations", "conversation", "context", "instruction", "question", "query", "history",
    "post", "user_prompt", "user_input", "input",
)  # fmt: skip
SYSTEM_COLUMNS = ("system", "system_prompt")
_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


class Answer(NamedTuple):
    """A response, and the turns stored before it."""

    before: Prompt
    response: str


def prompt_of(fields: Fields) -> Prompt:
    """Return the prompt of a row: its system turn, earlier turns, and the first prompt column; empty without one."""
    column, prompt = fields.first(PROMPT_COLUMNS), Prompt()
    if column:
        value = stored_messages(fields.value(column))
        if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
            value = value["messages"]  # OpenAI's preference files
        extra = fields.value("input") if column == "instruction" and fields.has("input") else ""
        if isinstance(value, str) and isinstance(extra, str) and extra.strip():
            value = f"{value}\n\n{extra}" if value.strip() else extra  # Alpaca's instruction with its input
        prompt = fields.as_prompt(column, value)
        if column != "history" and fields.has("history"):
            prompt = _past_turns(fields.value("history")) + prompt
    system = fields.row.values.get(fields.first(SYSTEM_COLUMNS))
    if isinstance(system, str) and system.strip() and all(turn.role != "system" for turn in prompt):
        return (Message("system", system), *prompt)
    return prompt


def _past_turns(history: Any) -> Prompt:
    """Return the turns of a list of [question, answer]; empty for any other form."""
    if not isinstance(history, list) or not all(isinstance(one, list) and len(one) == 2 for one in history):
        return ()
    return tuple(
        turn for user, reply in history for turn in (*user_prompt(str(user)), Message("assistant", str(reply)))
    )


def read_answer(value: Any, *, transcript: bool) -> Answer:
    """Split a response from the turns stored before it; ValueError says what is wrong.

    `transcript`: without a prompt column, a text is a whole "Human: … Assistant: …" conversation.
    """
    value = stored_messages(value)
    if isinstance(value, str):
        return _last_turn(transcript_turns(value)) if transcript else Answer((), value)
    if isinstance(value, Mapping):
        return _last_turn(parse_prompt([value]))
    if isinstance(value, list | tuple) and value and all(isinstance(turn, Mapping) for turn in value):
        return _last_turn(parse_prompt(value))
    raise ValueError("expected text, a message or a list of messages")


def stored_messages(value: Any) -> Any:
    """Return the messages that a text holds as JSON or as Python prints them (in CSV files), else the value."""
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


def transcript_turns(text: str) -> Prompt:
    """Split a transcript whose turns start with "Human:" or "Assistant:" after an empty line."""
    _, *parts = _SPEAKER.split(text)
    if not parts or not _SPEAKER.match(text):
        raise ValueError("expected a prompt column, or a transcript that starts with 'Human:'")
    return tuple(Message(_ROLES[who], what.strip()) for who, what in zip(parts[::2], parts[1::2], strict=True))


def _last_turn(turns: Prompt) -> Answer:
    if turns[-1].role != "assistant":
        raise ValueError(f"the last message is by {turns[-1].role}, not by the assistant")
    return Answer(turns[:-1], turns[-1].content)


def join_prompt(given: Prompt, before: Prompt) -> Prompt:
    """Return the whole conversation from a prompt column and the turns stored with a response.

    Some sets repeat the prompt before each response (then `before` ends with it), others continue from it.
    """
    if not before or not given:
        return before or given
    tail = before[-len(given) :]
    same = [turn.content.strip() for turn in tail] == [turn.content.strip() for turn in given]
    return before if same else given + before
