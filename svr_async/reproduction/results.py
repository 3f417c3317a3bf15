"""What tables are built from: finished runs and banks, read from their folders, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters import get_adapter
from svr_async.adapters.pair_files import select_pairs
from svr_async.core.pair import PreferencePair
from svr_async.errors import SvrError
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.evaluation.settings import from_plain
from svr_async.evaluation.setup import load_dataset
from svr_async.reproduction.recipe import Recipe, RunSpec
from svr_async.scoring.bank import RubricBank


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Why there is no run or no bank."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedBank:
    """A bank with the record of its training, empty for a bank that was given."""

    bank: RubricBank
    record: Mapping[str, Any]

    @property
    def judged(self) -> str:
        """Who judged in its training."""
        return self.bank.judge or "a bank that does not say who judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Folders of runs and banks by what recipes name; all else is read from them, each run once (`held`)."""

    runs: Mapping[RunSpec, Path | Absent]
    banks: Mapping[str, Path | Absent]
    preset: str = "default"
    held: dict[Path, Run] = field(default_factory=dict)

    def run(self, spec: RunSpec) -> Run | Absent:
        """Return a run with its items, or why there is none."""
        place = self.runs.get(spec, Absent(why="not run"))
        if isinstance(place, Absent):
            return place
        if place not in self.held:
            self.held[place] = RunFolder.load(place)
        return self.held[place]

    def bank(self, name: str) -> TrainedBank | Absent:
        """Return a bank, or why there is none."""
        place = self.banks.get(name, Absent(why="not trained"))
        if isinstance(place, Absent):
            return place
        record = place.parent / "record.json"
        try:
            kept = orjson.loads(record.read_bytes()) if record.is_file() else {}
            return TrainedBank(bank=RubricBank.load(place), record=kept)
        except (SvrError, OSError, ValueError) as error:
            return Absent(why=f"the bank in {place.name} cannot be read: {error}")


def judged(run: Run) -> str:
    """Say who judged a run, with its marks and, where verdicts are missing, how many there are."""
    words = "".join(f" [{word}]" for word in run.summary.mark_words if word not in run.judge_label.upper())
    coverage = run.metrics.get("coverage")
    lack = "" if coverage in (None, 1.0) else f"; {run.metrics['n_scored']:,} of {run.metrics['n_total']:,} scored"
    return f"{run.judge_label}{words}{lack}"


def marks_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the marks that any of the runs carries, the gravest first."""
    return tuple(dict.fromkeys(word for run in runs for word in run.summary.mark_words))


def pairs_of(run: Run) -> Mapping[str, PreferencePair]:
    """Return the pairs that a run judged, by their ids."""
    settings = from_plain(run.manifest["config"])
    dataset = load_dataset(settings, get_adapter(settings.benchmark))
    return {pair.id: pair for pair in select_pairs(dataset.pairs, settings.limit, settings.domain)}


def runs_of(recipe: Recipe, results: Results) -> list[Run | Absent]:
    """Return the run of each row of a recipe."""
    return [results.run(row.run) for row in recipe.rows]
