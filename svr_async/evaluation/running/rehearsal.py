"""An evaluation without calls, for batch files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from svr_async.engine.concurrency import ShutdownController
from svr_async.evaluation.run import judge_pairs
from svr_async.evaluation.running.judge_pool import JudgePool, evaluation_of, open_judge_pool
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.judges.batch import Opened, Unanswered, endpoints_of

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedEvaluation:
    """An evaluation, without calls."""

    run: Prepared
    profiles: tuple[Profile, ...]

    @property
    def staged(self) -> bool:
        """Whether rubrics are written or reworded before they are judged, or margins decide what else is asked."""
        settings = self.run.settings
        adaptive = settings.audit_below is not None or settings.escalate_to is not None
        return adaptive or self.run.method.facts.staged

    async def open(self) -> JudgePool:
        """Open the judges."""
        return await open_judge_pool(self.run)

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Judge every pair as far as the replies go."""
        assert isinstance(opened, JudgePool)
        shutdown = ShutdownController()
        await judge_pairs(replace(evaluation_of(self.run, opened), guessed=unanswered.guessed), shutdown)
        shutdown.reraise()


def rehearsed(settings: EvalSettings) -> RehearsedEvaluation:
    """Settle data, method and judges; UsageError where no judge sends anything."""
    run = prepare(settings)
    profiles = endpoints_of([judge.profile for judge in run.judges.judges], settings.judge)
    return RehearsedEvaluation(run=run, profiles=profiles)
