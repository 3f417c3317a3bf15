"""One file per benchmark or training set: rows in, pairs out, official score."""

from svr_async.adapters.contract import Adapter, Dataset, PairResult
from svr_async.adapters.registry import ADAPTERS, get_adapter, refuse_benchmark_for_training
from svr_async.adapters.sample import load_sample

__all__ = [
    "ADAPTERS",
    "Adapter",
    "Dataset",
    "PairResult",
    "get_adapter",
    "load_sample",
    "refuse_benchmark_for_training",
]
