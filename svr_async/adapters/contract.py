"""The description of a benchmark or training set, and the registry of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from svr_async.adapters.columns import parse_columns
from svr_async.adapters.dataset import FileReader, OfficialCounts, RowParser, load_dataset
from svr_async.adapters.records import Dataset, PairResult, Parsed
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError, UsageError

__all__ = ["Adapter", "Dataset", "OfficialCounts", "PairResult", "Parsed"]

NAMES = ("rubricbench", "rewardbench", "rewardbench2", "rmbench", "helpsteer3", "rmb", "pairs")
NO_COUNTS = OfficialCounts()
SAMPLE_FILE = "rubricbench_sample.jsonl"

Scorer = Callable[[Sequence[PairResult], float], dict[str, Any]]
"""Judged pairs and the credit for a tie → the benchmark's own scores, as fractions of 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One benchmark or training set.

    `schema` describes the columns, `reading` says how labels are read. `tie_credit` is the official credit for a tie.
    `label` is its name in reports (default: `name`). A path that matches `spelling` (default: `name`) is refused for
    training unless the adapter is for `training`. `read_file` looks at all rows and returns what replaces `parse`.
    `ruled`: its authors say how to score it; `chance`: the score of guessing, if not one half; `shares_prompts`: some
    pairs have one prompt; `sampled`: the shipped sample has its layout.
    """

    name: str
    title: str
    licence: str
    schema: Mapping[str, str]
    parse: RowParser
    score: Scorer
    reading: str = "chosen is better than rejected"
    hub_id: str = ""
    hub_files: tuple[str, ...] = ()
    homepage: str = ""
    read_file: FileReader | None = None
    counts: OfficialCounts = NO_COUNTS
    tie_credit: float = 0.0
    training: bool = False
    label: str = ""
    spelling: str = ""
    ruled: bool = True
    chance: str = ""
    shares_prompts: bool = False
    sampled: bool = False

    def load(
        self,
        path: Path | str,
        *,
        lenient: bool = False,
        official: bool = False,
        columns: str = "",
        label_map: str = "",
    ) -> Dataset:
        """Load a file, a folder, `-` (standard input) or hf:org/name[@revision][:split].

        `columns` names the file's columns as NAME=COLUMN,…, with NAME one of the schema's; `label_map` says what the
        values of a label mean, as 1=a,2=b. See `dataset.load_dataset` for `lenient`, `official` and errors.
        """
        if label_map and self.read_file is None:
            raise UsageError(f"--label-map is for pairs; the labels of {self.name} are fixed", hint="omit --label-map")
        named = parse_columns(columns, self.schema)
        return load_dataset(self, Path(path), columns=named, label_map=label_map, lenient=lenient, official=official)

    def official_scores(
        self, pairs: Iterable[PreferencePair], results: Iterable[PairResult], *, tie_credit: float = 0.0
    ) -> dict[str, Any]:
        """Return the benchmark's own scores over all `pairs`; a pair without a result counts as unscored.

        Always has `overall` (a fraction of 1, or None where no pair has a right answer) and `rule` (in words).
        `tie_credit` is 0 (the paper's code) or 0.5 (RewardBench's official rule for generative judges).
        """
        if tie_credit not in (0.0, 0.5):
            raise ValueError(f"tie_credit must be 0 or 0.5 (got {tie_credit})")
        judged = {result.pair.id: result for result in results}
        return self.score([judged.get(pair.id) or PairResult(pair, None) for pair in pairs], tie_credit)


class _Registry(Mapping[str, Adapter]):
    """A read-only mapping of names to adapters; an adapter's module is imported on access."""

    def __getitem__(self, name: str) -> Adapter:
        if name not in NAMES:
            raise KeyError(name)
        adapter: Adapter = import_module(f"svr_async.adapters.{name}").ADAPTER
        return adapter

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


ADAPTERS: Mapping[str, Adapter] = _Registry()


def get_adapter(name: str) -> Adapter:
    """Return the adapter of this name; UsageError lists the known ones."""
    if name in NAMES:
        return ADAPTERS[name]
    near = difflib.get_close_matches(name.casefold(), NAMES, n=1)
    raise UsageError(
        f"unknown benchmark {name!r}", hint=f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    )


def refuse_benchmark_for_training(name: Path | str) -> None:
    """Raise DataError if a path or format names a benchmark, which is for evaluation only."""
    for adapter in ADAPTERS.values():
        if not adapter.training and re.search(adapter.spelling or adapter.name, str(name).casefold()):
            raise DataError(
                f"{name} is {adapter.label or adapter.name}, and that is for evaluation only",
                hint="train on preference pairs such as HelpSteer3 or RMB",
            )


def load_sample() -> Dataset:
    """Load the small set shipped with the package, in RubricBench's schema; a note says that it is no benchmark."""
    with as_file(files("svr_async.adapters") / "samples" / SAMPLE_FILE) as path:
        dataset = ADAPTERS["rubricbench"].load(path)
    return replace(dataset, name="rubricbench-sample", notes=("the sample shipped with svr-async, not a benchmark",))
