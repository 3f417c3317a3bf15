"""Typed access to the columns of a row; a wrong value becomes one line with place, column, expected and found."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from svr_async.adapters.tables import Row
from svr_async.core.pair import Prompt, parse_prompt
from svr_async.core.rubric import split_rubrics
from svr_async.errors import DataError

_SHOWN_CHARS = 40


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
    return {None: "null"}.get(value, str(value))


def as_integer(value: Any) -> int | None:
    """Return a whole number from an int, an integral float or a text of digits; None for anything else."""
    try:
        return msgspec.convert(value, int, strict=False)
    except msgspec.ValidationError:
        return None


class _Criterion(msgspec.Struct):
    """A rubric that comes with a row."""

    rubric: str | None = None
    text: str | None = None
    criterion: str | None = None
    description: str | None = None
    points: float | None = None
    weight: float | None = None

    @property
    def words(self) -> str | None:
        return next(
            (one for one in (self.rubric, self.text, self.criterion, self.description) if one is not None), None
        )

    @property
    def number(self) -> float | None:
        return self.weight if self.points is None else self.points


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

    def convert(self, column: str, value: Any, kind: Any, expected: str) -> Any:
        """Return the value of a column as a type that msgspec knows; digits in a text (CSV) count as a number."""
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            raise self.unfit(column, expected, value) from error

    def text(self, column: str) -> str:
        """Return a text, which may be empty."""
        return str(self.convert(column, self.value(column), str, "text"))

    def optional_text(self, column: str, default: str = "") -> str:
        """Return a text, or the default if the column is absent or null."""
        return self.text(column) if self.has(column) else default

    def texts(self, column: str, count: int | None = None) -> tuple[str, ...]:
        """Return a list of texts: of exactly `count`, or of at least one."""
        kind = Annotated[tuple[str, ...], msgspec.Meta(min_length=count or 1, max_length=count)]
        expected = f"a list of {count} texts" if count else "a list of texts"
        return tuple(self.convert(column, self.value(column), kind, expected))

    def integer(self, column: str, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        kind = Annotated[int, msgspec.Meta(ge=low, le=high)]
        return int(self.convert(column, self.value(column), kind, f"a whole number from {low} to {high}"))

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

    def rubrics(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return a pair's `rubrics` and `points` from the first of these columns; nothing if the row has none.

        Criteria are a block of lines, a list of texts, or a list of objects, also as JSON in a text. Objects may have
        points or weights of either sign; a criterion without any counts 1 if another has some.
        """
        column = self.first(columns)
        value = self.value(column) if column else []
        if isinstance(value, str):
            listed = _json_list(value)
            value = split_rubrics(value) if listed is None else listed
        listed = self.convert(column, value, list[str | _Criterion], "a list of texts or objects")
        found = [_Criterion(text=one) if isinstance(one, str) else one for one in listed]
        if any(one.words is None for one in found):
            raise self.unfit(column, "objects with rubric, text, criterion or description", value)
        kept = {text: one.number for one in found if (text := (one.words or "").strip())}
        counted = any(number is not None for number in kept.values())
        points = tuple(1.0 if number is None else number for number in kept.values()) if counted else ()
        return {"rubrics": tuple(kept), "points": points}

    def missing(self, column: str) -> RowError:
        """Return the error for an absent column: the columns found, and the nearest name."""
        found = [str(name) for name in self.row.values]
        near = difflib.get_close_matches(column, found, n=1, cutoff=0.6)
        detail = f"; columns found: {', '.join(found) or 'none'}" + (f"; nearest: {near[0]!r}" if near else "")
        return RowError(self.row, f"no column {column!r}", detail)

    def unfit(self, column: str, expected: str, found: Any) -> RowError:
        """Return the error for a value of the wrong kind."""
        return RowError(self.row, f"column {column!r}: expected {expected}", f", found {describe(found)}")


def _json_list(text: str) -> list[Any] | None:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError:
        return None
