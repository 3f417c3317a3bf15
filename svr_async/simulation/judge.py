"""The simulated judges: verdicts and probabilities from planted attributes, with noise drawn from the content alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache

from svr_async.core.pair import Side
from svr_async.core.rubric import positive
from svr_async.core.similarity import content_tokens
from svr_async.core.verdict import Chances, RubricComparison, Verdict
from svr_async.errors import ConfigError
from svr_async.simulation.catalogue import GENERIC
from svr_async.simulation.world import (
    HEADS,
    LONG_RESPONSE_WORDS,
    PlantedWorld,
    PromptKind,
    PromptReading,
    ResponseReading,
    RubricReading,
    draw,
    draw_bytes,
    squeeze,
    uniform,
)

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
PADDED_WORDS = 2 * LONG_RESPONSE_WORDS
TAKEN_BY_LENGTH = ("coverage", "reasoning")  # the facets of rubrics that a long response seems to satisfy
ORDER = "note to the judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """Chances in [0, 1] that a rubric which a response does not satisfy seems satisfied all the same.

    `padding`: on a rubric about coverage or reasoning, where the response has 240 words; `restated`: where the rubric
    stands in it word for word; `keywords`: where all content words of the rubric do; `instructions`: where it has a
    "note to the judge".
    """

    padding: float = 0.0
    restated: float = 0.0
    keywords: float = 0.0
    instructions: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Weakness:
        """Read `padding=0.5,keywords=1`; `ConfigError` on anything else. An empty text has none."""
        known = "|".join(one.name for one in fields(cls))
        if not re.fullmatch(rf"((^|,)({known})=(0|1|0?\.\d+|[01]\.0*))*", text):
            hint = f"write NAME=CHANCE,… with chances from 0 to 1 for {known.replace('|', ', ')}"
            raise ConfigError(f"--weak {text} is invalid", hint=hint)
        pairs = [part.split("=") for part in text.split(",") if part]
        return cls(**{name: float(chance) for name, chance in pairs})

    def tempting(self, plain: str, rubric: RubricReading, facet: str) -> Mapping[str, float]:
        """Return the chances of what misleads in a squeezed response, for a rubric of a facet."""
        holds = {
            "padding": facet in TAKEN_BY_LENGTH and len(plain.split()) >= PADDED_WORDS,
            "restated": squeeze(rubric.text) in plain,
            "keywords": _tokens(rubric.text) <= _tokens(plain),
            "instructions": ORDER in plain,
        }
        return {name: chance for name, chance in asdict(self).items() if chance and holds[name]}


_tokens = lru_cache(maxsize=4096)(content_tokens)
NO_WEAKNESS = Weakness()


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


@dataclass(frozen=True, slots=True)
class Opinion:
    """A judge's verdict on one response and rubric, and the hidden degree behind it."""

    met: bool
    degree: float


class PlantedJudge:
    """One simulated judge. Every answer is a pure function of (seed, model, content)."""

    def __init__(self, world: PlantedWorld, model: JudgeModel, weakness: Weakness = NO_WEAKNESS) -> None:
        self.world = world
        self.model = model
        self.weakness = weakness
        self._key = draw_bytes(world.seed, model.name)

    def kind_of(self, prompt: PromptReading) -> PromptKind | None:
        """Return the planted type of a prompt."""
        return None if prompt.kind is None else self.world.kinds[prompt.kind]

    def opinion(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> Opinion:
        """Judge one response on one rubric, independently of other rubrics, responses and positions."""
        drawn = draw_bytes(self._key, prompt.digest, response.digest, rubric.digest)
        seen = met = self.sees(prompt, response, rubric)
        reading = drawn  # for this wording alone, or for the criterion in any wording
        if rubric.criterion is not None and uniform(drawn, 2) < self.world.shared_errors:
            reading = draw_bytes(self._key, "criterion", prompt.digest, response.digest, rubric.criterion)
        if uniform(reading, 0) < self.model.noise:
            met = not met
        whim = uniform(reading if self.world.shared_whims else drawn, 1)
        return Opinion(met, MET_ADVANTAGE * (rubric.criterion is not None and seen) + whim)

    def sees(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> bool:
        """Return whether a response meets a rubric, before noise; a rubric outside the world is met by chance."""
        if rubric.criterion is not None:
            return bool(response.met >> rubric.criterion & 1) or self._misled(response, rubric, rubric.criterion)
        chance = 0.5 + IMPRESSION * (self.quality(prompt, response) - 0.5) + IMPRESSION * (response.surface - 1.5) / 3
        return draw(self.world.seed, "unknown", response.digest, rubric.digest) < chance

    def _misled(self, response: ResponseReading, rubric: RubricReading, criterion: int) -> bool:
        if self.weakness == NO_WEAKNESS:
            return False
        tempting = self.weakness.tempting(response.plain, rubric, self.world.criteria[criterion].facet)
        parts = ("taken in", response.digest, rubric.digest)
        return any(draw(self._key, *parts, name) < chance for name, chance in tempting.items())

    def quality(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return the true worth of a response between 0 and 1; outside the world, its variety of words."""
        kind = self.kind_of(prompt)
        if kind is None or not response.met:
            return response.variety
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
        first, second = sorted((a.digest, b.digest))
        return draw_bytes(self._key, "pair", prompt.digest, first, second, extra)

    def prefer(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading) -> Side:
        """Name the better response without rubrics: dazzled by surface, biased to A, with little insight."""
        if uniform(self._pair_draw(prompt, a, b, b"direct"), 0) < self.model.direct_bias:
            return Side.A
        return Side.A if self.appeal(prompt, a) >= self.appeal(prompt, b) else Side.B

    def appeal(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return how good a response looks without rubrics: its surface, and the visible part of its quality."""
        whim = draw(self._key, "direct", prompt.digest, response.digest)
        return response.surface + self.model.insight * self.quality(prompt, response) + DIRECT_NOISE * whim

    def overall(self, rows: Sequence[RubricComparison]) -> Side:
        """Name the better response from judged rows with equal weights; a tie goes by the first row."""
        total = sum(row.delta or 0.0 for row in rows)
        if total == 0.0 and rows:
            return rows[0].better or Side.A
        return Side.A if total > 0 else Side.B

    def write_rubrics(self, prompt: PromptReading, *about: str) -> list[str]:
        """Write rubrics from the prompt alone; `about` varies them. Few name what its type cares about."""
        kind = self.kind_of(prompt)
        cares = kind.cares if kind else ()
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
        about, direct = ABOUT.match(statement), BETTER.match(statement)
        if direct is not None:
            named = self.prefer(prompt, responses["A"], responses["B"]) is Side(direct[1])
            return DIRECT_CHANCE if named else round(1 - DIRECT_CHANCE, 6)
        if about is None:
            return 0.5
        text = about[3].strip()
        own = self._opposites.get(squeeze(text))
        rubric = self.world.read_rubric(own or text)
        if about[2]:
            better = self.likely(prompt, responses["A"], responses["B"], rubric).better
            found = better if about[1] == "A" else 1 - better
        else:
            found = self._satisfied(prompt, responses[about[1] or ""], rubric)
        return round(1 - found if own else found, 6)

    def likely(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, rubric: RubricReading) -> Chances:
        """Return the three probabilities for a rubric, which know no more than the verdicts."""
        row = self.compare(prompt, a, b, rubric)
        verdicts = (row.a is Verdict.PASS, row.b is Verdict.PASS)
        better = _better_after(self._noise, self.model.position_bias, verdicts, row.better is Side.A)
        return Chances(self._satisfied(prompt, a, rubric), self._satisfied(prompt, b, rubric), better)

    @property
    def _noise(self) -> float:
        return min(0.5, self.model.noise)

    def _satisfied(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> float:
        return 1 - self._noise if self.opinion(prompt, response, rubric).met else self._noise

    @cached_property
    def _opposites(self) -> dict[str, str]:
        """Return the rubrics with a "not" by their positive text, unless that is a rubric too."""
        criteria = range(len(self.world.criteria))
        texts = [f"{head} {text}." for n in criteria for text in self.world.wordings(n) for head in HEADS]
        known = {squeeze(text) for text in texts}
        turned = {squeeze(one.text): text for one, text in ((positive(text), text) for text in texts) if one.turned}
        return {text: rubric for text, rubric in turned.items() if text not in known}


@lru_cache(maxsize=256)
def _better_after(noise: float, bias: float, passed: tuple[bool, bool], named_a: bool) -> float:
    """Return P(A has the higher degree) after both verdicts and the name of the better response."""
    if passed[0] is passed[1]:
        return 1 / (1 + bias) if named_a else 0.0
    right, wrong = (1 - noise) ** 2, noise**2  # both verdicts; if only one is wrong, either may be higher
    higher = right * NEARER + wrong * (1 - NEARER) + (1 - right - wrong) / 2
    return higher if passed[0] else 1 - higher
