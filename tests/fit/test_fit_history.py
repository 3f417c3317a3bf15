"""Curves of fits: the provisional best is the fit's own choice, errors are those of dev, watchers hear all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from made_arrays import made_arrays, split

from svr_async.fit.config import DEFAULT, PAPER
from svr_async.fit.history import EpochRecord, FitCurve, FitResult, FitWatch, watched
from svr_async.fit.training import fit

CONFIGS = {
    "paper": replace(PAPER, hidden=8, epochs=4, batch=32, learning_rate=0.02),
    "default": replace(DEFAULT, hidden=4),
}


class Watch(FitWatch):
    """Writes down what it hears."""

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
    record = fit(made_arrays(40), None, CONFIGS["default"]).history[0]
    half = replace(record, dev_accuracy=0.5)
    assert FitCurve(dev_pairs=100).error(half) == pytest.approx(0.05)
    assert FitCurve(dev_pairs=10).error(replace(record, dev_accuracy=1.0)) == 0
    assert FitCurve().error(half) is None
