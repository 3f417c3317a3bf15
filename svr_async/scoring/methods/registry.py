"""The methods by name, and their options; a module is imported when one of its methods is used."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from svr_async.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from svr_async.scoring.methods.contract import Part, Recipe

MODULES = {
    "svr": "svr",
    "uniform": "svr",
    **dict.fromkeys(("direct", "self-rubric", "oracle", "fixed", "pointwise"), "simple"),
    "rrd": "rrd",
    **dict.fromkeys(("rubric-arm", "rubric-arrow", "rm-r1"), "generative"),
    **dict.fromkeys(("longest", "shortest", "first"), "simple"),
}
"""The module of `svr_async.scoring.methods` that makes a method; its `RECIPES` have the name."""
NAMES = tuple(MODULES)
KINDS = {int: "a whole number", float: "a number"}


def find_recipe(name: str) -> Recipe:
    """Return how to make a method; UsageError lists the known names."""
    if name in MODULES:
        recipe: Recipe = import_module(f"svr_async.scoring.methods.{MODULES[name]}").RECIPES[name]
        return recipe
    hint = did_you_mean(name.casefold(), NAMES) or f"choose from {', '.join(NAMES)}"
    raise UsageError(f"unknown method {name!r}", hint=hint)


def names_that_take(part: Part) -> tuple[str, ...]:
    """Return the methods that can be made of a part."""
    return tuple(name for name in NAMES if part in find_recipe(name).takes)


def read_options(kind: type[Any] | None, method: str, given: Sequence[str]) -> Any:
    """Return the record with what was given; None for a method without options. UsageError for what it does not have.

    A field that is a tuple of texts takes them with commas between. What the record refuses, with a ValueError, is a
    UsageError too.
    """
    if kind is None:
        if given:
            raise UsageError(f"--method {method} has no options", hint=f"leave --option {given[0]} out")
        return None
    hints = typing.get_type_hints(kind)
    values = dict(_named(text, method, [one.name for one in fields(kind)]) for text in given)
    try:
        return kind(**{name: _read(name, text, hints[name]) for name, text in values.items()})
    except ValueError as error:
        raise UsageError(f"--method {method}: {error}") from error


def _named(text: str, method: str, known: Sequence[str]) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if mark and name in known:
        return name, value.strip()
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}=?" if near else f"its options are {', '.join(known)}"
    what = f"has no option {name!r}" if mark else f"takes options as NAME=VALUE, not {text!r}"
    raise UsageError(f"--method {method} {what}", hint=hint)


def _read(name: str, text: str, kind: Any) -> Any:
    if kind not in KINDS:
        return text if kind is str else tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} is {KINDS[kind]} (got {text!r})") from None
