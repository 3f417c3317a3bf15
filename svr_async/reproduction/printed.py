"""The numbers that the paper prints, each with its label and its line of the LaTeX: `printed.toml`, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from svr_async.errors import UsageError

Value = float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedRow:
    """A row of a table: its line, the names that head it, and its values in the order of the table's columns."""

    line: int
    names: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTable:
    """A table of the paper; a row may have fewer values than there are columns, then the last ones are empty."""

    label: str
    line: int
    columns: tuple[str, ...]
    rows: tuple[PrintedRow, ...]

    def number(self, names: tuple[str, ...], column: str) -> float | None:
        """Return a cell's number; None where the cell is empty, UsageError where there is no such row or column."""
        row = next((row for row in self.rows if row.names == names), None)
        if row is None or column not in self.columns:
            raise UsageError(f"{self.label} prints nothing for {' · '.join(names)}, {column}", hint="see printed.toml")
        place = self.columns.index(column)
        value = row.values[place] if place < len(row.values) else None
        return None if isinstance(value, str) else value

    def column(self, column: str, *names: str) -> list[float]:
        """Return the numbers of a column, of all rows or of those whose first names these are."""
        rows = [row for row in self.rows if not names or row.names[0] in names]
        found = [self.number(row.names, column) for row in rows]
        return [value for value in found if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedNumber:
    """A number of the text: the label of the figure or section that it belongs to, a name, its line."""

    label: str
    name: str
    line: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """All that is printed. `passed` are numbers on the lines of the text that are no results, by line."""

    tables: tuple[PrintedTable, ...]
    numbers: tuple[PrintedNumber, ...]
    passed: Mapping[str, tuple[float, ...]]

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.numbers) + sum(len(row.values) for table in self.tables for row in table.rows)

    def table(self, label: str) -> PrintedTable:
        """Return a table by its label."""
        return next(table for table in self.tables if table.label == label)

    def number(self, label: str, name: str) -> float:
        """Return a number of the text."""
        return next(one.value for one in self.numbers if (one.label, one.name) == (label, name))

    def passed_over(self, line: int) -> tuple[float, ...]:
        """Return the numbers of a line of the text that are no results: settings, exponents, marks of an order."""
        return self.passed.get(str(line), ())


@cache
def load_printed() -> Printed:
    """Read the shipped file."""
    text = resources.files("svr_async.reproduction").joinpath("printed.toml").read_text("utf-8")
    return printed_from(tomllib.loads(text))


def printed_from(values: Mapping[str, Any]) -> Printed:
    """Read a parsed file."""
    return Printed(
        tables=tuple(_table(one) for one in values["table"]),
        numbers=tuple(
            PrintedNumber(label=label, name=name, line=line, value=float(value))
            for label, entries in values["text"].items()
            for name, (line, value) in entries.items()
        ),
        passed={line: tuple(map(float, found)) for line, found in values.get("passed", {}).items()},
    )


def _table(value: Mapping[str, Any]) -> PrintedTable:
    rows = [
        PrintedRow(line=row["line"], names=tuple(row["names"]), values=tuple(map(_value, row["values"])))
        for row in value["rows"]
    ]
    return PrintedTable(
        label=value["label"], line=value["line"], columns=tuple(value.get("columns", ())), rows=tuple(rows)
    )


def _value(value: Any) -> Value:
    return value if isinstance(value, str) else float(value)
