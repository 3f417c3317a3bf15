"""What may be chosen of the default's structure, and what was: plain records, for settings, cards and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """How many groups of prompts, the L1 terms of `fit.sparse_margin`, and the rubrics a prompt gets."""

    groups: int = 1
    sparsity: float = 0.3
    common: float = 0.0
    top_k: int = 6

    def as_json(self) -> dict[str, Any]:
        """Return the structure as plain values."""
        return asdict(self)

    def in_words(self) -> str:
        """Return the structure in a few words."""
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
    """The structure taken, those as good that are averaged with it, and all that were tried."""

    structure: Structure
    beside: tuple[Structure, ...] = ()
    trials: tuple[Trial, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        return asdict(self)


def choice_from_json(value: Mapping[str, Any]) -> Choice:
    """Read what `Choice.as_json` wrote."""
    trials = (Trial(**{**trial, "structure": Structure(**trial["structure"])}) for trial in value["trials"])
    beside = tuple(Structure(**each) for each in value["beside"])
    return Choice(structure=Structure(**value["structure"]), beside=beside, trials=tuple(trials))
