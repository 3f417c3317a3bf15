"""The prompt of a row: one column or several, with the system's turn and earlier ones before it."""

from __future__ import annotations

from dataclasses import replace

from svr_async.adapters.columns import PROMPT_COLUMNS, SYSTEM_COLUMNS
from svr_async.adapters.conversations import past_turns, read_prompt
from svr_async.adapters.fields import Fields
from svr_async.core.pair import Message, Prompt, user_prompt


def prompt_of(fields: Fields) -> Prompt:
    """Return the prompt from the first prompt column there is, with the system's turn and earlier ones before it."""
    column = fields.first(PROMPT_COLUMNS)
    if not column:
        return _with_system(fields, ())
    prompt = _instruction(fields) if column == "instruction" else _read_prompt(fields, column)
    past = past_turns(fields.value("history")) if column != "history" and fields.has("history") else ()
    return _with_system(fields, past + prompt)


def _read_prompt(fields: Fields, column: str) -> Prompt:
    """Return a conversation from a text or messages, also as OpenAI's preference files have them, or as JSON."""
    value = read_prompt(fields.value(column))
    return Fields(replace(fields.row, values={**fields.row.values, column: value})).prompt(column)


def _instruction(fields: Fields) -> Prompt:
    """Return an alpaca-style instruction, with its input below it."""
    extra = fields.optional_text("input")
    if not extra.strip() or not isinstance(fields.value("instruction"), str):
        return _read_prompt(fields, "instruction")
    instruction = fields.text("instruction")
    return user_prompt(f"{instruction}\n\n{extra}" if instruction.strip() else extra)


def _with_system(fields: Fields, prompt: Prompt) -> Prompt:
    """Return a prompt after the system's turn, where a column holds one that the prompt does not begin with."""
    column = fields.first(SYSTEM_COLUMNS)
    if not column or not isinstance(fields.value(column), str) or not fields.text(column).strip():
        return prompt
    if any(turn.role == "system" for turn in prompt):
        return prompt
    return (Message("system", fields.text(column)), *prompt)
