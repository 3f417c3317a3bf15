"""What the paper holds: how each of its tables and figures is made (recipes.toml), and its numbers (printed.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from math import isnan, nan
from typing import Any

import msgspec

from svr_async.errors import UsageError

ROLE = re.compile("@([a-z0-9.-]+)")


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An evaluation by the names of its parts; in `option` (NAME=VALUE) @ROLE stands for the judge of a role."""

    method: str
    judge: str
    benchmark: str = ""
    bank: str = ""
    top_k: int | None = None
    domain: tuple[str, ...] = ()
    option: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """The role of its judge, then those in its options."""
        return (self.judge, *(role for text in self.option for role in ROLE.findall(text)))

    @property
    def title(self) -> str:
        """A name for its folder."""
        parts = (self.benchmark, self.method, self.bank, "" if self.top_k is None else f"top{self.top_k}", self.judge)
        return "-".join(filter(None, parts))


class RecipeRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of a table: the names that head it, as in printed.toml, and its runs by column or benchmark."""

    names: tuple[str, ...]
    runs: dict[str, RunSpec]
    group: str = ""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table or figure of the paper: its label, what builds it (`kind`), its rows, the banks that it shows."""

    label: str
    title: str
    kind: str
    heads: tuple[str, ...]
    rows: tuple[RecipeRow, ...] = ()
    banks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The label without its prefix."""
        return self.label.partition(":")[2]

    @property
    def runs(self) -> tuple[RunSpec, ...]:
        """All runs of its rows, each once."""
        return tuple(dict.fromkeys(run for row in self.rows for run in row.runs.values()))

    @property
    def needed_banks(self) -> tuple[str, ...]:
        """All banks that it needs, each once."""
        return tuple(dict.fromkeys([*self.banks, *(run.bank for run in self.runs if run.bank)]))


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge that rows name: which it is by default ("": named by the user, as `hint` says)."""

    judge: str = ""
    hint: str = ""


class BankSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bank that rows name: the role of the judge that trains it, and the ablated parts of Algorithm 1."""

    judge: str
    name: str = ""
    ablate: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name among runs."""
        return f"train {self.name}"


class Recipes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tables in the paper's order, with the roles and banks that they name."""

    tables: tuple[Recipe, ...]
    roles: Mapping[str, Role]
    banks: Mapping[str, BankSpec]

    @property
    def runs(self) -> tuple[RunSpec, ...]:
        """The runs of all tables, each once."""
        return tuple(dict.fromkeys(run for table in self.tables for run in table.runs))


@cache
def load_recipes() -> Recipes:
    """Read the shipped recipes."""
    values = _read("recipes.toml")
    values["tables"] = [_expanded(table) for table in values["tables"]]
    values["banks"] = {name: {"name": name, **bank} for name, bank in values["banks"].items()}
    return msgspec.convert(values, Recipes)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("svr_async.reproduction").joinpath(name).read_text("utf-8"))


def _expanded(table: dict[str, Any]) -> dict[str, Any]:
    """Write out the runs of each row: a `run` is made on each benchmark of the table, `runs` on the only one."""
    benchmarks = table.pop("benchmarks", {})
    for row in table.get("rows", ()):
        if "run" in row:
            run = row.pop("run")
            row["runs"] = {name: {"benchmark": name, **more, **run} for name, more in benchmarks.items()}
        else:
            (name,) = benchmarks
            row["runs"] = {column: {"benchmark": name, **run} for column, run in row["runs"].items()}
    return table


def plan_of(names: Sequence[str]) -> Recipes:
    """Return the tables named by label or by its end, with what they need; `all` is every table.

    UsageError for an unknown name.
    """
    every = load_recipes()
    unknown = set(names) - {"all"} - {name for table in every.tables for name in (table.label, table.short)}
    if unknown:
        hint = f"there are all, {', '.join(table.short for table in every.tables)}"
        raise UsageError(f"the paper has no table {min(unknown)!r}", hint=hint)
    tables = tuple(table for table in every.tables if {"all", table.label, table.short} & set(names))
    plan = Recipes(tables=tables, roles=every.roles, banks=every.banks)
    banks = {bank: every.banks[bank] for table in tables for bank in table.needed_banks}
    roles = [*(bank.judge for bank in banks.values()), *(role for run in plan.runs for role in run.roles)]
    return Recipes(tables=tables, roles={role: every.roles[role] for role in roles}, banks=banks)


def list_tables() -> str:
    """Return a line for each table: its name, label and title."""
    return "\n".join(f"{table.short:<22}{table.label:<28}{table.title}" for table in load_recipes().tables)


# --- printed numbers --------------------------------------------------------------------------------------------------


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
        """Return a cell's number; None if the paper prints no number there."""
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
    return msgspec.convert(_read("printed.toml"), Printed)
