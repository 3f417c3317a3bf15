"""The methods by name, and their options; a module is imported when one of its methods is used."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

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
    """Return the record with the options given as NAME=VALUE; None for a method without options.

    A tuple of texts is given with commas. UsageError for an unknown name or a value that its type does not allow.
    """
    if kind is None:
        if given:
            raise UsageError(f"--method {method} has no options", hint=f"leave --option {given[0]} out")
        return None
    defaults = {field.name: field.default for field in fields(kind)}
    values: dict[str, Any] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or name not in defaults:
            near = difflib.get_close_matches(name, defaults, 1)
            hint = f"did you mean {near[0]}=?" if near else f"its options are {', '.join(defaults)}"
            what = f"has no option {name!r}" if mark else f"takes options as NAME=VALUE, not {text!r}"
            raise UsageError(f"--method {method} {what}", hint=hint)
        several = [part.strip() for part in value.split(",") if part.strip()]
        values[name] = several if isinstance(defaults[name], tuple) else value.strip()
        try:
            msgspec.convert({name: values[name]}, kind, strict=False)
        except msgspec.ValidationError as error:
            wanted = str(error).partition(" - at ")[0].replace("`", "")
            raise UsageError(f"--method {method}: {name}: {wanted} (got {value!r})") from error
    return msgspec.convert(values, kind, strict=False)
