"""Typed access to the columns of a row; what does not fit becomes one line with place, column, expected and found."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from svr_async.adapters.tables import Row
from svr_async.core.pair import Prompt, parse_prompt
from svr_async.core.rubric import split_rubrics
from svr_async.core.verdict import is_finite
from svr_async.errors import DataError

_SHOWN_CHARS = 40
_DIGITS = re.compile(r"[+-]?\d{1,18}")
_RUBRIC_KEYS = ("rubric", "text", "criterion", "description")
_POINT_KEYS = ("points", "weight")


class RowError(DataError):
    """A row that breaks its schema; `reason` says why without the row's own values, so that rows can be counted.

    `value` is the column's value that is the cause, or the row's label: where no row with it is kept, it is no mishap.
    """

    def __init__(self, row: Row, reason: str, detail: str = "", *, hint: str = "") -> None:
        super().__init__(
            f"{row.where}: {reason}{detail}", hint=hint or "mend the row, or skip such rows with --lenient"
        )
        self.reason = reason
        self.value = ""


def describe(value: Any) -> str:
    """Say in a few words what a value is: "number 3.5", "null", "list of 2", "text 'maybe'"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"flag {str(value).lower()}"
    if isinstance(value, int | float):
        return f"number {value}"
    if isinstance(value, str):
        return f"text {value[:_SHOWN_CHARS]!r}" + ("…" if len(value) > _SHOWN_CHARS else "")
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return f"list of {len(value)}"
    return "object" if isinstance(value, dict) else type(value).__name__


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of one row; every method raises RowError where the row does not hold what is asked for."""

    row: Row

    def has(self, column: str) -> bool:
        """Whether the column is there and not null."""
        return self.row.values.get(column) is not None

    def first(self, columns: Sequence[str]) -> str:
        """Return the first of these columns that is there and not null, or an empty text."""
        return next((column for column in columns if self.has(column)), "")

    def value(self, column: str) -> Any:
        """Return a column as it is; null is returned as None, an absent column is an error."""
        if column not in self.row.values:
            raise self.missing(column)
        return self.row.values[column]

    def text(self, column: str) -> str:
        """Return a text, which may be empty."""
        value = self.value(column)
        if not isinstance(value, str):
            raise self.unfit(column, "text", value)
        return value

    def optional_text(self, column: str, default: str = "") -> str:
        """Return a text, or the default where the column is absent or null."""
        return self.text(column) if self.has(column) else default

    def texts(self, column: str, count: int | None = None) -> tuple[str, ...]:
        """Return a list of texts: of exactly `count`, or of at least one."""
        value = self.value(column)
        expected = "a list of texts" if count is None else f"a list of {count} texts"
        if not isinstance(value, list | tuple) or not value or (count is not None and len(value) != count):
            raise self.unfit(column, expected, value)
        for element in value:
            if not isinstance(element, str):
                raise self.unfit(column, expected, element, within=True)
        return tuple(value)

    def integer(self, column: str, low: int, high: int) -> int:
        """Return a whole number in [low, high]; digits in a text (csv) and 2.0 (a column with gaps) count as one."""
        value = self.value(column)
        number = as_integer(value)
        if number is None or not low <= number <= high:
            raise self.unfit(column, f"a whole number from {low} to {high}", value)
        return number

    def prompt(self, column: str) -> Prompt:
        """Return a conversation from a text or a list of messages, not all of them blank."""
        value = self.value(column)
        if not isinstance(value, str | list | tuple):
            raise self.unfit(column, "text or a list of messages", value)
        try:
            prompt = parse_prompt(value)
        except ValueError as error:
            raise RowError(self.row, f"column {column!r}: {error}") from error
        return self.filled(prompt, column)

    def filled(self, prompt: Prompt, column: str) -> Prompt:
        """Return the prompt if there is anything in it; a blank last turn of a conversation occurs, and is legal."""
        if not any(turn.content.strip() for turn in prompt):
            raise RowError(self.row, f"column {column!r}: the prompt is empty")
        return prompt

    def identifier(self, columns: Sequence[str]) -> str:
        """Return the first id column as text, or an empty text where the row has none."""
        column = self.first(columns)
        if not column:
            return ""
        value = self.value(column)
        number = as_integer(value)
        if isinstance(value, str) and value.strip():
            return value
        if number is None:
            raise self.unfit(column, "an id (text or whole number)", value)
        return str(number)

    def rubrics(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return a pair's `rubrics` and `points` from the first of these columns; nothing where the row has none.

        Criteria are a block of lines, a JSON list in a text, a list of texts, or a list of objects. Objects may have
        points or weights of either sign; a criterion without has 1 where another has some.
        """
        column = self.first(columns)
        value = self.value(column) if column else []
        if isinstance(value, str):
            listed = _json_list(value)
            value = split_rubrics(value) if listed is None else listed
        if not isinstance(value, list | tuple):
            raise self.unfit(column, "rubrics (text or a list)", value)
        found = [(text, one) for one in value if (text := self._rubric(column, one).strip())]
        points = [self._points(column, one) for _, one in found]
        counted = any(number is not None for number in points)
        return {
            "rubrics": tuple(text for text, _ in found),
            "points": tuple(1.0 if number is None else number for number in points) if counted else (),
        }

    def _points(self, column: str, element: Any) -> float | None:
        held = element if isinstance(element, dict) else {}
        value = next((held[key] for key in _POINT_KEYS if held.get(key) is not None), None)
        if value is not None and not is_finite(value):
            raise self.unfit(column, f"a number in {' or '.join(_POINT_KEYS)}", value, within=True)
        return None if value is None else float(value)

    def _rubric(self, column: str, element: Any) -> str:
        text = element
        if isinstance(element, dict):
            text = next((element[key] for key in _RUBRIC_KEYS if element.get(key) is not None), None)
        if not isinstance(text, str):
            raise self.unfit(column, f"texts or objects with {' or '.join(_RUBRIC_KEYS)}", element, within=True)
        return text

    def missing(self, column: str) -> RowError:
        """Return the error for an absent column: what there is instead, and the nearest name; or for a null in it."""
        if column in self.row.values:
            return self.unfit(column, "a value", None)
        found = [str(name) for name in self.row.values]
        near = difflib.get_close_matches(column, found, n=1, cutoff=0.6)
        detail = f"; columns found: {', '.join(found) or 'none'}" + (f"; nearest: {near[0]!r}" if near else "")
        return RowError(self.row, f"no column {column!r}", detail)

    def unfit(self, column: str, expected: str, found: Any, *, within: bool = False) -> RowError:
        """Return the error for a value of the wrong kind, or, `within`, for an element of a list."""
        place = ", an element is" if within else ","
        verb = "" if within else " found"
        error = RowError(self.row, f"column {column!r}: expected {expected}", f"{place}{verb} {describe(found)}")
        if (isinstance(found, str | int) and found != "") or (isinstance(found, float) and not math.isnan(found)):
            error.value = f"column {column!r}: {describe(found)}"
        return error


def as_integer(value: Any) -> int | None:
    """Return a whole number from an int, an integral float or digits in a text; None for anything else, flags too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else None
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value.strip()) else None


def _json_list(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None
