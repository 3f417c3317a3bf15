"""The printed numbers: the data file is whole, recipes name its rows, contradictions are exactly the known ones."""

from __future__ import annotations

from svr_async.reproduction.printed import contradictions, load_printed, micro_accuracy
from svr_async.reproduction.recipes import load_recipes

PRINTED = load_printed()
KNOWN = {
    ("tab:rubricbench", "Oracle Rubrics, overall"): (83.1, 84.0),
    ("tab:rubricbench", "RRD, overall"): (57.6, 59.7),
    ("tab:domain_net_advantage", "deficit on code, in the text"): (-13, -10),
    ("tab:domain_net_advantage", "net on IF, pairs"): (1, 0),
    ("tab:domain_net_advantage", "net on Code, pairs"): (-5, -8.1),
    ("tab:domain_net_advantage", "net on Safety, pairs"): (-5, -7.0),
    ("tab:bank_distribution", "activations"): (45_693, 6_882),
    ("fig:training_dynamics", "size of the bank"): (1_023, 1_024),
    ("sec:exp", "triples"): (38_459, 38_458),
}


def test_the_contradictions_are_these() -> None:
    """Each known contradiction is computed from the printed numbers; other rows agree with their domain cells."""
    found = {(one.label, one.name): (one.printed, round(one.follows, 1)) for one in contradictions(PRINTED)}
    assert found == KNOWN
    table = PRINTED.table("tab:rubricbench")
    gaps = [abs(micro_accuracy(table, row.names) - (table.number(row.names, "Overall") or 0)) for row in table.rows]
    assert (sum(gap < 0.1 for gap in gaps), len(gaps)) == (11, 13)


def test_recipes_name_printed_rows() -> None:
    """Each row of a recipe is a row of its printed table, so a spelling cannot lose a number."""
    names = {table.label: {row.names for row in table.rows} for table in PRINTED.tables}
    for recipe in load_recipes().tables:
        label = "tab:rubricbench" if recipe.kind == "overall" else recipe.label
        if recipe.kind in {"domains", "overall", "benches", "ablation", "transfer"}:
            assert {row.names for row in recipe.rows} <= names[label], recipe.label
