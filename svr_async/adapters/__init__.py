"""One file per benchmark or training set: rows in, pairs out, official score."""

from __future__ import annotations

from svr_async.adapters.contract import Adapter
from svr_async.adapters.pairs import PAIRS
from svr_async.adapters.records import Dataset, PairResult
from svr_async.adapters.rewardbench import REWARDBENCH, REWARDBENCH2
from svr_async.adapters.rmbench import RMBENCH
from svr_async.adapters.rubricbench import RUBRICBENCH
from svr_async.adapters.training_sets import HELPSTEER3, RMB
from svr_async.errors import UsageError, did_you_mean

__all__ = ["ADAPTERS", "Adapter", "Dataset", "PairResult"]

ADAPTERS: dict[str, Adapter] = {
    one.name: one for one in (RUBRICBENCH, REWARDBENCH, REWARDBENCH2, RMBENCH, HELPSTEER3, RMB, PAIRS)
}


def get_adapter(name: str) -> Adapter:
    """Return the adapter of this name; UsageError lists the known ones."""
    if name in ADAPTERS:
        return ADAPTERS[name]
    hint = did_you_mean(name.casefold(), ADAPTERS) or f"benchmarks are {', '.join(ADAPTERS)}"
    raise UsageError(f"no such file or benchmark: {name!r}", hint=hint)
