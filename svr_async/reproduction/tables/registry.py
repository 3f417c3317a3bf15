"""Which function builds tables of which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from svr_async.errors import ConfigError
from svr_async.reproduction.printed import Printed
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Results
from svr_async.reproduction.table import Table
from svr_async.reproduction.tables.accuracy import ablation, by_domain, overall, transfer
from svr_async.reproduction.tables.bank import distribution, examples
from svr_async.reproduction.tables.benches import benches
from svr_async.reproduction.tables.cost import cost
from svr_async.reproduction.tables.overlap import case, net, overlap
from svr_async.reproduction.tables.subsets import subsets
from svr_async.reproduction.tables.topk import topk
from svr_async.reproduction.tables.training import dynamics, hparams, overview

Builder = Callable[[Recipe, Printed, Results], Table]
KINDS: Mapping[str, Builder] = {
    "domains": by_domain,
    "overall": overall,
    "ablation": ablation,
    "transfer": transfer,
    "benches": benches,
    "overlap": overlap,
    "net": net,
    "case": case,
    "topk": topk,
    "subsets": subsets,
    "bank": distribution,
    "examples": examples,
    "dynamics": dynamics,
    "overview": overview,
    "hparams": hparams,
    "cost": cost,
}


def build(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Build a table; ConfigError for a kind that nobody builds."""
    if recipe.kind not in KINDS:
        raise ConfigError(f"{recipe.label} is of the kind {recipe.kind!r}", hint=f"there are {', '.join(KINDS)}")
    return KINDS[recipe.kind](recipe, printed, results)
