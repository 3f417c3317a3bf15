"""Which pairs are judged: a file, the sample or the benchmark."""

from __future__ import annotations

from svr_async.adapters import Adapter, Dataset, load_sample
from svr_async.adapters.hub import CACHE, fetch
from svr_async.errors import UsageError
from svr_async.evaluation.running.settings import EvalSettings


def load_dataset(settings: EvalSettings, adapter: Adapter) -> Dataset:
    """Load --data, the sample, or the downloaded benchmark."""
    if settings.sample and settings.data is not None:
        raise UsageError("--sample and --data exclude each other", hint="give one of them")
    if settings.sample:
        if not adapter.sampled:
            raise UsageError(f"there is no sample for {adapter.name}", hint="svr eval rubricbench --sample")
        return load_sample()
    if settings.data is not None:
        return adapter.load(settings.data, lenient=settings.lenient, columns=settings.columns, labels=settings.labels)
    if not adapter.hub_id:
        raise UsageError(f"svr eval {adapter.name} needs --data PATH", hint="json, jsonl, csv or parquet, or a folder")
    return adapter.load(fetch(adapter, CACHE), official=True)
