"""Which pairs a training learns from: those of the file that can teach anything and overlap with no benchmark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from svr_async.adapters import ADAPTERS, Dataset, get_adapter
from svr_async.adapters.hub import CACHE
from svr_async.adapters.pair_files import check_output, select_pairs, usable, write_pairs
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError, UsageError
from svr_async.training.bank.merge import refuse_long_names
from svr_async.training.bank.overlap import Contamination, ContaminationReport, contamination, find_contaminated
from svr_async.training.running.settings import TrainSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """The pairs of a data set to train on, and those left out; None if they were not compared with benchmarks."""

    pairs: Sequence[PreferencePair]
    dataset: Dataset
    contaminated: Sequence[Contamination] | None = None


def load_data(settings: TrainSettings, dataset: Dataset | None = None) -> TrainingData:
    """Read the pairs of a training, unless the caller has; UsageError for a benchmark, and if no pair is left."""
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    dataset = dataset or get_adapter(settings.adapter).load(
        settings.pairs, lenient=settings.lenient, columns=settings.columns, label_map=settings.label_map
    )
    pairs = [pair for pair in select_pairs(dataset.pairs, settings.limit, ()) if usable(pair)]
    if not pairs:
        raise UsageError(
            f"0 of {len(dataset.pairs)} pairs in {settings.pairs} can be learned from",
            hint="a pair needs a preference between two different responses",
        )
    refuse_long_names(pairs)
    against = settings.decontaminate or (_rubricbench() if settings.preset == "paper" else ())
    if not against:
        return TrainingData(pairs=pairs, dataset=dataset)
    found = find_contaminated(pairs, named_benchmarks(against, "--decontaminate"))
    left_out = {hit.pair_id for hit in found}
    kept = [pair for pair in pairs if pair.id not in left_out]
    if not kept:
        raise UsageError(f"all {len(pairs)} pairs overlap with {', '.join(against)}", hint="train on other pairs")
    return TrainingData(pairs=kept, dataset=dataset, contaminated=found)


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


def named_benchmarks(named: Sequence[str], flag: str) -> list[tuple[str, Sequence[PreferencePair]]]:
    """Return the pairs of benchmarks that a flag names as NAME=PATH; UsageError where it names no file."""
    found: list[tuple[str, Sequence[PreferencePair]]] = []
    for entry in named:
        name, mark, path = entry.partition("=")
        if not mark or not path:
            raise UsageError(f"{flag} {entry} names no file", hint="write it as rubricbench=PATH")
        found.append((name, get_adapter(name).load(Path(path)).pairs))
    return found


def contamination_of(path: Path, adapter: str, against: Sequence[str], out: Path | None = None) -> ContaminationReport:
    """Count what of a training set overlaps with benchmarks named as NAME=PATH; the clean pairs go to `out`."""
    if out is not None:
        check_output(out, [path, *(Path(file) for entry in against if (file := entry.partition("=")[2]))])
    dataset = get_adapter(adapter).load(path)
    pairs = [pair for pair in dataset.pairs if pair.has_preference]
    found = contamination(pairs, dataset.tied, named_benchmarks(against, "--against"))
    if out is not None:
        write_pairs(out, found.clean)
    return found


def refuse_benchmark_for_training(name: Path | str) -> None:
    """Raise DataError if a path or format names a benchmark, which is for evaluation only."""
    for adapter in ADAPTERS.values():
        if not adapter.training and re.search(adapter.spelling or adapter.name, str(name).casefold()):
            hint = "train on preference pairs such as HelpSteer3 or RMB"
            raise DataError(f"{name} is {adapter.title}, and that is for evaluation only", hint=hint)
