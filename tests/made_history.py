"""Made-up histories of banks; all numbers are invented."""

from __future__ import annotations

from typing import Any

from svr_async.fit.config import Choice, Structure, Trial
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.fit.learning_curve import LearningCurve, LearningPoint
from svr_async.scoring.bank import BankHistory, RoundFacts, TrainedOn


def made_record(epoch: int = 1, **changes: Any) -> EpochRecord:
    """Return an epoch whose numbers get better with its number."""
    values = {
        "preference_loss": 0.7 - 0.05 * epoch, "diversity_loss": 0.001, "train_margin": 0.1 * epoch,
        "train_accuracy": 0.6, "dev_loss": 0.69 - 0.02 * epoch, "dev_margin": 0.05 * epoch,
        "dev_accuracy": 0.55 + 0.03 * epoch, "active": 10 + epoch, "learning_rate": 0.0005,
    }  # fmt: skip
    return EpochRecord(epoch=epoch, **{**values, **changes})


def made_curve(first: int = 0, last: int = 3, **changes: Any) -> FitCurve:
    """Return a curve from one epoch to another, its last the best."""
    epochs = tuple(made_record(number) for number in range(first, last + 1))
    return FitCurve(**{"epochs": epochs, "best_epoch": last, "dev_pairs": 100, "seed": 42, **changes})


def made_choice(trials: int = 15) -> Choice:
    """Return a choice among structures, the first of which is the most accurate and the second is taken."""
    tried = [
        Structure(
            groups=2**n,
            view="words" if n % 3 else "rubrics",
            sparsity=0.3 if n % 2 else 0.6,
            common=0.2 * (n % 3),
        )
        for n in range(trials - 1)
    ]
    tried.append(Structure(sparsity=0.0, solver="shrunken"))
    found = (Trial(structure=one, accuracy=0.7 - 0.01 * n, error=0.012) for n, one in enumerate(tried))
    return Choice(structure=tried[1], trials=tuple(found))


def made_learning() -> LearningCurve:
    """Return a learning curve of four points."""
    points = [
        LearningPoint(
            share=2.0**-n, pairs=1425 >> n, draws=n + 1, accuracy=0.7 - 0.03 * n, low=0.65 - 0.03 * n, high=0.72
        )
        for n in range(3, -1, -1)
    ]
    return LearningCurve(points=tuple(points), held_out=1900, gain=0.03, gain_low=0.012, gain_high=0.048)


def made_history(rounds: int = 3, **changes: Any) -> BankHistory:
    """Return the history of a training."""
    curves = [made_curve(round=n, phase=phase) for n in range(1, rounds + 1) for phase in ("fit", "calibrate")]
    facts = [
        RoundFacts(
            round=n, bank=300 - 40 * n, kept=200 - 20 * n, support=90 * (n - 1), hard_negatives=70 * (n - 1),
            judged_entries=10_000 * n, active=14 + n, train_margin=0.9 - 0.1 * n, dev_margin=0.8 - 0.1 * n,
            dev_accuracy=0.6 + 0.02 * n, fit_accuracy=0.61, vote_accuracy=0.5, linear_accuracy=0.58,
        )
        for n in range(1, rounds + 1)
    ]  # fmt: skip
    return BankHistory(
        **{
            "trained_on": TrainedOn(train_pairs=1900, dev_pairs=100, source="pairs.jsonl", preset="default"),
            "curves": tuple(curves), "rounds": tuple(facts), "chosen_round": rounds, "chosen_seed": 42,
            "vote_accuracy": 0.5, "linear_accuracy": 0.58, "warnings": ("few dev pairs",),
            "choice": made_choice(), "learning_curve": made_learning(), **changes,
        }
    )  # fmt: skip
