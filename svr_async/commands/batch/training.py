"""`svr judge`, `svr induce` and `svr train` without calls, for batch files: one stage of questions after another."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.adapters import get_adapter, refuse_benchmark_for_training
from svr_async.commands.batch.plan import Opened, Unanswered, endpoints_of, known_of, params_of
from svr_async.commands.options import with_limits
from svr_async.commands.train.command import train
from svr_async.commands.train.run import (
    TrainFlags,
    decontaminated,
    open_judge,
    open_session,
    screen_of,
    train_config,
    training_pairs,
)
from svr_async.commands.train.stage_commands import induce, judge
from svr_async.commands.train.stages import load_rubrics, train_flags
from svr_async.errors import UsageError
from svr_async.judges.opening import OpenJudge
from svr_async.judges.spec import JudgeSpec
from svr_async.training.asking import StageEndsError
from svr_async.training.inducing import induced
from svr_async.training.judging import judge_pools, sources_of
from svr_async.training.rounds import run_rounds
from svr_async.training.session import Growth, Session

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
class TrainingRun:
    """A stage of training, or all of them, without calls.

    Stages are computed in a folder that goes when the run ends, since what is computed without all replies must not
    be taken for a stage of the real run.
    """

    flags: TrainFlags
    work: Work
    profiles: tuple[Profile, ...]
    staged: bool

    async def open(self) -> OneJudge:
        """Open the judge; failures of an earlier run are known where there was one."""
        if self.flags.out.is_dir():
            return OneJudge((open_judge(self.flags),))
        with tempfile.TemporaryDirectory() as nothing:
            return OneJudge((open_judge(replace(self.flags, out=Path(nothing))),))

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask stage by stage, up to the first that has no replies to all of its questions."""
        flags, (judge,) = self.flags, opened.judges
        dataset = get_adapter(flags.adapter).load(flags.pairs, lenient=flags.lenient)
        pairs, _ = decontaminated(training_pairs(dataset, flags), flags.decontaminate)
        if not pairs:
            raise UsageError(f"all pairs overlap with {', '.join(flags.decontaminate)}", hint="train on other pairs")
        with tempfile.TemporaryDirectory() as stages:
            quiet = replace(flags, out=Path(stages), quiet=True)
            screen = screen_of(quiet, judge)
            session = open_session(quiet, train_config(flags), dataset, pairs, judge, screen=screen)
            session.crew = replace(session.crew, may_begin=lambda: not unanswered)
            with contextlib.suppress(StageEndsError):
                await self.work(session)


def plan_training(name: str, args: Sequence[str]) -> TrainingRun:
    """Read the words of `svr judge`, `svr induce` or `svr train`."""
    command = {"judge": judge, "induce": induce, "train": train}[name]
    params = params_of(command, name, args)
    flags = TrainFlags(**known_of(TrainFlags, with_limits(params))) if name == "train" else _stage_flags(params)
    refuse_benchmark_for_training(flags.pairs)
    refuse_benchmark_for_training(flags.adapter)
    work = {"judge": _judging, "induce": _inducing, "train": _training}[name](params)
    return TrainingRun(flags=flags, work=work, profiles=_profiles(flags), staged=name == "train")


def _profiles(flags: TrainFlags) -> tuple[Profile, ...]:
    return endpoints_of([JudgeSpec.parse(flags.judge, base_url=flags.base_url).profile], flags.judge)


def _stage_flags(params: Mapping[str, Any]) -> TrainFlags:
    out = Path(params["out"])
    stages = out.with_name(f"{out.name}.stages")
    return train_flags(params, stages=stages, descriptive=params.get("descriptive", False))


def _judging(params: Mapping[str, Any]) -> Work:
    bank = load_rubrics(params["bank"], params["candidates"])

    async def work(session: Session) -> None:
        index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
        growth = Growth(candidates=tuple(bank))
        await judge_pools(session, "judge", 1, bank, index, sources_of(session, bank), growth, ())

    return work


def _inducing(_params: Mapping[str, Any]) -> Work:
    async def work(session: Session) -> None:
        await induced(session, "induce", session.material.train, {})

    return work


def _training(_params: Mapping[str, Any]) -> Work:
    async def work(session: Session) -> None:
        await run_rounds(session)

    return work
