"""What the fits of a training leave behind: their curves, the yardsticks beside them, and the bank's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.history import FitCurve, FitWatch
from svr_async.fit.learning_curve import LearningCurve
from svr_async.fit.linear import Baselines, baselines
from svr_async.scoring.bank_history import BankHistory, RoundFacts, TrainedOn
from svr_async.training.rounds.session import FittedRound
from svr_async.training.rounds.state import choice_from_values

COUNTS = ("round", "bank", "kept", "support", "hard_negatives", "judged_entries")


@dataclass(slots=True, kw_only=True)
class FitLog:
    """The curves of all fits so far and the yardsticks by round; `watch` is told while a fit runs."""

    watch: FitWatch | None = None
    curves: list[FitCurve] = field(default_factory=list)
    yardsticks: dict[int, Baselines] = field(default_factory=dict)

    def last(self, number: int) -> FitCurve | None:
        """Return the last curve of a round: that of the calibration, where there was one."""
        return next((curve for curve in reversed(self.curves) if curve.round == number), None)


def empty_curve(config: FitConfig, dev: FitArrays, *, number: int = 0, phase: str = "fit") -> FitCurve:
    """Return the curve of a fit that is about to begin, with the dev pairs that its accuracy will be over."""
    used = dev if config.use_own else dev.without_own()
    return FitCurve(
        seed=config.seed, round=number, phase=phase, dev_pairs=int(np.count_nonzero(np.diff(used.z_indptr)))
    )


def yardsticks_of(train: FitArrays, dev: FitArrays) -> Baselines | None:
    """Return vote and linear fit on the same entries, a pair's own left out; None where dev has none."""
    train, dev = train.without_own(), dev.without_own()
    return baselines(train, dev) if train.n_entries and dev.n_entries else None


def training_history(
    log: FitLog,
    rounds: Sequence[FittedRound],
    chosen: FittedRound,
    trained_on: TrainedOn,
    warnings: Sequence[str],
    learned: LearningCurve | None = None,
) -> BankHistory:
    """Return the history of a training's bank."""
    last = log.last(chosen.number)
    vote, linear = _beside(log, chosen.number)
    return BankHistory(
        trained_on=trained_on,
        curves=tuple(log.curves),
        rounds=tuple(round_facts(one.record, log) for one in rounds),
        chosen_round=chosen.number,
        chosen_seed=last.seed if last else 0,
        vote_accuracy=vote,
        linear_accuracy=linear,
        warnings=tuple(warnings),
        choice=choice_from_values(chosen.record.get("structure")),
        learning_curve=learned,
    )


def round_facts(record: Mapping[str, Any], log: FitLog) -> RoundFacts:
    """Return what is kept of a round: its record, and the dev numbers of the epoch that its fit took."""
    curve = log.last(record["round"])
    best = curve.best if curve else None
    vote, linear = _beside(log, record["round"])
    return RoundFacts(
        **{name: int(record[name]) for name in COUNTS},
        active=best.active if best else None,
        train_margin=float(record["train_margin"]),
        dev_margin=round(best.dev_margin, 6) if best else None,
        dev_accuracy=float(record["dev_accuracy"]),
        fit_accuracy=round(best.dev_accuracy, 6) if best else None,
        vote_accuracy=vote,
        linear_accuracy=linear,
    )


def _beside(log: FitLog, number: int) -> tuple[float | None, float | None]:
    """Return the accuracies of vote and linear fit of a round; None where there was no dev split."""
    found = log.yardsticks.get(number)
    return (None, None) if found is None else (round(found.vote_accuracy, 6), round(found.linear_accuracy, 6))
