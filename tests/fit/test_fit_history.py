"""Curves of fits: the provisional best is the fit's own choice, errors are those of dev, watchers hear all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from made_arrays import made_arrays, split

from svr_async.fit.config import DEFAULT, PAPER
from svr_async.fit.history import EpochRecord, FitCurve, FitResult, accuracy_error, watched
from svr_async.fit.training import fit

CONFIGS = {
    "paper": replace(PAPER, hidden=8, epochs=4, batch=32, learning_rate=0.02),
    "default": replace(DEFAULT, hidden=4),
}


class Watch:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def begin(self, curve: FitCurve) -> None:
        self.heard.append(("begin", len(curve.epochs)))

    def epoch(self, record: EpochRecord) -> None:
        self.heard.append(("epoch", record.epoch))

    def end(self, curve: FitCurve) -> None:
        self.heard.append(("end", len(curve.epochs)))


def test_a_watcher_hears_of_every_epoch() -> None:
    """Begin with an empty curve, each epoch, and end with the whole curve."""
    train, dev = split(made_arrays())
    watch = Watch()

    def run(on_epoch: Callable[[EpochRecord], None]) -> FitResult:
        return fit(train, dev, CONFIGS["paper"], on_epoch=on_epoch)

    result, curve = watched(run, FitCurve(dev_pairs=40), watch)
    assert watch.heard == [("begin", 0), *(("epoch", n) for n in range(1, 5)), ("end", 4)]
    assert curve.epochs == result.history
    assert watched(run, FitCurve(dev_pairs=40), None)[1] == curve


def test_an_error_is_that_of_a_share() -> None:
    """√(p (1 − p) / n): 5 points at one half of a hundred pairs; none is claimed without dev pairs."""
    record = EpochRecord(
        epoch=1, preference_loss=0.5, diversity_loss=0, train_margin=0, train_accuracy=0.5, dev_loss=0.5, dev_margin=0,
        dev_accuracy=0.5, active=1, learning_rate=0.1,
    )  # fmt: skip
    assert accuracy_error(0.5, 100) == pytest.approx(0.05)
    assert accuracy_error(1.0, 10) == 0
    assert FitCurve(dev_pairs=100).error(record) == pytest.approx(0.05)
    assert FitCurve().error(record) is None
    assert "adversarial_loss" not in record.as_json()
    assert replace(record, adversarial_loss=0.25).as_json()["adversarial_loss"] == 0.25
