"""The simulated judges: verdicts and probabilities from planted attributes, with noise drawn from the content alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from svr_async.core.pair import Side
from svr_async.core.rubric import positive
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.simulation.catalogue import GENERIC
from svr_async.simulation.world import (
    PromptReading,
    ResponseReading,
    RubricReading,
    World,
    draw,
    draw_bytes,
    squeeze,
    uniform,
)

HEADS = ("The response", "The answer", "The reply", "A good response", "The response clearly")  # of rubrics
MET_ADVANTAGE = 0.6  # how much meeting a criterion adds to the hidden degree that settles equal verdicts
IMPRESSION = 0.1  # how far quality and surface move the verdict on a rubric that names no attribute
DIRECT_NOISE = 0.3  # a direct judge's noise is uniform in [0, 0.3), in units of one surface attribute
N_WRITTEN = 5
DIRECT_CHANCE = 0.55  # probability stated for a direct verdict: such verdicts are right about as often as not
NEARER = 1 - (1 - MET_ADVANTAGE) ** 2 / 2  # chance that the response that meets a criterion has the higher degree
ABOUT = re.compile(
    r"(?:The response|Response (A|B)) satisfies this rubric( better than response [AB] does)?: (.*)", re.DOTALL
)
BETTER = re.compile(r"Response (A|B) is the better response")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeModel:
    """How good one simulated judge is.

    `noise` is the chance of a wrong verdict; `position_bias` the chance to prefer A on a rubric without looking, if
    both verdicts are equal; `direct_bias` the same for a verdict without rubrics; `insight` the weight of a response's
    true worth in a direct verdict, compared with its surface; `invention` the share of self-written rubrics that name
    something the prompt's type cares about.
    """

    name: str
    noise: float
    position_bias: float = 0.1
    direct_bias: float = 0.1
    insight: float = 0.45
    invention: float = 0.25


MODELS: dict[str, JudgeModel] = {
    model.name: model
    for model in (
        JudgeModel(name="gpt-oss-120b", noise=0.10),
        JudgeModel(name="gpt-oss-20b", noise=0.16, position_bias=0.2, direct_bias=0.2, insight=0.4, invention=0.2),
        JudgeModel(name="gpt-4o-mini", noise=0.14, direct_bias=0.15, insight=0.42, invention=0.15),
        JudgeModel(name="deepseek-v4-flash", noise=0.09, position_bias=0.08, insight=0.6, invention=0.35),
        JudgeModel(name="Qwen/Qwen3.5-397B-A17B", noise=0.06, position_bias=0.06, insight=0.8, invention=0.3),
        JudgeModel(name="gpt-5.4", noise=0.05, position_bias=0.05, direct_bias=0.05, insight=0.7, invention=0.4),
        JudgeModel(name="gemini-3-flash", noise=0.07, direct_bias=0.12, insight=0.6, invention=0.35),
        JudgeModel(name="sim-perfect", noise=0.0, position_bias=0.0, direct_bias=0.0, insight=50.0, invention=1.0),
        JudgeModel(name="sim-strong", noise=0.04, position_bias=0.05, direct_bias=0.05, insight=1.2, invention=0.5),
        JudgeModel(name="sim-weak", noise=0.25, position_bias=0.3, direct_bias=0.3, insight=0.3, invention=0.1),
        JudgeModel(name="sim-biased", noise=0.10, position_bias=0.8, direct_bias=0.8),
    )
}


class Opinion(NamedTuple):
    """A judge's verdict on one response and rubric, and the hidden degree behind it."""

    met: bool
    degree: float


class PlantedJudge:
    """One simulated judge. Every answer is a pure function of (seed, model, content)."""

    def __init__(self, world: World, model: JudgeModel) -> None:
        self.world = world
        self.model = model
        self._key = draw_bytes(world.seed, model.name)
        self._noise = min(0.5, model.noise)

    def opinion(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> Opinion:
        """Judge one response on one rubric, independently of other rubrics, responses and positions."""
        drawn = reading = draw_bytes(self._key, prompt.digest, response.digest, rubric.digest)
        if rubric.criterion is not None and uniform(drawn, 2) < self.world.shared_errors:
            # The judge errs on the criterion in any wording, instead of on this wording alone.
            reading = draw_bytes(self._key, "criterion", prompt.digest, response.digest, rubric.criterion)
        seen = self._sees(prompt, response, rubric)
        whim = uniform(reading if self.world.shared_whims else drawn, 1)
        degree = MET_ADVANTAGE * (rubric.criterion is not None and seen) + whim
        return Opinion(seen is not (uniform(reading, 0) < self.model.noise), degree)

    def _sees(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> bool:
        """Return whether a response meets a rubric, before noise; a rubric outside the world is met by chance."""
        if rubric.criterion is not None:
            return bool(response.met >> rubric.criterion & 1)
        chance = 0.5 + IMPRESSION * (self._quality(prompt, response) - 0.5) + IMPRESSION * (response.surface - 1.5) / 3
        return draw(self.world.seed, "unknown", response.digest, rubric.digest) < chance

    def _quality(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return the true worth of a response between 0 and 1; outside the world, its variety of words."""
        if prompt.kind is None or not response.met:
            return response.variety
        kind = self.world.kinds[prompt.kind]
        return kind.value(response.met) / kind.total

    def compare(
        self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, rubric: RubricReading
    ) -> RubricComparison:
        """Judge one rubric on both responses; `better` follows the verdicts, then the degrees, or the bias to A."""
        of_a, of_b = self.opinion(prompt, a, rubric), self.opinion(prompt, b, rubric)
        if of_a.met is not of_b.met:
            better = Side.A if of_a.met else Side.B
        elif uniform(self._pair_draw(prompt, a, b, rubric.digest)) < self.model.position_bias:
            better = Side.A
        else:
            better = Side.A if of_a.degree >= of_b.degree else Side.B
        a_verdict, b_verdict = (Verdict.PASS if one.met else Verdict.FAIL for one in (of_a, of_b))
        return RubricComparison(rubric.text, a_verdict, b_verdict, better)

    def _pair_draw(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, extra: bytes) -> bytes:
        """Draw for a pair in either order, so that a biased judge says A both times."""
        return draw_bytes(self._key, "pair", prompt.digest, *sorted((a.digest, b.digest)), extra)

    def prefer(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading) -> Side:
        """Name the better response without rubrics: dazzled by surface, biased to A, with little insight."""
        if uniform(self._pair_draw(prompt, a, b, b"direct")) < self.model.direct_bias:
            return Side.A
        return Side.A if self.appeal(prompt, a) >= self.appeal(prompt, b) else Side.B

    def appeal(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return how good a response looks without rubrics: its surface, and the visible part of its quality."""
        whim = draw(self._key, "direct", prompt.digest, response.digest)
        return response.surface + self.model.insight * self._quality(prompt, response) + DIRECT_NOISE * whim

    @staticmethod
    def overall(rows: Sequence[RubricComparison]) -> Side:
        """Name the better response from judged rows with equal weights; a tie goes by the first row."""
        total = sum(row.delta or 0.0 for row in rows)
        if total == 0.0 and rows:
            return rows[0].better or Side.A
        return Side.A if total > 0 else Side.B

    def write_rubrics(self, prompt: PromptReading, *about: str) -> list[str]:
        """Write rubrics from the prompt alone; `about` varies them. Few name what its type cares about."""
        cares = () if prompt.kind is None else self.world.kinds[prompt.kind].cares
        draws = [draw_bytes(self._key, "write", prompt.digest, slot, *about) for slot in range(N_WRITTEN * 2)]
        return list(dict.fromkeys(self._written(drawn, cares) for drawn in draws))[:N_WRITTEN]

    def _written(self, drawn: bytes, cares: Sequence[int]) -> str:
        pick, criteria = uniform(drawn, 1), self.world.criteria
        if cares and uniform(drawn, 0) < self.model.invention:
            return criteria[cares[int(pick * len(cares))]].rubric
        if uniform(drawn, 2) < 0.5:
            return GENERIC[int(pick * len(GENERIC))]
        return criteria[int(pick * len(criteria))].rubric

    def chance(self, statement: str, prompt: PromptReading, responses: Mapping[str, ResponseReading]) -> float:
        """Return the probability of a statement about responses (by name): that of an observer who knows the noise."""
        if direct := BETTER.match(statement):
            named = self.prefer(prompt, responses["A"], responses["B"]) is Side(direct[1])
            return DIRECT_CHANCE if named else round(1 - DIRECT_CHANCE, 6)
        about = ABOUT.match(statement)
        if about is None:
            return 0.5
        side, compares, text = about[1] or "", about[2], about[3].strip()
        negated = self._negated.get(squeeze(text))
        rubric = self.world.read_rubric(negated or text)
        if compares:
            row = self.compare(prompt, responses["A"], responses["B"], rubric)
            verdicts = (row.a is Verdict.PASS, row.b is Verdict.PASS)
            better = _better_after(self._noise, self.model.position_bias, verdicts, row.better is Side.A)
            found = better if side == "A" else 1 - better
        else:
            met = self.opinion(prompt, responses[side], rubric).met
            found = 1 - self._noise if met else self._noise
        return round(1 - found if negated else found, 6)

    @cached_property
    def _negated(self) -> dict[str, str]:
        """Return the rubrics with a "not" by their positive text, unless that is a rubric too."""
        texts = [f"{head} {text}." for one in self.world.criteria for text in one.predicates for head in HEADS]
        known = {squeeze(text) for text in texts}
        turned = {squeeze(one.text): text for text in texts if (one := positive(text)).turned}
        return {text: rubric for text, rubric in turned.items() if text not in known}


@lru_cache(maxsize=256)
def _better_after(noise: float, bias: float, passed: tuple[bool, bool], named_a: bool) -> float:
    """Return P(A has the higher degree) after both verdicts and the name of the better response."""
    if passed[0] is passed[1]:
        return 1 / (1 + bias) if named_a else 0.0
    right, wrong = (1 - noise) ** 2, noise**2  # both verdicts; if only one is wrong, either may be higher
    higher = right * NEARER + wrong * (1 - NEARER) + (1 - right - wrong) / 2
    return higher if passed[0] else 1 - higher
