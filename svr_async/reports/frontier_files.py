"""A frontier as CSV and as JSON: one row a point, fractions of 1, dollars, tokens."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from svr_async.core.table import csv_text
from svr_async.evaluation.frontier import Frontier, Point

OPTIMISM = (
    "Thresholds are drawn from the margins of these pairs, and accuracy is measured on the labels of the same pairs: "
    "the best of many points looks better than it will be on other pairs."
)
HEADS = (
    "best", "kind", "judges", "rule", "top_k", "audit_below", "escalate_below", "n", "accuracy", "low", "high",
    "calls", "tokens", "usd", "missing",
)  # fmt: skip


def as_json(found: Frontier) -> bytes:
    """Return the frontier with its caveat; points that lack replies are listed apart, without numbers."""
    value = {
        "n_pairs": found.n_pairs,
        "optimism": OPTIMISM,
        "held_out_accuracy": found.held_out,
        "points": [row_of(point) for point in found.points],
        "left_out": [
            {name: value for name, value in row_of(point).items() if name in {*HEADS[1:7], "missing"}}
            for point in found.left_out
        ],
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_csv(found: Frontier) -> str:
    """Return the points; those that lack replies come last, with how many pairs lack one and no numbers."""
    out = io.StringIO()
    writer = csv.DictWriter(out, HEADS, lineterminator="\r\n")
    writer.writeheader()
    for point in found.points:
        writer.writerow(_cells(row_of(point)))
    for point in found.left_out:
        row = row_of(point)
        writer.writerow(_cells({name: row[name] for name in (*HEADS[1:7], "missing")}))
    return out.getvalue()


def row_of(point: Point) -> dict[str, Any]:
    """Return a point as plain values, under the names of the columns."""
    setting, (low, high) = point.setting, point.ci95
    return {
        "best": point.best,
        "kind": setting.kind,
        "judges": list(setting.judges),
        "rule": setting.rule,
        "top_k": setting.top_k,
        "audit_below": setting.audit_below,
        "escalate_below": setting.escalate_below,
        "n": len(point.right),
        "accuracy": round(point.accuracy, 6),
        "low": round(low, 6),
        "high": round(high, 6),
        "calls": point.calls,
        "tokens": point.tokens,
        "usd": None if point.usd is None else round(point.usd, 6),
        "missing": point.missing,
    }


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: csv_text(" ".join(value) if isinstance(value, list) else value)
        if isinstance(value, list | str)
        else ("" if value is None else value)
        for name, value in row.items()
    }
