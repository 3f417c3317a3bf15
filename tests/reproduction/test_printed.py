"""The printed numbers: recipes name their rows, and the listed contradictions follow from other printed numbers."""

from __future__ import annotations

from svr_async.adapters import ADAPTERS
from svr_async.reproduction.accuracy import DOMAINS
from svr_async.reproduction.paper import load_printed, load_recipes

PRINTED = load_printed()
MAIN, NET = PRINTED.table("tab:rubricbench"), PRINTED.table("tab:domain_net_advantage")
LISTED = {one.name: one for one in PRINTED.contradictions}
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
    computed = {"activations": 6.0 * sum(SIZES.values())}  # top 6
    for row in MAIN.rows:
        if abs(number(MAIN.label, row.names, "Overall") - micro_accuracy(row.names)) > 0.1:
            computed[f"{row.names[0]}, overall"] = micro_accuracy(row.names)
    for group, sources in SOURCES.items():
        svr, oracle = (number(MAIN.label, (name, "OSS"), group) for name in ("SVR (Ours)", "Oracle Rubrics"))
        computed[f"net on {group}, pairs"] = SIZES[group] * (svr - oracle) / 100
        printed = sum(number(NET.label, (source,), "Net") for source in sources)
        assert LISTED[f"net on {group}, pairs"].printed == printed
    assert set(LISTED) - set(computed) == {"deficit on code, in the text", "size of the bank", "triples"}
    for name, follows in computed.items():
        assert abs(LISTED[name].follows - follows) < 0.005, name


def test_recipes_name_printed_rows() -> None:
    """Each row of a recipe is a row of its printed table, so a spelling cannot lose a number."""
    names = {table.label: {row.names for row in table.rows} for table in PRINTED.tables}
    for recipe in load_recipes().tables:
        label = MAIN.label if recipe.kind == "overall" else recipe.label
        if recipe.kind in {"domains", "overall", "benches", "ablation", "transfer"}:
            assert {row.names for row in recipe.rows} <= names[label], recipe.label
