"""`pointwise`: each response scored alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from svr_async.core.pair import HumanRubrics, Presentation, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, settled
from svr_async.scoring.methods.contract import Facts, Parts, Recipe, WeightedRubrics
from svr_async.scoring.methods.decisions import contributions, decided, identity_of, undecided

if TYPE_CHECKING:
    from svr_async.scoring.chooser import Chooser


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Each response scored alone: z = score_a − score_b per rubric; F = Σ weight · z (paper's pointwise ablation).

    The rubrics are the fixed list, or where there is none those that the judge writes for the prompt.
    """

    rubrics: WeightedRubrics = ()
    name: str = "pointwise"

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(identity=identity_of(self.rubrics), staged=not self.rubrics)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for two sets of scores and add up their differences."""
        weighted, requests = self.rubrics, tuple[str, ...]()
        if not weighted:
            written = await judge.write_rubrics(shown.prompt)
            if written.value is None:
                return undecided(written, shown)
            weighted, requests = tuple((rubric, 1.0) for rubric in written.value.rubrics), written.requests
        rubrics = [rubric for rubric, _ in weighted]
        a = await judge.score(shown.prompt, shown.response_a, rubrics)
        b = await judge.score(shown.prompt, shown.response_b, rubrics)
        if a.value is None or b.value is None:
            return undecided(a if a.value is None else b, shown)
        margin = sum(w * (a.value[r.id] - b.value[r.id]) for r, w in weighted if r.id in a.value and r.id in b.value)
        parts = contributions(weighted, _rows_of_scores(rubrics, a.value, b.value))
        found = decided(margin, shown, parts, requests + a.requests + b.requests, ())
        return replace(found, scores=_totals(weighted, a.value, b.value))


@dataclass(frozen=True, slots=True)
class SvrPointwise:
    """The pointwise ablation: each response scored alone on the chosen rubrics, z = score_a − score_b."""

    chooser: Chooser
    name: str = "pointwise"

    @property
    def facts(self) -> Facts:
        """What a run has to know of it."""
        return Facts(identity=self.chooser.identity)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Score both responses and add up the weighted differences."""
        active = self.chooser.choose(shown.prompt)
        weighted = tuple((self.chooser.bank.rubrics[entry.index].rubric, entry.importance) for entry in active)
        return await Pointwise(tuple(sorted(weighted, key=lambda item: item[0].id))).decide(judge, shown, human_rubrics)


def _make(_name: str, parts: Parts) -> Pointwise | SvrPointwise:
    if parts.bank is None:
        return Pointwise(parts.rubrics)
    from svr_async.scoring.chooser import open_chooser

    return SvrPointwise(open_chooser(parts.bank, top_k=parts.top_k))


RECIPE = Recipe(make=_make, takes=frozenset({"bank", "rubrics"}))


def _totals(weighted: WeightedRubrics, a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, float] | None:
    """Return the score of each response; None where the judge left a rubric out, so that the sums do not compare."""
    if any(rubric.id not in a or rubric.id not in b for rubric, _ in weighted):
        return None
    first, second = (settled(sum(w * one[rubric.id] for rubric, w in weighted)) for one in (a, b))
    return first, second


def _rows_of_scores(
    rubrics: Sequence[Rubric], a: Mapping[str, float], b: Mapping[str, float]
) -> tuple[RubricComparison, ...]:
    """Show scores as verdicts for the report: at least a half passes, the higher score is better."""
    rows = []
    for rubric in rubrics:
        if rubric.id in a and rubric.id in b:
            high, low = a[rubric.id], b[rubric.id]
            better = None if high == low else (Side.A if high > low else Side.B)
            verdicts = [Verdict.PASS if score >= 0.5 else Verdict.FAIL for score in (high, low)]
            rows.append(RubricComparison(rubric.id, verdicts[0], verdicts[1], better))
    return tuple(rows)
