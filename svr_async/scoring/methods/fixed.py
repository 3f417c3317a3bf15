"""`fixed`: one list of weighted rubrics for every pair."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, Recipe, WeightedRubrics
from svr_async.scoring.methods.decisions import identity_of, summed


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed list of weighted rubrics for every pair: F = Σ weight · Δ, or `by_points` Σ points · satisfied."""

    rubrics: WeightedRubrics
    name: str = "fixed"
    by_points: bool = False

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(identity=identity_of(self.rubrics) | ({"by_points": True} if self.by_points else {}))

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for verdicts on the list and add them up."""
        answer = await judge.compare(shown, [rubric for rubric, _ in self.rubrics], overall=False)
        return summed(answer, shown, self.rubrics, by_points=self.by_points)


RECIPE = Recipe(
    make=lambda _, parts: Fixed(parts.rubrics, by_points=parts.by_points), takes=frozenset({"rubrics"}), needs="rubrics"
)
