"""Which pairs `svr eval` judges: a file, the sample or the benchmark."""

from __future__ import annotations

from pathlib import Path

from svr_async.adapters import Adapter, Dataset, load_sample
from svr_async.adapters.hub import fetch
from svr_async.commands.eval.flags import EvalFlags
from svr_async.errors import UsageError


def load_dataset(flags: EvalFlags, adapter: Adapter) -> Dataset:
    """Load --data, the sample, or the downloaded benchmark."""
    if flags.sample and flags.data is not None:
        raise UsageError("--sample and --data exclude each other", hint="give one of them")
    if flags.sample:
        if not adapter.sampled:
            raise UsageError(f"there is no sample for {adapter.name}", hint="svr eval rubricbench --sample")
        return load_sample()
    if flags.data is not None:
        return adapter.load(flags.data, lenient=flags.lenient)
    if not adapter.hub_id:
        raise UsageError(f"svr eval {adapter.name} needs --data PATH", hint="json, jsonl, csv or parquet, or a folder")
    return adapter.load(fetch(adapter, Path("cache/hub")), official=True)
