"""The structure of the default and how it was chosen: plain records for settings, cards and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from svr_async.fit.prompt_clusters import Size, View

Solver = Literal["margin", "shrunken"]
LeftOut = Literal["prompts", "sources"]

PROVEN = 2.0  # standard errors above guessing


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Clusters of prompts, the solver of the effects and its penalties, and the rubrics per prompt.

    `groups` clusters are learned by `directions` of words (0: all) from a `view` of what was mined
    (`fit.prompt_clusters`). Solver `margin` is `fit.margin_problems` with the L1 terms `sparsity` and `common`;
    `shrunken` is one shrunken mean z per rubric.
    """

    groups: int = 1
    directions: int = 0
    view: View = "rubrics"
    sparsity: float = 0.3
    common: float = 0.0
    top_k: int = 6
    solver: Solver = "margin"

    @property
    def size(self) -> Size:
        """The number of clusters and directions, and the view."""
        return Size(groups=self.groups, directions=self.directions or max(1, self.groups - 1), view=self.view)

    def as_json(self) -> dict[str, Any]:
        """Return the structure as plain values."""
        return asdict(self)

    def in_words(self) -> str:
        """Return the structure in a few words."""
        if self.solver == "shrunken":
            return f"one shrunken weight per rubric, top {self.top_k}"
        if not self.sparsity:
            return f"one weight per rubric, top {self.top_k}"
        groups = "no groups of prompts" if self.groups == 1 else f"{self.groups} groups of prompts"
        shared = f", in common {self.common:g}" if self.common else ""
        return f"{groups}, sparsity {self.sparsity:g}{shared}, top {self.top_k}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate, its accuracy on prompts or sources that were left out, and the standard error of that."""

    structure: Structure
    accuracy: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The structure taken, those averaged with it, all trials, and what was left out to try them.

    `spurious` rubrics have no effect since they only go with the label (`fit.spurious_rubrics`).
    """

    structure: Structure
    beside: tuple[Structure, ...] = ()
    trials: tuple[Trial, ...] = ()
    left_out: LeftOut = "prompts"
    spurious: tuple[int, ...] = ()

    @property
    def taken(self) -> Trial | None:
        """The trial of the structure taken; None if the settings named it."""
        return next((trial for trial in self.trials if trial.structure == self.structure), None)

    @property
    def is_proven(self) -> bool:
        """Whether it decided held-out prompts better than guessing; True if nothing was tried."""
        return self.taken is None or self.taken.accuracy > 0.5 + PROVEN * self.taken.error

    def as_json(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        return asdict(self)

    def in_words(self) -> str:
        """Return the structure in a few words, and how many rubrics are spurious."""
        count = len(self.spurious)
        spurious = f", {count} rubric{'s' if count > 1 else ''} spurious" if count else ""
        return f"{self.structure.in_words()}{spurious}"


def choice_from_json(value: Mapping[str, Any]) -> Choice:
    """Read what `Choice.as_json` wrote; values may have wrong types if a file was damaged."""
    trials = tuple(map(_trial, value.get("trials", ())))
    beside = tuple(Structure(**each) for each in value.get("beside", ()))
    structure, left_out = Structure(**value["structure"]), value.get("left_out", "prompts")
    spurious = tuple(value.get("spurious", ()))
    return Choice(structure=structure, beside=beside, trials=trials, left_out=left_out, spurious=spurious)


def _trial(value: Mapping[str, Any]) -> Trial:
    return Trial(**{**value, "structure": Structure(**value["structure"])})
