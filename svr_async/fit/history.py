"""What a fit reports: one record per epoch, and the result with its history."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from svr_async.errors import ArtefactError
from svr_async.fit.forward import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """One epoch. Training numbers are running means while the weights change; dev numbers are taken at its end.

    `active` counts the rubrics that are among the best `top_k` (6 where unset) of at least one dev prompt, with
    importance > 0. Accuracy counts a tie as half. Dev numbers are NaN-free: they repeat the training ones without dev.
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

    def as_json(self) -> dict[str, float | int]:
        """Return the record as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The selector of the best epoch by dev accuracy (then dev loss, then the earlier), with what led to it."""

    selector: Selector
    history: tuple[EpochRecord, ...]
    best_epoch: int
    dev_accuracy: float
    dev_loss: float
    halvings: int
    slices: int
    device: str
    warnings: tuple[str, ...] = ()


def record_from_json(value: object) -> EpochRecord:
    """Return a stored record; raise `ArtefactError` where it is not one."""
    try:
        return EpochRecord(**value)  # type: ignore[arg-type]  # checked by the constructor
    except TypeError as error:
        raise ArtefactError(f"an epoch record of the checkpoint cannot be read: {error}") from error


def better(first: EpochRecord, second: EpochRecord | None, *, by: float = 0.0) -> bool:
    """Whether the first record is strictly better: higher dev accuracy by more than `by`, then lower dev loss."""
    if second is None or by > 0:
        return second is None or first.dev_accuracy > second.dev_accuracy + by
    return (first.dev_accuracy, -first.dev_loss) > (second.dev_accuracy, -second.dev_loss)
