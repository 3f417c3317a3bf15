"""What the paper prints: the data file is whole, recipes name its rows, the arithmetic finds what does not add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svr_async.errors import UsageError
from svr_async.reproduction.arithmetic import PAIRS, checks, headline_gap, marks, micro_accuracy
from svr_async.reproduction.printed import Printed, load_printed
from svr_async.reproduction.recipe import load_recipes

PRINTED = load_printed()
MARKS = {
    ("tab:rubricbench", "Oracle Rubrics · OSS, overall"): (83.1, 84.0),
    ("tab:rubricbench", "RRD · OSS, overall"): (57.6, 59.7),
    ("tab:domain_net_advantage", "deficit on code, in the text"): (-13, -10),
    ("tab:domain_net_advantage", "net on IF"): (1, 0),
    ("tab:domain_net_advantage", "net on Code"): (-5, -8.1),
    ("tab:domain_net_advantage", "net on Safety"): (-5, -7.0),
    ("tab:bank_distribution", "activations"): (45_693, 6_882),
    ("fig:training_dynamics", "size of the bank"): (1_023, 1_024),
    ("sec:exp", "triples"): (38_459, 38_458),
}


def test_every_row_fits_the_columns_of_its_table() -> None:
    """A table of the data file has a name for each value of each row, and no row twice."""
    assert {table.label for table in PRINTED.tables} >= {"tab:rubricbench", "tab:rmbenches", "tab:hparams"}
    for table in PRINTED.tables:
        assert table.columns
        assert len({row.names for row in table.rows}) == len(table.rows)
        assert all(0 < len(row.values) <= len(table.columns) for row in table.rows), table.label


def test_the_printed_numbers_that_do_not_follow_from_others_are_these() -> None:
    """The arithmetic marks exactly what is known not to add up, and of each what follows instead."""
    found = {(check.label, check.name): (check.printed, round(check.follows, 1)) for check in marks(PRINTED)}
    assert found == MARKS
    assert len(checks(PRINTED)) > 90


def test_the_headline_gap_is_three_pairs() -> None:
    """950 against 953 of 1,147 pairs: McNemar's p is 0.86 in the normal limit and 0.91 exactly."""
    gap = headline_gap(PRINTED)
    assert (gap.pairs, round(gap.normal, 2), round(gap.exact, 2)) == (3, 0.86, 0.91)
    counts = PRINTED.table("tab:error_overlap").column("Count")
    assert (counts[0] + counts[1], counts[0] + counts[2], sum(counts)) == (950, 953, PAIRS)


def test_overall_is_micro_accuracy_over_the_pairs() -> None:
    """Eleven of thirteen printed rows are the mean of their domain cells, weighted by the benchmark's counts."""
    table = PRINTED.table("tab:rubricbench")
    assert round(micro_accuracy(table, ("SVR (Ours)", "OSS")), 2) == 82.85
    near = [
        abs(micro_accuracy(table, row.names) - (table.number(row.names, "Overall") or 0)) < 0.1 for row in table.rows
    ]
    assert (sum(near), len(near)) == (11, 13)


def test_a_number_that_is_changed_is_a_further_mark() -> None:
    """Were one cell of the average column another, the arithmetic would find it."""
    table = PRINTED.table("tab:rmbenches")
    row = replace(table.rows[0], values=(*table.rows[0].values[:-1], 91.3))
    changed = replace(table, rows=(row, *table.rows[1:]))
    others = tuple(changed if one is table else one for one in PRINTED.tables)
    found = marks(Printed(tables=others, numbers=PRINTED.numbers, passed={}))
    assert {(check.label, check.name) for check in found} - set(MARKS) == {("tab:rmbenches", "Skywork, average")}


def test_recipes_stand_beside_printed_rows() -> None:
    """Each row of a recipe whose table is printed names a row of it, so that no number is lost by a spelling."""
    names = {table.label: {row.names for row in table.rows} for table in PRINTED.tables}
    for recipe in load_recipes().tables:
        label = "tab:rubricbench" if recipe.kind == "overall" else recipe.label
        if recipe.kind in {"domains", "overall", "benches", "ablation", "transfer"}:
            assert {row.names for row in recipe.rows} <= names[label], recipe.label


def test_asking_for_what_is_not_printed_says_so() -> None:
    """A row or column that the paper does not have is an error in a line, never a number."""
    with pytest.raises(UsageError, match="tab:ablation prints nothing for no such row, Accuracy"):
        PRINTED.table("tab:ablation").number(("no such row",), "Accuracy")
