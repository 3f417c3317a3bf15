"""`self-rubric`: the judge writes rubrics from the prompt, then judges by them."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, Recipe
from svr_async.scoring.methods.decisions import by_preference, undecided


@dataclass(frozen=True, slots=True)
class SelfRubric:
    """The judge writes rubrics from the prompt, then judges by them; its overall preference decides."""

    name: str = "self-rubric"

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(staged=True)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for rubrics, then for verdicts."""
        written = await judge.write_rubrics(shown.prompt)
        if written.value is None:
            return undecided(written, shown)
        weighted = tuple((rubric, 1.0) for rubric in written.value.rubrics)
        answer = await judge.compare(shown, written.value.rubrics, overall=True, note=written.value.note)
        return by_preference(answer, shown, weighted, written.requests)


RECIPE = Recipe(make=lambda *_: SelfRubric())
