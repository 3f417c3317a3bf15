"""A stage of a training by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from svr_async.engine.concurrency import run_whole
from svr_async.training.rounds.answers import Outcomes
from svr_async.training.rounds.session import Session
from svr_async.training.running.data import load_data
from svr_async.training.running.listener import Listener, Silent
from svr_async.training.running.run import TrainingRun, open_run
from svr_async.training.running.settings import TrainSettings

T = TypeVar("T")


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

    return run_whole(main())


def count_calls(settings: TrainSettings, work: Callable[[Session], Awaitable[Any]], listener: Listener) -> None:
    """Go through what a work would send, without sending it: the listener has the judge, and may count.

    The stage is kept nowhere.
    """
    with tempfile.TemporaryDirectory() as nowhere:
        dry = replace(settings, out=Path(nowhere), limits=replace(settings.limits, dry_run=True))
        run_stage(dry, lambda run: work(run.session), listener)
