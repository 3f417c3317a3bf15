"""The items of a run as tables for Arrow and pandas, which are loaded only here and only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from svr_async.errors import UsageError
from svr_async.evaluation.items import Item, RubricRow

Table = Literal["items", "rubrics"]
NESTED = {"rubrics", "votes", "reasons", "margins"}  # of an item: tables of their own, or in the item's margin


def columns_of(items: Sequence[Item], of: Table = "items") -> dict[str, list[Any]]:
    """Return a table by columns, rows in the order of the data; UsageError for one that there is not.

    Of `items`: the fields of `Item` but for those that are tables themselves; `margin_ab` and `margin_ba` are its
    margins by order. Of `rubrics`: `item` is the item's id, the others are the fields of `RubricRow`.
    """
    if of == "items":
        rows = [_item_row(item) for item in items]
        return _by_column(rows, [*_plain_fields(), "margin_ab", "margin_ba"])
    if of == "rubrics":
        names = [one.name for one in fields(RubricRow)]
        rows = [{"item": item.id, **{n: getattr(row, n) for n in names}} for item in items for row in item.rubrics]
        return _by_column(rows, ["item", *names])
    raise UsageError(f"a run has no table {of!r}", hint="there are items and rubrics")


def arrow_table(items: Sequence[Item], of: Table = "items") -> Any:
    """Return a `pyarrow.Table`."""
    return _needed("pyarrow", "to_arrow").table(columns_of(items, of))


def pandas_frame(items: Sequence[Item], of: Table = "items") -> Any:
    """Return a `pandas.DataFrame`."""
    return _needed("pandas", "to_pandas").DataFrame(columns_of(items, of))


def _needed(package: str, asked: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError as error:
        raise UsageError(f"{asked}() needs {package}, which is not installed", hint=f"pip install {package}") from error


def _plain_fields() -> list[str]:
    return [one.name for one in fields(Item) if one.name not in NESTED]


def _item_row(item: Item) -> dict[str, Any]:
    plain = {name: _flat(getattr(item, name)) for name in _plain_fields()}
    return plain | {f"margin_{order}": item.margins.get(order) for order in ("ab", "ba")}


def _flat(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _by_column(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [_flat(row[name]) for row in rows] for name in names}
