"""`J+rules`: checks decide the rubrics that they can, free and exact; the model judge gets the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svr_async.core.integrity import Marks
from svr_async.core.pair import Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import RubricComparison
from svr_async.judges.protocol import Answer, Comparisons, Judge, Preference, WrittenRubrics


@dataclass(frozen=True, slots=True)
class HybridJudge:
    """A model judge with the rules judge in front of it."""

    model: Judge
    rules: Judge

    @property
    def name(self) -> str:
        """Both names, joined by a plus."""
        return f"{self.model.name}+rules"

    @property
    def label(self) -> str:
        """How its results are labelled."""
        return f"{self.model.label} + offline checks"

    @property
    def marks(self) -> Marks:
        """Those of the model, since it was asked."""
        return self.model.marks

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask the model: a direct verdict has no rubrics to share out."""
        return await self.model.prefer(shown)

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Join the model's rubrics with the constraints that checks read out of the prompt."""
        written = await self.model.write_rubrics(prompt)
        if written.value is None:
            return written
        read = (await self.rules.write_rubrics(prompt)).value
        extra = () if read is None else read.rubrics
        joined = {rubric.id: rubric for rubric in (*written.value.rubrics, *extra)}
        return replace(written, value=WrittenRubrics(rubrics=tuple(joined.values()), note=written.value.note))

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Decide what checks can decide; ask the model for the rest, and for the overall preference."""
        checked = (await self.rules.compare(shown, rubrics, overall=False)).value
        decided = {row.rubric_id: row for row in checked.rows if row.better is not None} if checked else {}
        rest = [rubric for rubric in rubrics if rubric.id not in decided]
        if not rest and not overall:
            return Answer(value=Comparisons(rows=_in_order(rubrics, decided)))
        asked = await self.model.compare(shown, rubrics if overall else rest, overall=overall, note=note)
        if asked.value is None:
            return asked
        rows = {row.rubric_id: row for row in asked.value.rows} | decided
        return replace(asked, value=Comparisons(rows=_in_order(rubrics, rows), preferred=asked.value.preferred))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Score what checks can score; ask the model for the rest."""
        known = dict((await self.rules.score(prompt, response, rubrics)).value or {})
        rest = [rubric for rubric in rubrics if rubric.id not in known]
        if not rest:
            return Answer(value=known)
        asked = await self.model.score(prompt, response, rest)
        return asked if asked.value is None else replace(asked, value={**asked.value, **known})


def _in_order(rubrics: Sequence[Rubric], rows: Mapping[str, RubricComparison]) -> tuple[RubricComparison, ...]:
    return tuple(rows[rubric.id] for rubric in rubrics if rubric.id in rows)
