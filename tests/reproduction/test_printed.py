"""The printed numbers: recipes name their rows, and the listed contradictions follow from other printed numbers."""

from __future__ import annotations

import pytest

from svr_async.adapters import ADAPTERS
from svr_async.reproduction.accuracy import DOMAINS
from svr_async.reproduction.printed import load_printed
from svr_async.reproduction.recipes import load_recipes

PRINTED = load_printed()
MAIN, NET = PRINTED.table("tab:rubricbench"), PRINTED.table("tab:domain_net_advantage")
SIZES = {name: ADAPTERS["rubricbench"].groups[group] for name, group in DOMAINS.items()}
SOURCES = {"Code": ("code", "MBPP"), "Safety": ("safety", "harmlessness"), "IF": ("ifeval", "precise IF")}


def number(label: str, names: tuple[str, ...], column: str) -> float:
    """Return a printed number."""
    value = PRINTED.table(label).number(names, column)
    assert value is not None
    return value


def micro_accuracy(names: tuple[str, ...]) -> float:
    """Return the accuracy over all pairs that the cells of the five domains give."""
    return sum(size * number(MAIN.label, names, name) for name, size in SIZES.items()) / sum(SIZES.values())


def test_contradictions_follow_from_printed_numbers() -> None:
    """Accuracies of two methods and three nets by source do not agree with the domain cells; other accuracies do."""
    listed = {one.name: (one.printed, one.follows) for one in PRINTED.contradictions}
    for row in MAIN.rows:
        printed, follows = number(MAIN.label, row.names, "Overall"), micro_accuracy(row.names)
        expected = (printed, pytest.approx(follows, abs=0.005))
        assert abs(printed - follows) < 0.1 or listed[f"{row.names[0]}, overall"] == expected
    for group, sources in SOURCES.items():
        svr, oracle = (number(MAIN.label, (name, "OSS"), group) for name in ("SVR (Ours)", "Oracle Rubrics"))
        printed = sum(number(NET.label, (source,), "Net") for source in sources)
        expected = (printed, pytest.approx(SIZES[group] * (svr - oracle) / 100, abs=0.005))
        assert listed[f"net on {group}, pairs"] == expected
    assert listed["activations"] == (number("tab:bank_distribution", ("Total",), "Activations"), 1147 * 6)
    assert len(listed) == 9


def test_recipes_name_printed_rows() -> None:
    """Each row of a recipe is a row of its printed table, so a spelling cannot lose a number."""
    names = {table.label: {row.names for row in table.rows} for table in PRINTED.tables}
    for recipe in load_recipes().tables:
        label = MAIN.label if recipe.kind == "overall" else recipe.label
        if recipe.kind in {"domains", "overall", "benches", "ablation", "transfer"}:
            assert {row.names for row in recipe.rows} <= names[label], recipe.label
