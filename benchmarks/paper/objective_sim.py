"""The simulated endpoint's judge and author in process: the same answers as over HTTP, without the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from svr_async.judges.authoring import MAX_INDUCED
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.simulation import authoring
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.planted import PlantedWorld
from svr_async.vocabulary.pair import PreferencePair, Presentation, prompt_text
from svr_async.vocabulary.rubric import Rubric
from svr_async.vocabulary.verdict import RubricComparison


@dataclass(slots=True)
class SimJudge:
    """A planted judge that answers the one question of judged pools."""

    world: PlantedWorld
    model: JudgeModel
    name: str = "sim"
    label: str = "SIMULATED, in process"

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Judge rubrics on both responses; there is no overall verdict here."""
        assert not overall, note
        judge, language = PlantedJudge(self.world, self.model), self.world.language
        prompt = language.read_prompt(prompt_text(shown.prompt))
        a, b = language.read_response(shown.response_a), language.read_response(shown.response_b)
        rows = [(rubric.id, judge.compare(prompt, a, b, language.read_rubric(rubric.text))) for rubric in rubrics]
        return Answer(value=Comparisons(rows=tuple(RubricComparison(i, r.a, r.b, r.better) for i, r in rows)))


@dataclass(slots=True)
class SimAuthor:
    """A planted author that answers the one question of induction."""

    world: PlantedWorld
    model: JudgeModel
    name: str = "sim"

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Propose rubrics that tell chosen from rejected."""
        assert contrastive
        rows = authoring.Author(self.world, self.model).induce(prompt_text(pair.prompt), pair.chosen, pair.rejected)
        names = {"text": "rubric", "facet": "facet", "importance": "importance", "grounding": "grounding"}
        rubrics = [Rubric(**{name: row[key] for name, key in names.items()}) for row in rows]
        return Answer(value=tuple({rubric.id: rubric for rubric in rubrics}.values())[:MAX_INDUCED])


def true_weights(world: PlantedWorld, rubrics: Sequence[Rubric]) -> np.ndarray:
    """Return what one who knows the world would weigh (type, rubric): the first rubric on each criterion, in full."""
    named = [world.language.read_rubric(rubric.text).criterion for rubric in rubrics]
    weights = np.zeros((len(world.kinds), len(rubrics)))
    for number, kind in enumerate(world.kinds):
        for criterion, weight in zip(kind.cares, kind.weights, strict=True):
            if criterion in named:
                weights[number, named.index(criterion)] = weight
    return weights
