"""Who is told how a training goes on, as a screen is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from svr_async.engine.concurrency import ShutdownController
from svr_async.fit.history import EpochRecord, FitCurve, FitWatch
from svr_async.judges.open_judge import OpenJudge


class FitListener(Protocol):
    """Told of the fit of a store."""

    def fits(self, seeds: int, epochs: int) -> FitWatch | None:
        """Return who is told of so many fits of so many epochs; of 0 where a fit is solved."""

    def say(self, text: str) -> None:
        """Take note of what happened, in a sentence."""


class Listener(FitWatch, Protocol):
    """Told of a training: its judge, its questions, its fits."""

    def opened(self, judge: OpenJudge) -> None:
        """Take note that the judge is open and that questions are about to begin."""

    def say(self, text: str) -> None:
        """Take note of what happened, in a sentence."""

    def stage(self, what: str, total: int) -> None:
        """Take note that a stage of so many questions begins, as `judging`."""

    def count(self, done: int) -> None:
        """Take note of how many of the stage's questions are answered."""

    def listening(self, shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Return what is entered while questions are asked, to tell the shutdown of signals."""


class Silent:
    """Listens to nothing. Who listens to a part of it names this class as a base."""

    def opened(self, judge: OpenJudge) -> None:
        """Take no note."""

    def fits(self, _seeds: int, _epochs: int) -> FitWatch | None:
        """Have nobody told."""
        return None

    def say(self, text: str) -> None:
        """Take no note."""

    def stage(self, what: str, total: int) -> None:
        """Take no note."""

    def count(self, done: int) -> None:
        """Take no note."""

    def listening(self, _stopper: ShutdownController) -> AbstractContextManager[None]:
        """Leave signals to the program."""
        return nullcontext()

    def begin(self, curve: FitCurve) -> None:
        """Take no note."""

    def epoch(self, record: EpochRecord) -> None:
        """Take no note."""

    def end(self, curve: FitCurve) -> None:
        """Take no note."""
