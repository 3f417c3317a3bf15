"""The numbers that the paper prints (printed.toml), and where they contradict each other."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import fsum

import msgspec

from svr_async.errors import UsageError

GROUP_SIZES = {"Chat": 422, "IF": 124, "STEM": 250, "Code": 271, "Safety": 80}  # RubricBench's own counts
PAIRS = sum(GROUP_SIZES.values())
TOP_K = 6
HELPSTEER3_TRAIN = 38_459  # rows of HelpSteer3's train split with ties, which are no triples (its data card)
SOURCES = {"Code": ("code", "MBPP"), "Safety": ("safety", "harmlessness"), "IF": ("ifeval", "precise IF")}


class PrintedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row: the names that head it, and its values in the order of the columns."""

    names: tuple[str, ...]
    values: tuple[float, ...]


class PrintedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the paper; a row may have fewer values than there are columns: its last cells are empty."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[PrintedRow, ...]

    def number(self, names: tuple[str, ...], column: str) -> float | None:
        """Return a cell's number, or None if it is empty; UsageError for an unknown row or column."""
        row = next((row for row in self.rows if row.names == names), None)
        if row is None or column not in self.columns:
            raise UsageError(f"{self.label} prints nothing for {' · '.join(names)}, {column}", hint="see printed.toml")
        place = self.columns.index(column)
        return row.values[place] if place < len(row.values) else None


class Printed(msgspec.Struct, frozen=True, kw_only=True):
    """All printed tables, and numbers of the text by label and name."""

    tables: tuple[PrintedTable, ...]
    text: Mapping[str, Mapping[str, float]]

    def table(self, label: str) -> PrintedTable:
        """Return a table by its label."""
        return next(table for table in self.tables if table.label == label)


@cache
def load_printed() -> Printed:
    """Read the shipped numbers."""
    text = resources.files("svr_async.reproduction").joinpath("printed.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Printed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A printed number, and what other printed numbers give instead."""

    label: str
    name: str
    printed: float
    follows: float
    source: str


def contradictions(printed: Printed) -> Iterator[Contradiction]:
    """Yield the printed numbers that do not follow from others, beyond rounding."""
    main, text = printed.table("tab:rubricbench"), printed.text
    for method in ("Oracle Rubrics", "RRD"):
        names = (method, "OSS")
        follows = micro_accuracy(main, names)
        source = "its domain cells, weighted by the benchmark's counts"
        yield _contradiction(main.label, f"{method}, overall", main.number(names, "Overall"), follows, source)
    net = printed.table("tab:domain_net_advantage")
    code = text["app:residual"]["code_deficit"]
    yield _contradiction(net.label, "deficit on code, in the text", code, net.number(("code",), "Net"), "its row")
    for group, listed in SOURCES.items():
        counted = sum(net.number((name,), "Net") or 0.0 for name in listed)
        svr, oracle = (main.number((name, "OSS"), group) or 0.0 for name in ("SVR (Ours)", "Oracle Rubrics"))
        pairs = GROUP_SIZES[group] * (svr - oracle) / 100
        yield _contradiction(net.label, f"net on {group}, pairs", counted, pairs, "two cells of tab:rubricbench")
    active = printed.table("tab:bank_distribution").number(("Total",), "Activations")
    source = f"top {TOP_K} on {PAIRS:,} pairs, at most"
    yield _contradiction("tab:bank_distribution", "activations", active, PAIRS * TOP_K, source)
    near = text["fig:training_dynamics"]["bank_near"]
    yield _contradiction("fig:training_dynamics", "size of the bank", near, text["app:bank"]["rubrics"], "app:bank")
    source = "rows of HelpSteer3's train split; ties are no triples, so there are fewer"
    yield _contradiction("sec:exp", "triples", text["sec:exp"]["triples"], HELPSTEER3_TRAIN - 1, source)


def micro_accuracy(table: PrintedTable, names: tuple[str, ...]) -> float:
    """Return the accuracy over all pairs, in percent, that the cells of the five domains give."""
    return fsum(size * (table.number(names, group) or 0.0) for group, size in GROUP_SIZES.items()) / PAIRS


def _contradiction(label: str, name: str, printed: float | None, follows: float | None, source: str) -> Contradiction:
    assert printed is not None
    assert follows is not None
    return Contradiction(label=label, name=name, printed=printed, follows=follows, source=source)
