"""The small set of pairs that comes with the package, in RubricBench's schema, written for this project."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

from svr_async.adapters.records import Dataset
from svr_async.adapters.registry import ADAPTERS

SAMPLE_FILE = "rubricbench_sample.jsonl"


def load_sample() -> Dataset:
    """Load the shipped sample; its scores say nothing about RubricBench, and a note says so."""
    with as_file(files("svr_async.adapters") / "samples" / SAMPLE_FILE) as path:
        dataset = ADAPTERS["rubricbench"].load(path)
    return replace(dataset, name="rubricbench-sample", notes=("the sample shipped with svr-async, not a benchmark",))
