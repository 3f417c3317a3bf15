"""`oracle`: the human rubrics that come with the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.core.verdict import Outcome
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, Recipe
from svr_async.scoring.methods.decisions import by_preference, by_text, equally_weighted, summed


@dataclass(frozen=True, slots=True)
class Oracle:
    """The benchmark's human rubrics, judged side by side; the judge's overall preference decides.

    Rubrics with points decide themselves: each response has Σ points · satisfied.
    """

    name: str = "oracle"

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(human_rubrics=True)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Ask for verdicts on the human rubrics."""
        if not human_rubrics:
            return Decision(margin=None, outcome=Outcome.INVALID_INPUT, shown=shown.order, detail="no human rubrics")
        if all(points is not None for _, points in human_rubrics):
            weighted = by_text((text, points or 0.0) for text, points in human_rubrics)
            answer = await judge.compare(shown, [rubric for rubric, _ in weighted], overall=False)
            return summed(answer, shown, weighted, by_points=True)
        weighted = equally_weighted([text for text, _ in human_rubrics])
        answer = await judge.compare(shown, [rubric for rubric, _ in weighted], overall=True)
        return by_preference(answer, shown, weighted, ())


RECIPE = Recipe(make=lambda *_: Oracle())
