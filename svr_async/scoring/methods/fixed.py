"""`fixed`: one list of weighted rubrics for every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.core.pair import Presentation
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, Recipe, WeightedRubrics
from svr_async.scoring.methods.decisions import contributions, decided, identity_of, total, undecided


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed list of weighted rubrics for every pair: F = Σ weight · Δ."""

    rubrics: WeightedRubrics
    name: str = "fixed"

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(identity=identity_of(self.rubrics))

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Ask for verdicts on the list and add them up."""
        answer = await judge.compare(shown, [rubric for rubric, _ in self.rubrics], overall=False)
        if answer.value is None:
            return undecided(answer, shown)
        parts = contributions(self.rubrics, answer.value.rows)
        return decided(total(parts), shown, parts, answer.requests, answer.flags)


RECIPE = Recipe(make=lambda _, parts: Fixed(parts.rubrics), takes=frozenset({"rubrics"}), needs="rubrics")
