"""How accuracy grows with pairs: fits on fewer of them, once a training has judged."""

from __future__ import annotations

from svr_async.errors import DegenerateFitError, UsageError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.learning_curve import LearningCurve, learning_curve
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.fits import fit_settings
from svr_async.training.rounds.session import Say


def require_solved(config: TrainConfig, asked: bool) -> None:
    """Refuse a learning curve of a preset that is descended rather than solved, before anything is judged."""
    if asked and config.fit.kind != "topics":
        raise UsageError("--learning-curve is of the default fit only", hint="leave it or --preset paper out")


def learned_curve(train: FitArrays, config: TrainConfig, say: Say) -> LearningCurve | None:
    """Return the curve of what a round was fitted on, with no call; None, said, where there is too little of it."""
    say("fitting on an eighth, a quarter and a half of the pairs")
    try:
        return learning_curve(train, fit_settings(config))
    except DegenerateFitError as error:
        say(f"warning: no learning curve: {error.message}")
        return None
