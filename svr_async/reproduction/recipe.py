"""Recipes: what a table is made of, read from TOML: rows, the runs they need, judges by role, banks by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from svr_async.core.validation import type_error
from svr_async.errors import ConfigError

ROLE = re.compile("@([a-z0-9.-]+)")
PLAIN = re.compile(r"[\w-][\w.-]{0,99}", re.ASCII)  # no path leads out of a folder
JUDGES, BANKS = "judges.toml", "banks.toml"
FORM = "docs/reproduction.md has the form"
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """An evaluation by the names of its parts: which benchmark, method, role of a judge, bank, and rubrics a prompt.

    `option` are the method's, NAME=VALUE, where @ROLE stands for the judge of another role.
    """

    benchmark: str
    method: str
    judge: str
    bank: str = ""
    top_k: int | None = None
    domain: tuple[str, ...] = ()
    option: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it needs: its judge's, and those of its options."""
        return (self.judge, *(role for text in self.option for role in ROLE.findall(text)))

    @property
    def name(self) -> str:
        """A name for its folder."""
        parts = (self.benchmark, self.method, self.bank, "" if self.top_k is None else f"top{self.top_k}", self.judge)
        return "-".join(filter(None, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeRow:
    """A row of a table: the names that head it, as in `printed.toml`, and its runs by column or benchmark."""

    names: tuple[str, ...]
    runs: Mapping[str, RunSpec]
    group: str = ""

    @property
    def run(self) -> RunSpec:
        """The only run, or the first."""
        return next(iter(self.runs.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A table or figure: the paper's label, how it is built (`kind`), its rows, and the banks that it shows."""

    label: str
    title: str
    kind: str
    heads: tuple[str, ...] = ()
    rows: tuple[RecipeRow, ...] = ()
    banks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The label without its kind, for the name of a file."""
        return self.label.partition(":")[2]

    @property
    def runs(self) -> tuple[RunSpec, ...]:
        """All runs that it needs, each once."""
        return tuple(dict.fromkeys(run for row in self.rows for run in row.runs.values()))

    @property
    def needed_banks(self) -> tuple[str, ...]:
        """All banks that it needs, each once."""
        return tuple(dict.fromkeys([*self.banks, *(run.bank for run in self.runs if run.bank)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A judge that rows name: which one it is by default ("" for none), and how it is called in the paper."""

    name: str
    label: str
    judge: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankSpec:
    """A bank that rows name: the role of the judge that trains it, and the parts of Algorithm 1 that are left out."""

    name: str
    judge: str
    ablate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipes:
    """All recipes in their order, with the roles and banks that they name."""

    tables: tuple[Recipe, ...]
    roles: Mapping[str, Role] = field(default_factory=dict)
    banks: Mapping[str, BankSpec] = field(default_factory=dict)


def load_recipes(folder: Path | None = None) -> Recipes:
    """Read the shipped recipes, or those of a folder in their place; ConfigError names the file that is wrong.

    A folder without judges.toml or banks.toml takes the shipped one.
    """
    shipped = resources.files("svr_async.reproduction").joinpath("recipes")
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"--recipes {folder} is no folder", hint=FORM)
    place: Traversable = shipped if folder is None else folder
    files = {one.name: one for one in place.iterdir() if one.name.endswith(".toml")}
    tables = [_table(name, _parsed(file)) for name, file in sorted(files.items()) if name not in {JUDGES, BANKS}]
    if not tables:
        raise ConfigError(f"{folder} holds no recipe", hint=FORM)
    judges = _parsed(files.get(JUDGES, shipped.joinpath(JUDGES)))
    banks = _parsed(files.get(BANKS, shipped.joinpath(BANKS)))
    recipes = Recipes(
        tables=tuple(recipe for _, recipe in sorted(tables, key=lambda one: one[0])),
        roles={name: _made(Role, JUDGES, {"name": name, **_object(JUDGES, one)}) for name, one in judges.items()},
        banks={
            name: _made(BankSpec, BANKS, {"name": name, **_tuples(_object(BANKS, one))}) for name, one in banks.items()
        },
    )
    _refuse_paths(recipes)
    _refuse_unknown(recipes)
    return recipes


def _parsed(file: Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the recipe {file.name}: {error}") from error


def _table(name: str, value: dict[str, Any]) -> tuple[int, Recipe]:
    value = dict(value)
    place, benches, listed = value.pop("place", 0), _object(name, value.pop("benchmarks", {})), value.pop("row", ())
    if not isinstance(place, int) or not isinstance(listed, list | tuple):
        raise ConfigError(f"the recipe {name}: place is a number, and [[row]] a table", hint=FORM)
    rows = tuple(_row(name, _object(name, row), benches) for row in listed)
    return place, _made(Recipe, name, {**_tuples(value), "rows": rows})


def _row(file: str, value: Mapping[str, Any], benches: Mapping[str, Mapping[str, Any]]) -> RecipeRow:
    value, found = dict(value), list(benches.items())
    run, runs = value.pop("run", None), value.pop("runs", None)
    if not found or (run is None) == (runs is None):
        raise ConfigError(f"{file}: a row needs run or runs, and the table benchmarks", hint=f"the row is {value}")
    if runs is None:
        held = {bench: _run(file, bench, more, run) for bench, more in found}
    else:
        held = {name: _run(file, *found[0], one) for name, one in _object(file, runs).items()}
    return _made(RecipeRow, file, {**_tuples(value), "runs": held})


def _run(file: str, bench: str, more: Mapping[str, Any], value: Mapping[str, Any]) -> RunSpec:
    return _made(RunSpec, file, _tuples({"benchmark": bench, **_object(file, more), **_object(file, value)}))


def _object(file: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"the recipe {file}: {str(value)[:60]!r} stands where a table is wanted", hint=FORM)
    return value


def _tuples(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}


def _made(kind: type[R], file: str, values: Mapping[str, Any]) -> R:
    try:
        made = kind(**values)
        wrong = type_error(made)
    except TypeError as error:
        wrong = str(error)
    if wrong:
        raise ConfigError(f"the recipe {file}: {wrong}", hint=FORM)
    return made


def _refuse_unknown(recipes: Recipes) -> None:
    """Raise ConfigError for a row that names a role or a bank that is not there."""
    for recipe in recipes.tables:
        for bank in recipe.needed_banks:
            if bank not in recipes.banks:
                raise ConfigError(f"{recipe.label} names the bank {bank!r}, which {BANKS} does not have")
    judged = [(recipe.label, role) for recipe in recipes.tables for run in recipe.runs for role in run.roles]
    for label, judge in [*judged, *((f"bank {bank.name}", bank.judge) for bank in recipes.banks.values())]:
        if judge not in recipes.roles:
            raise ConfigError(f"{label} names the judge {judge!r}, which {JUDGES} does not have")


def _refuse_paths(recipes: Recipes) -> None:
    """Raise ConfigError for a table, a role or a bank whose name is none for the file or folder that is called so."""
    for name in (*(one.short for one in recipes.tables), *recipes.roles, *recipes.banks):
        if not PLAIN.fullmatch(name):
            raise ConfigError(f"a recipe names {name[:80]!r}", hint="letters, digits, _, - and . make a name")


def chosen(recipes: Recipes, names: Iterable[str]) -> tuple[Recipe, ...]:
    """Return the tables of these labels, or of their short names; `all` are all. ConfigError names those there are."""
    wanted = list(names)
    if "all" in wanted:
        return recipes.tables
    unknown = [name for name in wanted if not any(name in (one.label, one.short) for one in recipes.tables)]
    if unknown:
        known = ", ".join(recipe.short for recipe in recipes.tables)
        raise ConfigError(f"there is no table {unknown[0]!r}", hint=f"there are all, {known}")
    return tuple(one for one in recipes.tables if one.label in wanted or one.short in wanted)
