"""Typed access to the columns of a row: texts, numbers, conversations, rubrics. A wrong value becomes one line."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from svr_async.adapters.tables import Row
from svr_async.core.pair import Message, Prompt, parse_prompt
from svr_async.core.rubric import split_rubrics
from svr_async.core.validation import short
from svr_async.errors import DataError

PROMPT_COLUMNS = (
    "prompt", "messages", "conversations", "conversation", "context", "instruction", "question", "query", "history",
    "post", "user_prompt", "user_input", "input",
)  # fmt: skip
_SYSTEM_COLUMNS = ("system", "system_prompt")
_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}
_SHOWN_CHARS = 40


class RowError(DataError):
    """A row that breaks its schema; `reason` says why without the row's values, so that rows can be counted by it."""

    def __init__(self, row: Row, reason: str, detail: str = "", *, hint: str = "") -> None:
        super().__init__(f"{row.where}: {reason}{detail}", hint=hint or "fix the row, or skip such rows with --lenient")
        self.reason = reason


class _Criterion(msgspec.Struct):
    """A rubric that comes with a row."""

    rubric: str | None = None
    text: str | None = None
    criterion: str | None = None
    description: str | None = None
    points: float | None = None
    weight: float | None = None

    def parts(self) -> tuple[str | None, float | None]:
        """Return the text and the points."""
        words = (self.rubric, self.text, self.criterion, self.description)
        text = next((one for one in words if one is not None), None)
        return text, self.weight if self.points is None else self.points


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of one row; every method raises RowError if the row does not hold the wanted value."""

    row: Row

    def checked(self) -> Fields:
        """Return the columns if the row could be read at all."""
        if self.row.problem:
            raise RowError(self.row, self.row.problem)
        return self

    def has(self, column: str) -> bool:
        """Whether the column is present and not null."""
        return self.row.values.get(column) is not None

    def first(self, columns: Sequence[str]) -> str:
        """Return the first of these columns that is present and not null, or an empty text."""
        return next((column for column in columns if self.has(column)), "")

    def value(self, column: str) -> Any:
        """Return a column's value, null included; an absent column is an error."""
        if column not in self.row.values:
            raise self.missing(column)
        return self.row.values[column]

    def _convert(self, column: str, kind: Any, expected: str) -> Any:
        """Return a column's value as a type that msgspec knows; digits in a text (CSV) count as a number."""
        value = self.value(column)
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            raise self.unfit(column, expected, value) from error

    def text(self, column: str) -> str:
        """Return a text, which may be empty."""
        return str(self._convert(column, str, "text"))

    def optional_text(self, column: str) -> str:
        """Return a text, empty if the column is absent or null."""
        return self.text(column) if self.has(column) else ""

    def texts(self, column: str, count: int | None = None) -> tuple[str, ...]:
        """Return a list of texts: of exactly `count`, or of at least one."""
        kind = Annotated[tuple[str, ...], msgspec.Meta(min_length=count or 1, max_length=count)]
        return tuple(self._convert(column, kind, f"a list of {count} texts" if count else "a list of texts"))

    def integer(self, column: str, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        kind = Annotated[int, msgspec.Meta(ge=low, le=high)]
        return int(self._convert(column, kind, f"a whole number from {low} to {high}"))

    def prompt(self, column: str) -> Prompt:
        """Return a conversation from a text or a list of messages, not all of them blank."""
        return self.as_prompt(column, self.value(column))

    def as_prompt(self, column: str, value: Any) -> Prompt:
        """Return a conversation from the text or messages that a column holds."""
        if not isinstance(value, str | list | tuple):
            raise self.unfit(column, "text or a list of messages", value)
        try:
            return self.filled(parse_prompt(value), column)
        except ValueError as error:
            raise RowError(self.row, f"column {column!r}: {error}") from error

    def filled(self, prompt: Prompt, column: str) -> Prompt:
        """Return the prompt if any turn has text."""
        if not any(turn.content.strip() for turn in prompt):
            raise RowError(self.row, f"column {column!r}: the prompt is empty")
        return prompt

    def identifier(self, columns: Sequence[str]) -> str:
        """Return the first id column as text, or an empty text."""
        column = self.first(columns)
        value = self.row.values.get(column, "")
        return value if isinstance(value, str) else str(self._convert(column, int, "an id (text or whole number)"))

    def rubrics(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return a pair's `rubrics` and `points` from the first of these columns, possibly empty.

        Criteria are a block of lines, a list of texts, or a list of objects, also as JSON in a text. Objects may have
        points or weights of either sign; a criterion without any counts 1 if another has some.
        """
        column = self.first(columns)
        value = self.row.values.get(column, [])
        if isinstance(value, str):
            try:
                value = msgspec.json.decode(value, type=list[Any])
            except msgspec.DecodeError:
                value = list(split_rubrics(value))
        try:
            listed = msgspec.convert(value, list[str | _Criterion], strict=False)
        except msgspec.ValidationError as error:
            raise self.unfit(column, "a list of texts or objects", value) from error
        found = [(one, None) if isinstance(one, str) else one.parts() for one in listed]
        if any(text is None for text, _ in found):
            raise self.unfit(column, "objects with rubric, text, criterion or description", value)
        kept = {text.strip(): number for text, number in found if text and text.strip()}
        counted = any(number is not None for number in kept.values())
        points = tuple(1.0 if number is None else number for number in kept.values()) if counted else ()
        return {"rubrics": tuple(kept), "points": points}

    def missing(self, column: str) -> RowError:
        """Return the error for an absent column: the columns found."""
        found = [str(name) for name in self.row.values]
        return RowError(self.row, f"no column {column!r}", f"; columns found: {', '.join(found) or 'none'}")

    def unfit(self, column: str, expected: str, found: Any) -> RowError:
        """Return the error for a value of the wrong kind."""
        shown = "null" if found is None else short(found, _SHOWN_CHARS)
        return RowError(self.row, f"column {column!r}: expected {expected}", f", found {shown}")


def prompt_of(fields: Fields) -> Prompt:
    """Return the prompt of a row: its system turn, earlier turns, and the first prompt column; empty without one."""
    column, prompt = fields.first(PROMPT_COLUMNS), Prompt()
    if column:
        value = stored_messages(fields.value(column))
        if isinstance(value, Mapping) and "messages" in value:
            value = value["messages"]  # OpenAI's preference files
        extra = fields.row.values.get("input") if column == "instruction" else ""
        if isinstance(value, str) and isinstance(extra, str) and extra.strip():
            value = f"{value}\n\n{extra}" if value.strip() else extra  # Alpaca's instruction with its input
        prompt = fields.as_prompt(column, value)
        history = fields.row.values.get("history")
        if column != "history" and isinstance(history, list):  # [question, answer], …
            turns = [zip(("user", "assistant"), turn, strict=False) for turn in history]
            prompt = (*(Message(role, str(text)) for turn in turns for role, text in turn), *prompt)
    system = fields.row.values.get(fields.first(_SYSTEM_COLUMNS))
    if isinstance(system, str) and system.strip() and all(turn.role != "system" for turn in prompt):
        return (Message("system", system), *prompt)
    return prompt


def read_answer(value: Any, *, transcript: bool) -> tuple[Prompt, str]:
    """Split a response from the turns stored before it; ValueError for another form.

    `transcript`: without a prompt column, a text is a whole "Human: … Assistant: …" conversation.
    """
    value = stored_messages(value)
    if isinstance(value, str) and not transcript:
        return (), value
    if isinstance(value, str):
        _, *parts = _SPEAKER.split(value)
        if not parts or not _SPEAKER.match(value):
            raise ValueError("expected a prompt column, or a transcript that starts with 'Human:'")
        said = zip(parts[::2], parts[1::2], strict=True)
        turns = tuple(Message(_ROLES[who], text.strip()) for who, text in said)
    elif isinstance(value, Mapping) or (isinstance(value, list) and value and isinstance(value[0], Mapping)):
        turns = parse_prompt([value] if isinstance(value, Mapping) else value)
    else:
        raise ValueError("expected text, a message or a list of messages")
    if turns[-1].role != "assistant":
        raise ValueError(f"the last message is by {turns[-1].role}, not by the assistant")
    return turns[:-1], turns[-1].content


def stored_messages(value: Any) -> Any:
    """Return the messages that a text holds as JSON or as Python prints them (in CSV files), else the value."""
    if isinstance(value, str) and value.lstrip().startswith(("[{", "{'role'", '{"role"')):
        for read in (msgspec.json.decode, ast.literal_eval):
            with suppress(msgspec.DecodeError, ValueError, SyntaxError, MemoryError, RecursionError):
                found = read(value.strip())
                messages = found if isinstance(found, list) else [found]
                if all(isinstance(one, Mapping) and ("role" in one or "from" in one) for one in messages):
                    return messages
    return value


def join_prompt(given: Prompt, before: Prompt) -> Prompt:
    """Return the whole conversation from a prompt column and the turns stored with a response.

    Some sets repeat the prompt before each response (then `before` ends with it), others continue from it.
    """
    if not before or not given:
        return before or given
    tail = before[-len(given) :]
    same = [turn.content.strip() for turn in tail] == [turn.content.strip() for turn in given]
    return before if same else given + before
