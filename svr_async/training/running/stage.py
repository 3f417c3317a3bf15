"""A stage of a training by itself, and a training without calls."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from svr_async.engine.loops import loop_factory
from svr_async.judges.opening import OpenJudge
from svr_async.training.answers import Outcomes
from svr_async.training.asking import StageEndsError
from svr_async.training.running.data import load_data
from svr_async.training.running.listener import Listener, Silent
from svr_async.training.running.run import TrainingRun, open_run, open_session
from svr_async.training.running.settings import TrainSettings
from svr_async.training.session import Session

T = TypeVar("T")
Work = Callable[[Session], Awaitable[Any]]


def stages_beside(out: Path) -> Path:
    """Return the folder in which a stage that writes to `out` is kept, to go on after an end."""
    return out.with_name(f"{out.name}.stages")


def run_stage(
    settings: TrainSettings, work: Callable[[TrainingRun], Awaitable[T]], listener: Listener | None = None
) -> tuple[T, Outcomes]:
    """Return what the work returns, and what became of its questions; the stage is kept in `settings.out`."""
    data = load_data(settings)

    async def main() -> tuple[T, Outcomes]:
        async with open_run(settings, data, listener or Silent()) as run:
            return await work(run), run.session.stages.outcomes

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main())


async def rehearse(settings: TrainSettings, judge: OpenJudge, work: Work, may_begin: Callable[[], bool]) -> None:
    """Ask stage by stage, up to the first that may not begin.

    Stages are computed in a folder that goes at the end, since what is computed without all replies must not be taken
    for a stage of the real run.
    """
    data = load_data(settings)
    with tempfile.TemporaryDirectory() as stages:
        session = open_session(replace(settings, out=Path(stages)), data, judge, Silent())
        session.crew = replace(session.crew, may_begin=may_begin)
        with contextlib.suppress(StageEndsError):
            await work(session)
