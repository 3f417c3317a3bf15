"""What may be chosen of the default's structure, and what was: plain records, for settings, cards and pages."""

from __future__ import annotations

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
