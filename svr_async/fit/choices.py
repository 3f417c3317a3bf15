"""What may be chosen of the default's structure, and what was: plain records, for settings, cards and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """How many groups of prompts, the L1 terms of `fit.sparse_margin`, and the rubrics a prompt gets.

    `shrunken` stands for one weight a rubric that is not solved for: its shrunken mean z (`fit.shrinkage`).
    """

    groups: int = 1
    sparsity: float = 0.3
    common: float = 0.0
    top_k: int = 6
    shrunken: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the structure as plain values."""
        return asdict(self)

    def in_words(self) -> str:
        """Return the structure in a few words."""
        if self.shrunken:
            return f"one shrunken weight a rubric, top {self.top_k}"
        groups = "no groups of prompts" if self.groups == 1 else f"{self.groups} groups of prompts"
        shared = f", in common {self.common:g}" if self.common else ""
        return f"{groups}, sparsity {self.sparsity:g}{shared}, top {self.top_k}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate, its accuracy on prompts that were left out, and the standard error of that."""

    structure: Structure
    accuracy: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The structure taken, and all that were tried."""

    structure: Structure
    trials: tuple[Trial, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        return asdict(self)


def choice_from_json(value: Mapping[str, Any]) -> Choice:
    """Read what `Choice.as_json` wrote."""
    trials = (Trial(**{**trial, "structure": Structure(**trial["structure"])}) for trial in value["trials"])
    return Choice(structure=Structure(**value["structure"]), trials=tuple(trials))
