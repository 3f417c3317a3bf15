"""`svr judge`, `svr induce` and `svr train` without calls, for batch files: one stage of questions after another."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.adapters import refuse_benchmark_for_training
from svr_async.commands.batch.plan import Opened, Unanswered, endpoints_of, params_of
from svr_async.commands.train_flags import stage_settings, train_settings
from svr_async.judges.opening import OpenJudge
from svr_async.training.rounds import run_rounds
from svr_async.training.running.candidates import ask_for_candidates, load_rubrics
from svr_async.training.running.entries import ask_for_entries
from svr_async.training.running.run import open_judge
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.stage import Work, rehearse

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile


@dataclass(frozen=True, slots=True)
class OneJudge:
    """The judge of a training, open."""

    judges: tuple[OpenJudge]

    async def close(self) -> None:
        """Close its engine."""
        await self.judges[0].close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedTraining:
    """A stage of training, or all of them, without calls."""

    settings: TrainSettings
    work: Work
    profiles: tuple[Profile, ...]
    staged: bool

    async def open(self) -> OneJudge:
        """Open the judge; failures of an earlier run are known where there was one."""
        if self.settings.out.is_dir():
            return OneJudge((open_judge(self.settings),))
        with tempfile.TemporaryDirectory() as nothing:
            return OneJudge((open_judge(replace(self.settings, out=Path(nothing))),))

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask stage by stage, up to the first that has no replies to all of its questions."""
        (judge,) = opened.judges
        await rehearse(self.settings, judge, self.work, lambda: not unanswered)


def plan_training(name: str, args: Sequence[str]) -> RehearsedTraining:
    """Read the words of `svr judge`, `svr induce` or `svr train`."""
    params = params_of(name, args)
    settings = (train_settings if name == "train" else stage_settings)(params)
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    work = _work(name, params)
    profiles = endpoints_of([settings.spec.profile], settings.judge)
    return RehearsedTraining(settings=settings, work=work, profiles=profiles, staged=name == "train")


def _work(name: str, params: Mapping[str, Any]) -> Work:
    """Return what a command asks, given a session."""
    if name == "judge":
        rubrics = load_rubrics(params["bank"], params["candidates"])
        return lambda session: ask_for_entries(session, rubrics)
    return ask_for_candidates if name == "induce" else run_rounds
