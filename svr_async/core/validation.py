"""Whether the values of a record are of the kinds that its fields name: what a file holds may be anything."""

from __future__ import annotations

import builtins
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from svr_async.errors import UsageError

MEANT: tuple[tuple[type, Callable[[Any], Any]], ...] = (  # what a program says, and what a field then holds
    (str, Path), (Path, str), (int, str), (list, tuple),
)  # fmt: skip


def misfit(record: Any) -> str:
    """Return what is wrong with the first value of a dataclass that is of another kind than its field; "" if none is.

    Looked at are texts, numbers, flags, null, tuples, lists, mappings, unions, literals and classes, records among them
    as a whole; other kinds pass.
    """
    return misfit_of(type(record), {one.name: getattr(record, one.name) for one in fields(record)})


def misfit_of(kind: type, values: Mapping[str, Any]) -> str:
    """Return the same of values that a dataclass is to be made of, by the names of its fields."""
    hints = _hints(kind)
    wrong = next((name for name, value in values.items() if not fits(value, hints[name])), None)
    return "" if wrong is None else f"{wrong} is {short(values[wrong])}"


def settle(record: Any) -> None:
    """Make fields of a frozen dataclass what a program means: Path of a text, a text of a number, a tuple of a list.

    UsageError for the first value that is of another kind than its field all the same.
    """
    kind_of: type = type(record)
    hints = _hints(kind_of)
    for one in fields(record):
        value, kind = getattr(record, one.name), hints[one.name]
        meant = (make(value) for said, make in MEANT if isinstance(value, said) and not isinstance(value, bool))
        found = [value] if fits(value, kind) else [made for made in meant if fits(made, kind)]
        if not found:
            raise UsageError(f"{one.name} cannot be {short(value)}", hint=f"it is of the kind {one.type}")
        object.__setattr__(record, one.name, found[0])


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind, as annotations name it; a whole number is a number, a flag is none."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is not None:
        return _fits_inside(value, origin, inner)
    if kind in {int, float}:
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if kind is Any or not isinstance(kind, type):
        return True
    return isinstance(value, kind) and not (is_dataclass(kind) and misfit(value))


def _fits_inside(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    """Whether a value is a union, a literal, a tuple, list or mapping of these kinds."""
    if origin in {Union, types.UnionType}:
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(value == one for one in inner)
    if not isinstance(value, origin):
        return False
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    if isinstance(value, Mapping):
        return all(fits(name, inner[0]) and fits(one, inner[1]) for name, one in value.items())
    return not isinstance(value, list) or all(fits(one, inner[0]) for one in value)


def is_deep(value: Any, most: int = 64) -> bool:
    """Whether lists and tables of a JSON value lie deeper in each other than that: what writes them again would fail.

    A reader of JSON takes a thousand, a writer a quarter of it; nothing of ours has ten.
    """
    level = [value]
    for _ in range(most):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [one for many in inner for one in many]
        if not level:
            return False
    return True


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, localns=_Names(vars(builtins) | vars(sys.modules[kind.__module__])))


class _Names(dict[str, Any]):
    """The names that a module's annotations use; one that is imported for a type checker alone stands for anything."""

    def __missing__(self, name: str) -> Any:
        return Any


def short(value: Any, most: int = 60) -> str:
    """Return a value as Python writes it, in at most so many characters; where it nests without end, say that."""
    try:
        text = repr(value)
    except RecursionError:
        return "nested too deep"
    return text if len(text) <= most else text[: most - 1] + "…"
