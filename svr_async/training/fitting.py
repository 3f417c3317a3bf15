"""The fits of a round: selector and weights on the judged entries, and the short calibration after pruning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.training import calibrate, fit, pair_margins
from svr_async.training.session import Session


def fit_round(session: Session, number: int, train: FitArrays, dev: FitArrays) -> Selector:
    """Fit one round, with checkpoints in the run's folder so that a killed fit goes on."""
    folder = session.stages.folder / f"fit-{number}"
    result = fit(train, dev, settings(session), checkpoint_dir=folder, resume=True)
    session.say(f"round {number}: fit ended, best epoch {result.best_epoch}, dev accuracy {result.dev_accuracy:.4f}")
    return result.selector


def calibrate_round(session: Session, number: int, selector: Selector, train: FitArrays, dev: FitArrays) -> Selector:
    """Go on for a few epochs at a lower rate with the kept rubrics."""
    folder = session.stages.folder / f"calibrate-{number}"
    return calibrate(selector, train, dev, settings(session), checkpoint_dir=folder, resume=True).selector


def settings(session: Session) -> FitConfig:
    """Return the fit's settings, without the diversity term where that is ablated."""
    config = session.config.fit
    return replace(config, diversity=0.0) if "diversity" in session.config.ablate else config


def margins_with(config: FitConfig, selector: Selector, arrays: FitArrays) -> NDArray[np.float32]:
    """Return F of every pair as the fit sees it, shape (n_pairs,)."""
    return pair_margins(selector, arrays, config)
