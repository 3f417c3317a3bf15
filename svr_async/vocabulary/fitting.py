"""Whether the values of a record are of the kinds that its fields name: records are made of files, which may hold all."""

from __future__ import annotations

import builtins
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin


def misfit(record: Any) -> str:
    """Return what is wrong with the first value of a dataclass that is of another kind than its field; "" if none is.

    Looked at are texts, numbers, flags, null, tuples, lists, mappings, unions, literals and classes; other kinds pass.
    """
    hints = _hints(type(record))
    for one in fields(record):
        value = getattr(record, one.name)
        if not fits(value, hints[one.name]):
            return f"{one.name} is {_short(value)}"
    return ""


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind, as annotations name it; a whole number is a number, a flag is none."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in {Union, types.UnionType}:
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(value == one for one in inner)
    if origin is tuple:
        kinds = inner[:1] * len(value) if isinstance(value, tuple) and inner[-1] is Ellipsis else inner
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(fits, value, kinds))
    if origin is list:
        return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if kind in {int, float}:
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    return not isinstance(kind, type) or isinstance(value, kind)


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, localns=_Names(vars(builtins) | vars(sys.modules[kind.__module__])))


class _Names(dict[str, Any]):
    """The names that a module's annotations use; one that is imported for a type checker alone stands for anything."""

    def __missing__(self, name: str) -> Any:
        return Any


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
