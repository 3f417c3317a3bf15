"""Typed access to the columns of a row; a wrong value becomes one line with place, column, expected and found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import orjson

from svr_async.adapters.tables import Row
from svr_async.core.pair import Prompt, parse_prompt
from svr_async.core.rubric import split_rubrics
from svr_async.errors import DataError

_SHOWN_CHARS = 40
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
    "null": "null",
    "bool": "true or false",
}
_RUBRIC_KEYS = ("rubric", "text", "criterion", "description")


class RowError(DataError):
    """A row that breaks its schema; `reason` says why without the row's values, so that rows can be counted by it."""

    def __init__(self, row: Row, reason: str, detail: str = "", *, hint: str = "") -> None:
        super().__init__(f"{row.where}: {reason}{detail}", hint=hint or "fix the row, or skip such rows with --lenient")
        self.reason = reason


def describe(value: Any) -> str:
    """Describe a value in a few words: "3.5", "null", "a list of 2", "'maybe'"."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return f"{value[:_SHOWN_CHARS]!r}" + ("…" if len(value) > _SHOWN_CHARS else "")
    if isinstance(value, Mapping):
        return "an object"
    return str(orjson.dumps(value).decode()) if isinstance(value, bool | None) else str(value)


def as_integer(value: Any) -> int | None:
    """Return a whole number from an int, an integral float or a text of digits; None for anything else."""
    try:
        return msgspec.convert(value, int, strict=False)
    except msgspec.ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of one row; every method raises RowError if the row does not hold the wanted value."""

    row: Row

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

    def convert(self, column: str, kind: Any) -> Any:
        """Return a column's value as a type that msgspec knows; digits in a text (CSV) count as a number."""
        value = self.value(column)
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            said = str(error).partition(" - at ")[0]
            expected = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), said).partition(", got ")[0]
            raise self.unfit(column, expected.removeprefix("Expected "), value) from error

    def text(self, column: str) -> str:
        """Return a text, which may be empty."""
        return str(self.convert(column, str))

    def optional_text(self, column: str, default: str = "") -> str:
        """Return a text, or the default if the column is absent or null."""
        return self.text(column) if self.has(column) else default

    def texts(self, column: str, count: int | None = None) -> tuple[str, ...]:
        """Return a list of texts: of exactly `count`, or of at least one."""
        length = msgspec.Meta(min_length=count or 1, max_length=count)
        return tuple(self.convert(column, Annotated[list[str], length]))

    def integer(self, column: str, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        return int(self.convert(column, Annotated[int, msgspec.Meta(ge=low, le=high)]))

    def prompt(self, column: str) -> Prompt:
        """Return a conversation from a text or a list of messages, not all of them blank."""
        return self.as_prompt(column, self.value(column))

    def as_prompt(self, column: str, value: Any) -> Prompt:
        """Return a conversation from the text or messages that a column holds."""
        if not isinstance(value, str | list | tuple):
            raise self.unfit(column, "text or a list of messages", value)
        try:
            prompt = parse_prompt(value)
        except ValueError as error:
            raise RowError(self.row, f"column {column!r}: {error}") from error
        return self.filled(prompt, column)

    def filled(self, prompt: Prompt, column: str) -> Prompt:
        """Return the prompt if any turn has text."""
        if not any(turn.content.strip() for turn in prompt):
            raise RowError(self.row, f"column {column!r}: the prompt is empty")
        return prompt

    def identifier(self, columns: Sequence[str]) -> str:
        """Return the first id column as text, or an empty text if the row has none."""
        column = self.first(columns)
        value = self.value(column) if column else ""
        number = None if isinstance(value, str) else as_integer(value)
        if number is None and not isinstance(value, str):
            raise self.unfit(column, "an id (text or whole number)", value)
        return value if number is None else str(number)

    def rubrics(self, column: str) -> tuple[str, ...]:
        """Return criteria from a block of lines, a JSON list in a text, a list of texts, or a list of objects."""
        value = self.value(column)
        if isinstance(value, str):
            listed = _json_list(value)
            if listed is None:
                return split_rubrics(value)
            value = listed
        if not isinstance(value, list | tuple):
            raise self.unfit(column, "rubrics (text or a list)", value)
        return tuple(text for element in value if (text := self._rubric(column, element).strip()))

    def _rubric(self, column: str, element: Any) -> str:
        text = element
        if isinstance(element, dict):
            text = next((element[key] for key in _RUBRIC_KEYS if element.get(key) is not None), None)
        if not isinstance(text, str):
            raise self.unfit(column, f"texts or objects with {' or '.join(_RUBRIC_KEYS)}", element)
        return text

    def missing(self, column: str) -> RowError:
        """Return the error for an absent column: the columns found, and the nearest name."""
        found = [str(name) for name in self.row.values]
        near = difflib.get_close_matches(column, found, n=1, cutoff=0.6)
        detail = f"; columns found: {', '.join(found) or 'none'}" + (f"; nearest: {near[0]!r}" if near else "")
        return RowError(self.row, f"no column {column!r}", detail)

    def unfit(self, column: str, expected: str, found: Any) -> RowError:
        """Return the error for a value of the wrong kind."""
        return RowError(self.row, f"column {column!r}: expected {expected}", f", found {describe(found)}")


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _json_list(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None
