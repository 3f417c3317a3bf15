"""Builds the tables of the paper from finished runs and banks, each kind by one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from svr_async.reproduction.printed import Printed, load_printed
from svr_async.reproduction.recipes import Recipe
from svr_async.reproduction.runner import Runner
from svr_async.reproduction.table import PaperTable
from svr_async.reproduction.tables.accuracy import ablation, by_domain, overall, topk, transfer
from svr_async.reproduction.tables.bank import distribution, dynamics, examples
from svr_async.reproduction.tables.benches import benches
from svr_async.reproduction.tables.cost import cost
from svr_async.reproduction.tables.overlap import net, overlap

KINDS: Mapping[str, Callable[[Recipe, Printed, Runner], PaperTable]] = {
    "domains": by_domain,
    "overall": overall,
    "ablation": ablation,
    "transfer": transfer,
    "benches": benches,
    "overlap": overlap,
    "net": net,
    "topk": topk,
    "bank": distribution,
    "examples": examples,
    "dynamics": dynamics,
    "cost": cost,
}


def build(recipe: Recipe, runner: Runner) -> PaperTable:
    """Build the table of a recipe."""
    return KINDS[recipe.kind](recipe, load_printed(), runner)
