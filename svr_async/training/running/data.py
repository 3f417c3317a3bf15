"""Which pairs a training learns from: those of the file that can teach anything and overlap with no benchmark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.adapters import ADAPTERS, Dataset, get_adapter
from svr_async.adapters.hub import CACHE
from svr_async.adapters.pair_files import check_output, select_pairs, usable, write_pairs
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError, UsageError
from svr_async.training.bank.merge import refuse_long_names
from svr_async.training.bank.overlap import Contamination, contamination, find_contaminated
from svr_async.training.running.settings import TrainSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """The pairs of a training; `digest` is that of the whole data set, `skipped` counts rows left out by reason.

    `readings` say how labels were read, `origin` is the pinned address of a data set of the hub. `decontaminated`:
    the pairs were compared with benchmarks.
    """

    pairs: Sequence[PreferencePair]
    contaminated: Sequence[Contamination]
    digest: str
    skipped: Mapping[str, int]
    readings: Sequence[str] = ()
    origin: str = ""
    decontaminated: bool = False


def load_data(settings: TrainSettings, dataset: Dataset | None = None) -> TrainingData:
    """Read the pairs of a training, unless the caller has; UsageError for a benchmark, and if no pair is left."""
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    dataset = dataset or get_adapter(settings.adapter).load(
        settings.pairs, lenient=settings.lenient, columns=settings.columns, label_map=settings.label_map
    )
    pairs = training_pairs(dataset, settings)
    against = settings.decontaminate or (_rubricbench() if settings.preset == "paper" else ())
    kept, found = decontaminated(pairs, against)
    if not kept:
        raise UsageError(f"all {len(pairs)} pairs overlap with {', '.join(against)}", hint="train on other pairs")
    return TrainingData(
        pairs=kept,
        contaminated=found,
        digest=dataset.digest,
        skipped=dataset.skipped,
        readings=dataset.readings,
        origin=dataset.origin,
        decontaminated=bool(against),
    )


def _rubricbench() -> tuple[str, ...]:
    """Return RubricBench as the hub has it; UsageError where it cannot be had."""
    name = "rubricbench"
    try:
        return (f"{name}={get_adapter(name).fetch(CACHE).files[0]}",)
    except DataError as error:
        raise UsageError(
            f"--preset paper leaves out pairs that overlap with RubricBench, which is not here: {error.message}",
            hint=f"name a file: --decontaminate {name}=PATH",
        ) from error


def training_pairs(dataset: Dataset, settings: TrainSettings) -> list[PreferencePair]:
    """Return the selected pairs that can teach anything; UsageError where there are none."""
    pairs = [pair for pair in select_pairs(dataset.pairs, settings.limit, ()) if usable(pair)]
    if not pairs:
        raise UsageError(
            f"0 of {len(dataset.pairs)} pairs in {settings.pairs} can be learned from",
            hint="a pair needs a preference between two different responses",
        )
    refuse_long_names(pairs)
    return pairs


def decontaminated(
    pairs: Sequence[PreferencePair], named: Sequence[str]
) -> tuple[list[PreferencePair], list[Contamination]]:
    """Return the pairs without those that overlap with the named benchmarks, and what was found."""
    found = find_contaminated(pairs, named_benchmarks(named, "--decontaminate")) if named else []
    gone = {hit.pair_id for hit in found}
    return [pair for pair in pairs if pair.id not in gone], found


def named_benchmarks(named: Sequence[str], flag: str) -> list[tuple[str, Sequence[PreferencePair]]]:
    """Return the pairs of benchmarks that a flag names as NAME=PATH; UsageError where it names no file."""
    found: list[tuple[str, Sequence[PreferencePair]]] = []
    for entry in named:
        name, mark, path = entry.partition("=")
        if not mark or not path:
            raise UsageError(f"{flag} {entry} names no file", hint="write it as rubricbench=PATH")
        found.append((name, get_adapter(name).load(Path(path)).pairs))
    return found


def contamination_of(
    path: Path, adapter: str, against: Sequence[str], out: Path | None = None, **how: Any
) -> dict[str, Any]:
    """Count what of a training set overlaps with benchmarks named as NAME=PATH; the clean pairs go to `out`.

    `how` are `lenient`, `columns` and `label_map` of the training set.
    """
    if out is not None:
        check_output(out, [path, *(Path(file) for entry in against if (file := entry.partition("=")[2]))])
    dataset = get_adapter(adapter).load(path, **how)
    pairs = [pair for pair in dataset.pairs if pair.has_preference]
    counts, clean = contamination(pairs, dataset.tied, named_benchmarks(against, "--against"))
    if out is not None:
        write_pairs(out, clean)
    return counts


def refuse_benchmark_for_training(name: Path | str) -> None:
    """Raise DataError if a path or format names a benchmark, which is for evaluation only."""
    for adapter in ADAPTERS.values():
        if not adapter.training and re.search(adapter.spelling or adapter.name, str(name).casefold()):
            hint = "train on preference pairs such as HelpSteer3 or RMB"
            raise DataError(f"{name} is {adapter.title}, and that is for evaluation only", hint=hint)
