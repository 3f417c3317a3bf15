"""What RRD has asked, by stage: each question counts once, however many pairs or orders rest on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, median
from typing import Any

KEY_DIGITS = 16  # of a cache key in hex, enough to tell questions apart


class Stage(StrEnum):
    """The stages, in the order in which a prompt goes through them."""

    GENERATION = "generation"
    REFERENCE = "reference"
    PROPOSAL = "proposal"
    SAMPLE = "sample_judgments"
    DECOMPOSITION = "decomposition"
    DIRECTION = "direction_filter"
    REDUNDANCY = "redundancy_filter"
    FINAL = "final_judgments"
    FALLBACK = "fallback"


@dataclass(slots=True)
class Tally:
    """Questions by stage, and how many rubrics each prompt came to."""

    keys: dict[Stage, set[int]] = field(default_factory=lambda: {stage: set() for stage in Stage})
    accepted: dict[int, int] = field(default_factory=dict)

    def note(self, stage: Stage, keys: Iterable[str]) -> None:
        """Count questions of a stage by their cache keys."""
        self.keys[stage].update(int(key[:KEY_DIGITS], 16) for key in keys)

    def counts(self) -> Mapping[str, Any]:
        """Return the questions of each stage, and mean and median of the rubrics that prompts were left with."""
        return counts_of([self.as_json()])

    def as_json(self) -> Mapping[str, Any]:
        """Return the questions of each stage, and how many rubrics the prompts were left with."""
        return {
            "asked": {stage.value: len(keys) for stage, keys in self.keys.items()},
            "rubrics": list(self.accepted.values()),
        }


def counts_of(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what the tallies of processes that judged other prompts each come to: questions by stage, mean, median."""
    sizes = [size for tally in tallies for size in tally["rubrics"]]
    asked = {stage.value: sum(tally["asked"][stage.value] for tally in tallies) for stage in Stage}
    return asked | {
        "rubrics_mean": round(fmean(sizes), 2) if sizes else None,
        "rubrics_median": median(sizes) if sizes else None,
    }
