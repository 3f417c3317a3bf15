"""Which pairs are judged: a file, the sample or the benchmark; and the texts of pairs that were judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from svr_async.adapters import Adapter, Dataset, get_adapter, load_sample
from svr_async.adapters.hub import CACHE, fetch
from svr_async.core.pair import PreferencePair, prompt_digest, prompt_text
from svr_async.errors import UsageError
from svr_async.evaluation.labels import SAMPLE_SUFFIX
from svr_async.evaluation.runfolder import Run, Texts
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.judges.shares import WHOLE, Share, places_of


def load_dataset(settings: EvalSettings, adapter: Adapter) -> Dataset:
    """Load --data, the sample, or the downloaded benchmark."""
    if settings.sample and settings.data is not None:
        raise UsageError("--sample and --data exclude each other", hint="give one of them")
    if settings.sample:
        if not adapter.sampled:
            raise UsageError(f"there is no sample for {adapter.name}", hint="svr eval rubricbench --sample")
        return load_sample()
    if settings.data is not None:
        return adapter.load(
            settings.data, lenient=settings.lenient, columns=settings.columns, label_map=settings.label_map
        )
    if not adapter.hub_id:
        raise UsageError(f"svr eval {adapter.name} needs --data PATH", hint="json, jsonl, csv or parquet, or a folder")
    return adapter.load(fetch(adapter, CACHE).files[0], official=True)


def pairs_of(pairs: Sequence[PreferencePair], share: Share) -> Sequence[PreferencePair]:
    """Return the pairs of a shard, in the order of the data."""
    if share == WHOLE:
        return pairs
    return [pairs[place] for place in places_of(map(prompt_digest, pairs), share)]


def texts_of_run(
    run: Run, ids: Sequence[str], data: Path | None = None, benchmark: str | None = None
) -> Mapping[str, Texts]:
    """Return texts of pairs by id from the data set of a run: the shipped sample, or `data`; empty without both.

    `benchmark` is the format of `data`, the run's own unless given. UsageError where `data` lacks one of the pairs.
    """
    if data is None and run.manifest.get("sample") is not True:
        return {}
    name = benchmark or str(run.metrics["benchmark"]).removesuffix(SAMPLE_SUFFIX)
    config: Mapping[str, Any] = run.manifest.get("config") or {}
    columns, label_map = (str(config.get(name) or "") for name in ("columns", "label_map"))
    dataset = (
        load_sample()
        if data is None
        else get_adapter(name).load(data, lenient=True, columns=columns, label_map=label_map)
    )
    wanted = set(ids)
    found = {
        pair.id: Texts(prompt=prompt_text(pair.prompt), response_a=pair.response_a, response_b=pair.response_b)
        for pair in dataset.pairs
        if pair.id in wanted
    }
    if data is not None and (lacking := [one for one in ids if one not in found]):
        raise UsageError(f"--data {data} has no pair {lacking[0]!r}", hint="give the data that the run judged")
    return found
