"""The fits of a round: selector and weights on the judged entries, and the short calibration after pruning."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitResult, watched
from svr_async.fit.training import OnEpoch, calibrate, fit, pair_margins
from svr_async.scoring.dev_pairs import known_accuracy
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.fit_log import FitLog, empty_curve, yardsticks_of
from svr_async.training.rounds.fit_stage import kept_fit
from svr_async.training.rounds.session import Session
from svr_async.training.rounds.stages import digest_of


def fit_round(
    session: Session, number: int, train: FitArrays, dev: FitArrays, *, log: FitLog | None = None
) -> FitResult:
    """Fit one round, or read it back; a fit that was killed goes on. The curve goes to the log."""
    config, log = fit_settings(session.config), log or FitLog()
    inputs = ("fit", train.digest(), dev.digest(), config.as_json())

    def run(on_epoch: OnEpoch) -> FitResult:
        return kept_fit(session.stages, f"fit-{number}", inputs, partial(fit, train, dev, config), on_epoch)

    result, curve = watched(run, empty_curve(config, dev, number=number), log.watch)
    log.curves.append(curve)
    how = f"best epoch {result.best_epoch}" if result.choice is None else result.choice.in_words()
    session.say(f"round {number}: fit ended, {how}{known_accuracy(result.dev_accuracy, curve.dev_pairs)}")
    return result


def calibrate_round(
    session: Session, number: int, selector: Selector, train: FitArrays, dev: FitArrays, *, log: FitLog | None = None
) -> Selector:
    """Go on for a few epochs at a lower rate with the kept rubrics; curve and yardsticks go to the log."""
    config, log = fit_settings(session.config), log or FitLog()
    start = [selector.kind, *(digest_of(array) for _, array in sorted(selector.tensors().items()))]
    inputs = ("calibrate", train.digest(), dev.digest(), config.as_json(), start)

    def run(on_epoch: OnEpoch) -> FitResult:
        again = partial(calibrate, selector, train, dev, config)
        return kept_fit(session.stages, f"calibrate-{number}", inputs, again, on_epoch)

    result, curve = watched(run, empty_curve(config, dev, number=number, phase="calibrate"), log.watch)
    log.curves.append(curve)
    if (beside := yardsticks_of(train, dev)) is not None:
        log.yardsticks[number] = beside
    return result.selector


def fit_settings(config: TrainConfig) -> FitConfig:
    """Return the fit's settings, without the diversity term where that is ablated."""
    return replace(config.fit, diversity=0.0) if "diversity" in config.ablate else config.fit


def margins_with(config: FitConfig, selector: Selector, arrays: FitArrays) -> NDArray[np.float32]:
    """Return F of every pair as the fit sees it, shape (n_pairs,)."""
    return pair_margins(selector, arrays, config)
