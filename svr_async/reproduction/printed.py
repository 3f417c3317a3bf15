"""The numbers that the paper prints (printed.toml), and the list of those that contradict each other."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from math import isnan, nan

import msgspec


class PrintedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row: the names that head it, and its values in the order of the columns."""

    names: tuple[str, ...]
    values: tuple[float, ...]


class PrintedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the paper; cells that are nan, and those after the last value of a row, are empty."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[PrintedRow, ...]

    def number(self, names: tuple[str, ...], column: str) -> float | None:
        """Return a cell's number; None if the paper prints none there."""
        row = next((row.values for row in self.rows if row.names == names), ())
        value = dict(zip(self.columns, row, strict=False)).get(column, nan)
        return None if isnan(value) else value


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """A printed number, and what other printed numbers give instead."""

    label: str
    name: str
    printed: float
    follows: float
    source: str


class Printed(msgspec.Struct, frozen=True, kw_only=True):
    """All printed tables, numbers of the text by label and name, and the contradictions between them."""

    tables: tuple[PrintedTable, ...]
    text: Mapping[str, Mapping[str, float]]
    contradictions: tuple[Contradiction, ...]

    def table(self, label: str) -> PrintedTable:
        """Return a table by its label."""
        return next(table for table in self.tables if table.label == label)


@cache
def load_printed() -> Printed:
    """Read the shipped numbers."""
    text = resources.files("svr_async.reproduction").joinpath("printed.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Printed)
