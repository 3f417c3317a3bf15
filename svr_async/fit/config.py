"""The settings of a fit, and its two presets: what the paper says, and what measured better (docs/fit.md)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Literal

from svr_async.errors import ConfigError
from svr_async.fit.choices import Structure

Kind = Literal["mlp", "topics"]


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
        for name in ("hidden", "batch"):
            _require(getattr(self, name) >= 1, f"{name} must be >= 1 (got {getattr(self, name)})")
        for name in ("epochs", "calibration_epochs", "seed"):
            _require(getattr(self, name) >= 0, f"{name} must be >= 0 (got {getattr(self, name)})")
        for name in ("learning_rate", "calibration_rate", "topic_weight"):
            value = getattr(self, name)
            _require(math.isfinite(value) and value > 0, f"{name} must be > 0 and finite (got {value})")
        for name in ("weight_decay", "diversity"):
            value = getattr(self, name)
            _require(math.isfinite(value) and value >= 0, f"{name} must be >= 0 and finite (got {value})")
        _require(self.top_k is None or self.top_k >= 1, f"top_k must be >= 1 or None (got {self.top_k})")
        _require(bool(self.top_ks) and min(self.top_ks) >= 1, f"top_ks must hold numbers >= 1 (got {self.top_ks})")
        _require(self.kind in {"mlp", "topics"}, f"kind must be mlp or topics (got {self.kind!r})")
        solved = self.kind == "topics" and (self.epochs or self.calibration_epochs)
        _require(
            not solved, f"kind topics, the default, is solved and not descended: epochs must be 0 (got {self.epochs})"
        )

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
