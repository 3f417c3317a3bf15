"""`longest`, `shortest` and `first`: baselines that read nothing."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, Recipe
from svr_async.scoring.methods.decisions import decided

PREFERS = {"longest": "the longer response", "shortest": "the shorter response", "first": "the first response"}


@dataclass(frozen=True, slots=True)
class ContentBlind:
    """A baseline that reads nothing: the longest response, the shortest, or the one shown first."""

    name: str

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(asks_judge=False)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Decide by length in characters, or by position."""
        if self.name == "first":
            return decided(1.0, shown, (), (), ())
        longer = float(len(shown.response_a) - len(shown.response_b))
        margin = longer if self.name == "longest" else -longer
        return decided(margin, shown, (), (), ())


RECIPE = Recipe(make=lambda name, _: ContentBlind(name))
