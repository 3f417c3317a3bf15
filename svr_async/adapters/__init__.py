"""One file per benchmark or training set: rows in, pairs out, official score."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

from svr_async.adapters.contract import Adapter
from svr_async.adapters.pairs import PAIRS
from svr_async.adapters.records import Dataset, PairResult
from svr_async.adapters.rewardbench import REWARDBENCH, REWARDBENCH2
from svr_async.adapters.rmbench import RMBENCH
from svr_async.adapters.rubricbench import RUBRICBENCH
from svr_async.adapters.training_sets import HELPSTEER3, RMB
from svr_async.errors import DataError, UsageError

__all__ = ["ADAPTERS", "Adapter", "Dataset", "PairResult"]

ADAPTERS: dict[str, Adapter] = {
    one.name: one for one in (RUBRICBENCH, REWARDBENCH, REWARDBENCH2, RMBENCH, HELPSTEER3, RMB, PAIRS)
}


def get_adapter(name: str) -> Adapter:
    """Return the adapter of this name; UsageError lists the known ones."""
    if name in ADAPTERS:
        return ADAPTERS[name]
    near = difflib.get_close_matches(name.casefold(), ADAPTERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ADAPTERS)}"
    raise UsageError(f"unknown benchmark {name!r}", hint=hint)


def refuse_benchmark_for_training(name: Path | str) -> None:
    """Raise DataError if a path or format names a benchmark, which is for evaluation only."""
    for adapter in ADAPTERS.values():
        if not adapter.training and re.search(adapter.spelling or adapter.name, str(name).casefold()):
            hint = "train on preference pairs such as HelpSteer3 or RMB"
            raise DataError(f"{name} is {adapter.title}, and that is for evaluation only", hint=hint)


def load_sample() -> Dataset:
    """Load the small set shipped with the package, in RubricBench's schema; a note says that it is no benchmark."""
    with as_file(files("svr_async.adapters") / "samples" / "rubricbench_sample.jsonl") as path:
        dataset = RUBRICBENCH.load(path)
    return replace(dataset, name="rubricbench-sample", notes=("the sample shipped with svr-async, not a benchmark",))
