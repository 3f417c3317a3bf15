"""The simulated endpoint's judge in process: the same answers as over HTTP, without the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Presentation, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.simulation.chances import Stater
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.planted import PlantedWorld


@dataclass(slots=True)
class SimJudge:
    """A planted judge that answers the one question of judged pools; with `expected`, by its probabilities."""

    world: PlantedWorld
    model: JudgeModel
    expected: bool = False
    name: str = "sim"
    label: str = "SIMULATED, in process"
    marks: Marks = frozenset({Integrity.SIMULATED})

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Judge rubrics on both responses; there is no overall verdict here."""
        assert not overall, note
        judge, language = comparer(PlantedJudge(self.world, self.model), expected=self.expected), self.world.language
        prompt = language.read_prompt(prompt_text(shown.prompt))
        a, b = language.read_response(shown.response_a), language.read_response(shown.response_b)
        rows = [(rubric.id, judge.compare(prompt, a, b, language.read_rubric(rubric.text))) for rubric in rubrics]
        return Answer(value=Comparisons(rows=tuple(replace(row, rubric_id=rubric_id) for rubric_id, row in rows)))


def comparer(judge: PlantedJudge, *, expected: bool) -> PlantedJudge | Stater:
    """Return the judge of verdicts, or the same one as it answers with probabilities."""
    return Stater(judge) if expected else judge
