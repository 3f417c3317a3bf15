"""The mind of a simulated judge: verdicts from planted attributes, with noise drawn from the content alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.core.pair import Side
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.simulation.draws import draw, draw_bytes, uniform
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.planted import PlantedWorld
from svr_async.simulation.readings import PromptReading, ResponseReading, RubricReading
from svr_async.simulation.weakness import NONE, Weakness

MET_ADVANTAGE = 0.6  # how much meeting a criterion adds to the hidden degree that settles equal verdicts
IMPRESSION = 0.1  # how far quality and surface move the verdict on a rubric that names no attribute
DIRECT_NOISE = 0.3  # a direct judge's noise is uniform in [0, 0.3), in units of one surface attribute
N_WRITTEN = 5


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge thinks of one response on one rubric: the verdict, and the hidden degree behind it."""

    met: bool
    degree: float


class PlantedJudge:
    """One simulated judge. Every answer is a pure function of (seed, model, content)."""

    def __init__(self, world: PlantedWorld, model: JudgeModel, weakness: Weakness = NONE) -> None:
        self.world = world
        self.model = model
        self.weakness = weakness
        self._key = draw_bytes(world.seed, model.name)

    def opinion(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> Opinion:
        """Judge one response on one rubric; no other rubric, response or position plays a part."""
        drawn = draw_bytes(self._key, prompt.digest, response.digest, rubric.digest)
        seen = met = self._truth(prompt, response, rubric)
        reading = drawn  # for this wording alone, or for the criterion under any wording
        if rubric.criterion is not None and uniform(drawn, 2) < self.world.shared_errors:
            reading = draw_bytes(self._key, "criterion", prompt.digest, response.digest, rubric.criterion)
        if uniform(reading, 0) < self.model.noise:
            met = not met
        true_bit = rubric.criterion is not None and seen
        whim = uniform(reading if self.world.shared_whims else drawn, 1)
        return Opinion(met, MET_ADVANTAGE * true_bit + whim)

    def _truth(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> bool:
        if rubric.criterion is not None:
            return bool(response.met >> rubric.criterion & 1) or self._taken_in(response, rubric, rubric.criterion)
        chance = 0.5 + IMPRESSION * (self.quality(prompt, response) - 0.5) + IMPRESSION * (response.surface - 1.5) / 3
        return draw(self.world.seed, "unknown", response.digest, rubric.digest) < chance

    def _taken_in(self, response: ResponseReading, rubric: RubricReading, criterion: int) -> bool:
        """Whether something that says nothing of a criterion makes this judge see it met: by its weaknesses."""
        if self.weakness == NONE:
            return False
        facet = self.world.language.everything[criterion].facet
        tempting = self.weakness.tempting(response.plain, rubric, facet)
        parts = ("taken in", response.digest, rubric.digest)
        return any(draw(self._key, *parts, name) < chance for name, chance in tempting.items())

    def quality(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return the true worth of a response between 0 and 1; outside the world, its variety of words."""
        kind = self.world.kind_of(prompt)
        if kind is None or not response.met:
            return response.variety
        return kind.value(response.met) / kind.total

    def compare(
        self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, rubric: RubricReading
    ) -> RubricComparison:
        """Judge one rubric on both responses; `better` follows the verdicts, then the degrees, or just says A."""
        of_a, of_b = self.opinion(prompt, a, rubric), self.opinion(prompt, b, rubric)
        better = self._better(of_a, of_b, self._pair_draw(prompt, a, b, rubric.digest))
        return RubricComparison(rubric.text, _verdict(of_a.met), _verdict(of_b.met), better)

    def _better(self, a: Opinion, b: Opinion, drawn: bytes) -> Side:
        if a.met is not b.met:
            return Side.A if a.met else Side.B
        if uniform(drawn, 0) < self.model.position_bias or a.degree == b.degree:
            return Side.A
        return Side.A if a.degree > b.degree else Side.B

    def _pair_draw(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, extra: bytes) -> bytes:
        """Draw for a pair whatever its order, so that a leaning judge says A both ways round."""
        first, second = sorted((a.digest, b.digest))
        return draw_bytes(self._key, "pair", prompt.digest, first, second, extra)

    def prefer(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading) -> Side:
        """Name the better response without rubrics: dazzled by surface, leaning to A, with little insight."""
        if uniform(self._pair_draw(prompt, a, b, b"direct"), 0) < self.model.direct_bias:
            return Side.A
        return Side.A if self.appeal(prompt, a) >= self.appeal(prompt, b) else Side.B

    def appeal(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return how good a response looks without rubrics: its surface, and what the judge sees of its quality."""
        whim = draw(self._key, "direct", prompt.digest, response.digest)
        return response.surface + self.model.insight * self.quality(prompt, response) + DIRECT_NOISE * whim

    def overall(self, rows: Sequence[RubricComparison]) -> Side:
        """Name the better response from judged rows, each counting the same; even rows go by the first of them."""
        total = sum(row.delta or 0.0 for row in rows)
        if total == 0.0 and rows:
            return rows[0].better or Side.A
        return Side.A if total > 0 else Side.B

    def write_rubrics(self, prompt: PromptReading, *about: str) -> list[str]:
        """Write rubrics from the prompt alone: few of them name what its type cares about, the rest are generic.

        What they are `about` besides makes them others.
        """
        kind = self.world.kind_of(prompt)
        texts: list[str] = []
        for slot in range(N_WRITTEN * 2):
            drawn = draw_bytes(self._key, "write", prompt.digest, slot, *about)
            texts.append(self._written(drawn, kind.cares if kind else ()))
        return list(dict.fromkeys(texts))[:N_WRITTEN]

    def _written(self, drawn: bytes, cares: Sequence[int]) -> str:
        pick, language = uniform(drawn, 1), self.world.language
        if cares and uniform(drawn, 0) < self.model.invention:
            return language.rubric(cares[int(pick * len(cares))])
        if uniform(drawn, 2) < 0.5:
            return language.generic[int(pick * len(language.generic))]
        return language.rubric(int(pick * language.n_criteria))


def _verdict(met: bool) -> Verdict:
    return Verdict.PASS if met else Verdict.FAIL
