"""The settings of a fit and its two presets, the default's structure, and the record of how that was chosen."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from svr_async.errors import ConfigError
from svr_async.fit.prompt_clusters import Size, View

Kind = Literal["mlp", "topics"]
Solver = Literal["margin", "shrunken"]
LeftOut = Literal["prompts", "sources"]

PROVEN = 2.0  # standard errors above guessing
LEAST = {"hidden": 1, "batch": 1, "learning_rate": 0, "calibration_rate": 0, "topic_weight": 0} | dict.fromkeys(
    ("epochs", "calibration_epochs", "seed", "weight_decay", "diversity"), 0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Clusters of prompts, the solver of the effects and its penalties, and the rubrics per prompt.

    `groups` clusters are learned from a `view` of what was mined (`fit.prompt_clusters`). Solver `margin` is
    `fit.margin_solver` with the L1 terms `sparsity` and `common`; `shrunken` is one shrunken mean z per criterion.
    """

    groups: int = 1
    view: View = "rubrics"
    sparsity: float = 0.3
    common: float = 0.0
    top_k: int = 6
    solver: Solver = "margin"

    @property
    def size(self) -> Size:
        """The number of clusters and the view."""
        return Size(groups=self.groups, view=self.view)

    def in_words(self) -> str:
        """Return the structure in a few words."""
        most = f"up to {self.top_k} rubrics a prompt"
        if self.solver == "shrunken":
            return f"one shrunken weight per rubric, {most}"
        if not self.sparsity:
            return f"one weight per rubric, {most}"
        groups = "one group of prompts" if self.groups == 1 else f"{self.groups} groups of prompts"
        shared = f", shared {self.common:g}" if self.common else ""
        return f"{groups}, sparsity {self.sparsity:g}{shared}, {most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """Settings of one fit; the defaults are the paper's (table in app:hparams), `PRESETS` names the choices.

    `kind` is the selector's form (see `fit.forward`). Kind `mlp` has alpha over the whole bank, where a rubric that was
    not judged counts as z = 0; kind `topics` has it over the judged entries.
    """

    kind: Kind = "mlp"
    hidden: int = 256  # app:selector; for `topics` the most clusters of prompts
    epochs: int = 8  # app:hparams; 0 for `topics`, which is solved
    calibration_epochs: int = 3  # app:hparams; that they follow pruning is read off the authors' public code
    calibration_rate: float = 0.5  # times the learning rate, read off the same code
    batch: int = 128  # app:hparams
    learning_rate: float = 2e-3  # app:hparams
    weight_decay: float = 1e-4  # app:hparams
    diversity: float = 1.0  # factor of the diversity term in the loss (sec:margin); `mlp` only
    use_own: bool = True  # whether entries judged on the pair that they were mined from are fitted; the paper: open
    top_k: int | None = None  # `topics`: dev accuracy by the best k judged rubrics; None: all
    top_ks: tuple[int, ...] = (6,)  # `topics`: the numbers of rubrics a prompt that are tried; app:topk has 6
    structure: Structure | None = None  # `topics`: None to choose one by cross-validation (`fit.structure`)
    by_answers: bool = True  # `topics`: rubrics judged alike share their weight (`fit.paraphrase_clusters`)
    topic_weight: float = 4.0  # `topics`: the weight of every rubric
    pairs_of_words: bool = True  # whether neighbouring words are features too
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            _require(math.isfinite(value) and value >= least, f"{name} must be >= {least} and finite (got {value})")
        for name in ("learning_rate", "calibration_rate", "topic_weight"):
            _require(getattr(self, name) > 0, f"{name} must be > 0 (got {getattr(self, name)})")
        _require(self.top_k is None or self.top_k >= 1, f"top_k must be >= 1 or None (got {self.top_k})")
        _require(bool(self.top_ks) and min(self.top_ks) >= 1, f"top_ks must hold numbers >= 1 (got {self.top_ks})")
        _require(self.kind in {"mlp", "topics"}, f"kind must be mlp or topics (got {self.kind!r})")
        descended = self.kind == "topics" and (self.epochs or self.calibration_epochs)
        _require(not descended, f"kind topics is solved: epochs must be 0 (got {self.epochs})")

    def calibrating(self) -> FitConfig:
        """Return the settings of the short phase after pruning."""
        return replace(self, epochs=self.calibration_epochs, learning_rate=self.learning_rate * self.calibration_rate)

    def as_json(self) -> dict[str, object]:
        """Return the settings as plain values."""
        return asdict(self)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


PAPER = FitConfig()
DEFAULT = FitConfig(
    kind="topics",
    hidden=64,
    epochs=0,
    calibration_epochs=0,
    use_own=False,
    top_k=18,
    top_ks=(6, 12, 18),
    diversity=0.0,
    pairs_of_words=False,
)
PRESETS = {"paper": PAPER, "default": DEFAULT}


# ── how a structure was chosen ──────────────────────────────────────────────────────────────────────────────────────


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
    averaged: tuple[Structure, ...] = ()
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
