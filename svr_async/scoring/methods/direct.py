"""`direct`: the judge asked directly, without rubrics."""

from __future__ import annotations

from dataclasses import dataclass, replace

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, Recipe
from svr_async.scoring.methods.decisions import decided, undecided


@dataclass(frozen=True, slots=True)
class Direct:
    """The judge asked directly, without rubrics (paper `app:prompts`)."""

    name: str = "direct"

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts()

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for a direct verdict."""
        answer = await judge.prefer(shown)
        if answer.value is None:
            return undecided(answer, shown)
        found = decided(answer.value.margin, shown, answer.value.evidence, answer.requests, answer.flags)
        return replace(found, reason=answer.value.reason, scores=answer.value.scores)


RECIPE = Recipe(make=lambda *_: Direct())
