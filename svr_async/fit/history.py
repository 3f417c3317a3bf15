"""What a fit reports: one record per epoch, the result with its history, and the curve that is kept and shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from svr_async.fit.config import Choice
from svr_async.fit.forward import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """One epoch. Training numbers are running means while the weights change; dev numbers are taken at its end.

    `active` counts the rubrics that are among the best `top_k` (6 where unset) of at least one dev prompt, with
    importance > 0. Accuracy counts a tie as half. Dev numbers are NaN-free: they repeat the training ones without dev.
    `adversarial_loss` is the part of `preference_loss` that hard negatives gave; None without hard negatives.
    """

    epoch: int
    preference_loss: float
    diversity_loss: float
    train_margin: float
    train_accuracy: float
    dev_loss: float
    dev_margin: float
    dev_accuracy: float
    active: int
    learning_rate: float
    adversarial_loss: float | None = None

    def as_json(self) -> dict[str, float | int]:
        """Return the record as plain values, without those that were not measured."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The selector of the best epoch by dev accuracy (then dev loss, then the earlier), with what led to it."""

    selector: Selector
    history: tuple[EpochRecord, ...]
    best_epoch: int
    dev_accuracy: float
    dev_loss: float
    device: str
    warnings: tuple[str, ...] = ()
    choice: Choice | None = None


def better(first: EpochRecord, second: EpochRecord | None) -> bool:
    """Whether the first record is strictly better: higher dev accuracy, then lower dev loss."""
    return second is None or (first.dev_accuracy, -first.dev_loss) > (second.dev_accuracy, -second.dev_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitCurve:
    """The epochs of one fit, and the one that was taken. `dev_pairs` pairs measure dev accuracies; 0 without dev.

    `round` is 0 for a fit by itself; `phase` is `fit`, or `calibrate` for the short one after pruning.
    """

    epochs: tuple[EpochRecord, ...] = ()
    best_epoch: int = 0
    dev_pairs: int = 0
    seed: int = 0
    round: int = 0
    phase: str = "fit"

    @property
    def best(self) -> EpochRecord | None:
        """The record of the epoch that was taken; None where it was not measured, as before a first epoch."""
        return next((record for record in self.epochs if record.epoch == self.best_epoch), None)

    def error(self, record: EpochRecord) -> float | None:
        """Return the standard error √(p (1 − p) / n) of a record's dev accuracy; None without dev pairs."""
        share = record.dev_accuracy
        return float((max(share * (1 - share), 0.0) / self.dev_pairs) ** 0.5) if self.dev_pairs else None


class FitWatch:
    """Receives the progress of fits, and does nothing with it unless a subclass does."""

    def begin(self, curve: FitCurve) -> None:
        """Receive the start of a fit, with an empty curve."""

    def epoch(self, record: EpochRecord) -> None:
        """Receive an epoch; a resumed fit does not repeat those of its checkpoint."""

    def end(self, curve: FitCurve) -> None:
        """Receive the end of a fit, with all its epochs."""


def watched(
    run: Callable[[Callable[[EpochRecord], None]], FitResult], curve: FitCurve, watch: FitWatch | None
) -> tuple[FitResult, FitCurve]:
    """Run a fit that reports each epoch to a listener, and return its result and its curve."""
    if watch is not None:
        watch.begin(curve)
    result = run(watch.epoch if watch is not None else lambda _: None)
    done = replace(curve, epochs=result.history, best_epoch=result.best_epoch)
    if watch is not None:
        watch.end(done)
    return result, done
