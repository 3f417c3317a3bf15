"""What a round does once its pools are judged: fit, prune, calibrate. The same for `svr train` and `svr-fit`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.choices import Choice
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitResult
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.prune import activation_rates, prune
from svr_async.training.rounds.round_data import RoundData

Fit = Callable[[FitArrays, FitArrays], FitResult]  # train, dev
Calibrate = Callable[[Selector, FitArrays, FitArrays], Selector]


def fit_and_prune(
    data: RoundData, config: TrainConfig, fit: Fit, calibrate: Calibrate
) -> tuple[NDArray[np.int64], Selector, Choice | None]:
    """Return the places of the rubrics that are kept, the selector of those, and the structure that was chosen.

    `fit` and `calibrate` are how the caller runs a fit: with what checkpoints, and who is told.
    """
    fitted = fit(data.train, data.dev)
    selector = fitted.selector
    rates = activation_rates(selector, data.train)
    kept = prune(config, data.bank, selector, rates, data.support, judgements(data.train), last=data.last)
    places = np.array(kept, dtype=np.int64)
    train, dev = data.train.restrict_rubrics(places), data.dev.restrict_rubrics(places)
    return places, calibrate(selector.restrict(places), train, dev), fitted.choice


def judgements(arrays: FitArrays) -> NDArray[np.float64]:
    """Return how often each rubric was judged, an entry counting its weight, shape (n_rubrics,)."""
    counts = np.bincount(arrays.z_rubric, weights=arrays.z_weight, minlength=arrays.n_rubrics)
    return counts.astype(np.float64)
