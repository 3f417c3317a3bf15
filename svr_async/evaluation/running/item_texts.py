"""The texts of one pair of a run, read again from its data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svr_async.adapters import get_adapter, load_sample
from svr_async.errors import UsageError
from svr_async.evaluation.labels import SAMPLE_SUFFIX
from svr_async.evaluation.runfolder import Run, Texts
from svr_async.vocabulary.pair import prompt_text


def texts_from_data(run: Run, item_id: str, data: Path | None, benchmark: str | None) -> Texts | None:
    """Return the texts of a pair from its data set: the shipped sample, or `data`; None where neither is meant."""
    if data is None and run.manifest.get("sample") is not True:
        return None
    name = benchmark or str(run.metrics["benchmark"]).removesuffix(SAMPLE_SUFFIX)
    config: Mapping[str, Any] = run.manifest.get("config") or {}
    columns, labels = (str(config.get(name) or "") for name in ("columns", "labels"))
    dataset = (
        load_sample() if data is None else get_adapter(name).load(data, lenient=True, columns=columns, labels=labels)
    )
    pair = next((pair for pair in dataset.pairs if pair.id == item_id), None)
    if pair is not None:
        return Texts(prompt=prompt_text(pair.prompt), response_a=pair.response_a, response_b=pair.response_b)
    if data is None:
        return None
    raise UsageError(f"--data {data} has no pair {item_id!r}", hint="give the data that the run judged")
