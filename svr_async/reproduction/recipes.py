"""Recipes (recipes.toml): the rows of each table, the runs they need, judges by role, banks by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
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
    """All tables in the paper's order, with the roles and banks that they name."""

    tables: tuple[Recipe, ...]
    roles: Mapping[str, Role]
    banks: Mapping[str, BankSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The chosen tables, and the banks, runs and roles that they need, each once."""

    tables: tuple[Recipe, ...]
    banks: tuple[BankSpec, ...]
    runs: tuple[RunSpec, ...]
    roles: Mapping[str, Role]


@cache
def load_recipes() -> Recipes:
    """Read the shipped recipes."""
    text = resources.files("svr_async.reproduction").joinpath("recipes.toml").read_text("utf-8")
    values = tomllib.loads(text)
    values["tables"] = [_expanded(table) for table in values["tables"]]
    values["banks"] = {name: {"name": name, **bank} for name, bank in values["banks"].items()}
    return msgspec.convert(values, Recipes)


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


def plan_of(names: Sequence[str]) -> Plan:
    """Return the plan of tables, named by label or by its end; `all` is every table. UsageError for others."""
    recipes = load_recipes()
    tables = _chosen(recipes.tables, names)
    runs = tuple(dict.fromkeys(run for table in tables for run in table.runs))
    banks = [recipes.banks[name] for name in dict.fromkeys(bank for table in tables for bank in table.needed_banks)]
    roles = dict.fromkeys([*(bank.judge for bank in banks), *(role for run in runs for role in run.roles)])
    return Plan(tables=tables, banks=tuple(banks), runs=runs, roles={role: recipes.roles[role] for role in roles})


def _chosen(tables: tuple[Recipe, ...], names: Iterable[str]) -> tuple[Recipe, ...]:
    wanted = set(names)
    if "all" in wanted:
        return tables
    unknown = wanted - {name for table in tables for name in (table.label, table.short)}
    if unknown:
        hint = f"there are all, {', '.join(table.short for table in tables)}"
        raise UsageError(f"the paper has no table {min(unknown)!r}", hint=hint)
    return tuple(table for table in tables if wanted & {table.label, table.short})


def list_tables() -> str:
    """Return a line for each table: its name, label and title."""
    return "\n".join(f"{table.short:<22}{table.label:<28}{table.title}" for table in load_recipes().tables)
