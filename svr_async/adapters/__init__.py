"""One file per benchmark or training set: rows in, pairs out, official score."""

from svr_async.adapters.contract import (
    ADAPTERS,
    Adapter,
    Dataset,
    PairResult,
    get_adapter,
    load_sample,
    refuse_benchmark_for_training,
)

__all__ = [
    "ADAPTERS",
    "Adapter",
    "Dataset",
    "PairResult",
    "get_adapter",
    "load_sample",
    "refuse_benchmark_for_training",
]
