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

from svr_async.adapters.columns import parse_columns, renamed
from svr_async.adapters.dataset import (
    CONTRADICTING,
    INVALID,
    REPEATED,
    Collector,
    FileReader,
    OfficialCounts,
    RowParser,
    in_rows,
    pairs_digest,
    prompts_note,
)
from svr_async.adapters.hub import Source, Wanted, get_files, open_source
from svr_async.adapters.records import Dataset, PairResult, Parsed
from svr_async.adapters.tables import Encoding, read_rows
from svr_async.core.hub import SCHEME
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
        values of a label mean, as 1=a,2=b. See `load_dataset` for `lenient`, `official` and errors.
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


def load_dataset(
    adapter: Adapter, path: Path, *, columns: Mapping[str, str], label_map: str, lenient: bool, official: bool
) -> Dataset:
    """Read a file, a folder, standard input or files of the hub into a data set.

    Strict: the first invalid row raises; `lenient`: invalid rows are left out and counted. `official`: the path is from
    the official release, so other counts raise. DataError if no usable pair is left.
    """
    source, encoding = open_source(path), Encoding()
    rows = [renamed(row, columns) for row in read_rows(source.path, encoding, source.files)]
    counts, parse = adapter.counts, adapter.parse
    readings: Sequence[str] = (adapter.reading,)
    if adapter.read_file is not None:
        parse, readings = adapter.read_file(rows, label_map, frozenset(columns))
    collected = Collector()
    for row in rows:
        collected.add(row, parse, lenient=lenient)
    pairs = collected.pairs()
    if not pairs:
        why = "; ".join(f"{one.what}: {one.count}" for one in collected.problems.values() if not one.kept)
        message = f"0 usable pairs in {path} ({in_rows(len(rows))}{'; ' + why if why else ''})"
        raise DataError(message, hint=collected.hint or "see `svr data check`")
    mismatch = counts.mismatch(len(rows), collected.groups)
    if mismatch and official:
        raise DataError(f"{path}: {mismatch}", hint="the release has changed; pass the file by --data to use it anyway")
    note = f"{mismatch}: scores are not benchmark scores" if mismatch else counts.label_note(pairs)
    kept = [f"{one.what}: {in_rows(one.count)}" for one in collected.problems.values() if one.kept]
    invalid = collected.count(INVALID)
    extra = (
        note,
        f"{in_rows(invalid)} left out as invalid" if invalid else "",
        *kept,
        prompts_note(pairs),
        f"{encoding.legacy} bytes are not UTF-8 and were read as Windows-1252" if encoding.legacy else "",
        f"{encoding.replaced} characters replaced by U+FFFD (NUL, lone surrogates)" if encoding.replaced else "",
    )
    return Dataset(
        name=adapter.name,
        pairs=pairs,
        source=path,
        digest=pairs_digest(pairs),
        n_rows=len(rows),
        notes=tuple(filter(None, extra)),
        problems=tuple(collected.problems.values()),
        official=bool(counts.rows) and not mismatch and not invalid,
        readings=tuple(filter(None, readings)),
        encoding=str(encoding),
        origin=source.origin,
        repeated=collected.count(REPEATED),
        contradicting=collected.count(CONTRADICTING),
        tied=collected.tied,
    )


def fetch(adapter: Adapter, cache_dir: Path | None = None, *, endpoint: str = "", files: int | None = 1) -> Source:
    """Download the first files of an adapter (None: all), or find them in the cache.

    `endpoint` (default: the variable HF_ENDPOINT, else the public hub) names another server.
    """
    names = adapter.hub_files[:files]
    where = f" from {adapter.homepage}" if adapter.homepage else ""
    by_hand = f"download {', '.join(names) or 'its files'}{where} and pass the path with --data PATH"
    if not names:
        raise DataError(f"{adapter.title} cannot be fetched", hint=by_hand)
    what = f"{adapter.title}, {', '.join(names)} of {adapter.hub_id}"
    found = tuple(get_files(what, by_hand, Wanted(adapter.hub_id), names, cache_dir, endpoint).values())
    folder = found[0].parents[names[0].count("/")]
    return Source(folder, found, f"{SCHEME}{adapter.hub_id}@{folder.name}")


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
