"""A training, or a stage of it, without calls, for batch files: one stage of questions after another."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.judges.batch import Opened, Unanswered, endpoints_of
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.rounds.judge_calls import ShardEndsError, StageEndsError
from svr_async.training.rounds.session import Session
from svr_async.training.running.data import load_data, refuse_benchmark_for_training
from svr_async.training.running.listener import Silent
from svr_async.training.running.run import open_session, open_training_judge
from svr_async.training.running.settings import TrainSettings

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile

Work = Callable[[Session], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class OneJudge:
    """The judge of a training, open."""

    judges: tuple[OpenJudge]

    async def close(self) -> None:
        """Close its engine."""
        await self.judges[0].close()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTraining:
    """A stage of training, or all of them, without calls.

    Stages are computed in a folder that goes at the end, since what is computed without all replies must not be taken
    for a stage of the real run.
    """

    settings: TrainSettings
    work: Work
    profiles: tuple[Profile, ...]
    staged: bool

    async def open(self) -> OneJudge:
        """Open the judge; failures of an earlier run are known where there was one."""
        if self.settings.out.is_dir():
            return OneJudge((open_training_judge(self.settings),))
        with tempfile.TemporaryDirectory() as nothing:
            return OneJudge((open_training_judge(replace(self.settings, out=Path(nothing))),))

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask stage by stage, up to the first that has no replies to all of its questions."""
        (judge,) = opened.judges
        data, may_begin = load_data(self.settings), lambda: not unanswered
        with tempfile.TemporaryDirectory() as stages:
            session = open_session(replace(self.settings, out=Path(stages)), data, judge, Silent())
            session.crew = replace(session.crew, may_begin=may_begin)
            with contextlib.suppress(StageEndsError, ShardEndsError):
                await self.work(session)


def batch_training(settings: TrainSettings, work: Work, *, staged: bool) -> BatchTraining:
    """Return a training that asks what `work` asks; UsageError for a benchmark, and where nothing is sent."""
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    profiles = endpoints_of([settings.spec.profile], settings.judge)
    return BatchTraining(settings=settings, work=work, profiles=profiles, staged=staged)
