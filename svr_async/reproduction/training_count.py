"""What a training, or a stage of it, would ask: calls, tokens, dollars and seconds, sending nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from svr_async.evaluation.dry_run import DryRunCount, total_count
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.rounds.dry_run import Assumed
from svr_async.training.rounds.session import Session
from svr_async.training.running.run import TrainingListener, count_calls
from svr_async.training.running.settings import TrainSettings

Work = Callable[[Session], Awaitable[Any]]


class CallCount(TrainingListener):
    """Counts what the judge and who writes for it would send; `found` is empty where nothing is sent."""

    def __init__(self, before: set[str]) -> None:
        self._before = before
        self.found: dict[str, DryRunCount] = {}

    def opened(self, judge: OpenJudge) -> None:
        """Count from now on."""
        asked = [one for one in (judge, judge.behind) if one is not None]
        self.found = {
            one.judge.name: DryRunCount(one.engine, before=self._before) for one in asked if one.engine is not None
        }


def count_training(
    settings: TrainSettings, work: Work, assumed: Assumed | None = None, *, before: set[str] | None = None
) -> dict[str, Any] | None:
    """Return calls, tokens, dollars and seconds of a work, with what is assumed; None where nothing is sent.

    Questions in `before` are not counted, and those that are counted are added to it.
    """
    counted = CallCount(set() if before is None else before)
    count_calls(settings, work, counted)
    if not counted.found:
        return None
    count = total_count({name: one.price() for name, one in counted.found.items()})
    if before is not None:
        before.update(*(one.keys for one in counted.found.values()))
    return count if assumed is None else count | {"assumed": asdict(assumed)}


def count_training_of(settings: TrainSettings, seen: set[str]) -> tuple[dict[str, Any], str]:
    """Return the numbers of a training, and what they assume."""
    from svr_async.training.rounds.dry_run import ASSUMED, count_rounds

    count = count_training(settings, count_rounds, ASSUMED, before=seen) or {}
    return count, f"with trainings, of which is {ASSUMED.in_words()}"
