"""Checks that the values of a dataclass have the types of its fields: files and callers may supply anything."""

from __future__ import annotations

import builtins
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from svr_async.errors import UsageError

CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = ((str, Path), (Path, str), (int, str), (list, tuple))
"""A value of the first type may be given for a field of the second."""


def type_error(record: Any) -> str:
    """Return an error for the first field of a dataclass whose value has another type; "" if all are right."""
    owner: Any = type(record)
    hints = _hints(owner)
    wrong = next((one.name for one in fields(record) if not has_type(getattr(record, one.name), hints[one.name])), None)
    return "" if wrong is None else f"{wrong} is {short(getattr(record, wrong))}"


def coerce_fields(record: Any) -> None:
    """Convert fields of a frozen dataclass to their types: str to Path, int to str, list to tuple; else UsageError."""
    owner: Any = type(record)
    hints = _hints(owner)
    for field in fields(record):
        value, kind = getattr(record, field.name), hints[field.name]
        made = (make(value) for given, make in CONVERSIONS if isinstance(value, given) and not isinstance(value, bool))
        converted = [value] if has_type(value, kind) else [one for one in made if has_type(one, kind)]
        if not converted:
            name = kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
            raise UsageError(f"{field.name} cannot be {short(value)}", hint=f"its type is {name}")
        object.__setattr__(record, field.name, converted[0])


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value has a type, as annotations name it; an int is a float, a bool is not an int."""
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:  # msgspec takes one custom type in a union
        return any(has_type(value, option) for option in typing.get_args(kind))
    if is_dataclass(kind):
        return isinstance(value, typing.cast("type", kind)) and not type_error(value)
    if isinstance(value, list) and typing.get_origin(kind) is tuple:
        return False
    try:
        msgspec.convert(value, kind, from_attributes=True, dec_hook=_instance)
    except (msgspec.ValidationError, UsageError):
        return False
    return True


def short(value: Any, most: int = 60) -> str:
    """Return a value as Python writes it, in at most `most` characters."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _instance(kind: type, value: Any) -> Any:
    if not isinstance(value, typing.get_origin(kind) or kind):
        raise TypeError(f"not of the type {kind}")
    return value


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, localns=_LenientNames(vars(builtins) | vars(sys.modules[kind.__module__])))


class _LenientNames(dict[str, Any]):
    """The names in a module's annotations; a name that is imported only for a type checker stands for any type."""

    def __missing__(self, name: str) -> Any:
        return Any
