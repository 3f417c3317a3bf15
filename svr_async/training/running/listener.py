"""Who is told how a training goes on, as a screen is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from svr_async.engine.stopper import Stopper
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.judges.opening import OpenJudge


class Listener(Protocol):
    """Told of a training's judge, questions and fits. A class that names this one as its base inherits deafness."""

    def opened(self, judge: OpenJudge) -> None:
        """Take note that the judge is open and that questions are about to begin."""

    def say(self, text: str) -> None:
        """Take note of what happened, in a sentence."""

    def stage(self, what: str, total: int) -> None:
        """Take note that a stage of so many questions begins, as `judging`."""

    def count(self, done: int) -> None:
        """Take note of how many of the stage's questions are answered."""

    def listening(self, stopper: Stopper) -> AbstractContextManager[None]:  # noqa: ARG002  (for those who listen)
        """Return what is entered while questions are asked, to tell the stopper of signals; a library has none."""
        return nullcontext()

    def begin(self, curve: FitCurve) -> None:
        """Take note that a fit begins."""

    def epoch(self, record: EpochRecord) -> None:
        """Take note of an epoch of the fit."""

    def end(self, curve: FitCurve) -> None:
        """Take note of how the fit ended."""


class Silent(Listener):
    """Nobody listens."""
