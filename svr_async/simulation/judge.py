"""The simulated models: verdicts from planted attributes, with noise drawn from the content alone, and texts."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from svr_async.core.pair import Side
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.simulation.catalogue import ASSERTIONS, GENERIC
from svr_async.simulation.world import (
    WORD,
    PromptKind,
    PromptReading,
    ResponseReading,
    RubricReading,
    World,
    draw,
    draw_bytes,
    uniform,
)

Row = dict[str, str]
T = TypeVar("T")

HEADS = ("The response", "The answer", "The reply", "A good response", "The response clearly")  # of rubrics
REPHRASED = "As the prompt is about "  # the beginning of a rubric adapted to a prompt; then its type and a colon
MET_ADVANTAGE = 0.6  # how much meeting a criterion adds to the hidden degree that settles equal verdicts
IMPRESSION = 0.1  # how far quality and surface move the verdict on a rubric that names no attribute
DIRECT_NOISE = 0.3  # a direct judge's noise is uniform in [0, 0.3), in units of one surface attribute
DIRECT_CHANCE = 0.55  # probability stated for a direct verdict: such verdicts are right about as often as not
N_WRITTEN = 5
MIN_RUBRICS, MAX_RUBRICS = 2, 6  # of an induction
VARIANT_SHARE = 0.35  # share of proposed rubrics with another beginning than the usual
GENERIC_CHANCE = 0.2  # share of proposals that come with a generic rubric
OVERLOOKED = 0.12  # share of differences that an induction misses
MISSED, MISTAKEN = 0.1, 0.02  # of repeated criteria, the share not recognised; of all, the share wrongly recognised
STATEMENT = re.compile(
    r"(?:The|Response) (A|B|response) (?:is the better|satisfies this rubric( better than .*?)?: (.*))", re.DOTALL
)


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


NOISE = {  # of models that bear the name of a real one; they say nothing of it
    "gpt-oss-120b": 0.10, "gpt-oss-20b": 0.16, "gpt-4o-mini": 0.14, "deepseek-v4-flash": 0.09,
    "Qwen/Qwen3.5-397B-A17B": 0.06, "gpt-5.4": 0.05, "gemini-3-flash": 0.07,
}  # fmt: skip
MODELS = {
    model.name: model
    for model in (
        *(JudgeModel(name=name, noise=noise) for name, noise in NOISE.items()),
        JudgeModel(name="sim-perfect", noise=0.0, position_bias=0.0, direct_bias=0.0, insight=50.0, invention=1.0),
        JudgeModel(name="sim-strong", noise=0.04, position_bias=0.05, direct_bias=0.05, insight=1.2, invention=0.5),
        JudgeModel(name="sim-weak", noise=0.25, position_bias=0.3, direct_bias=0.3, insight=0.3, invention=0.1),
    )
}


class Opinion(NamedTuple):
    """A judge's verdict on one response and rubric, and the hidden degree behind it."""

    met: bool
    degree: float


class PlantedJudge:
    """One simulated model. All it says is a pure function of (world seed, model, shown texts)."""

    def __init__(self, world: World, model: JudgeModel) -> None:
        self.world = world
        self.model = model
        self.key = draw_bytes(world.seed, model.name)
        self._author_key = draw_bytes(world.seed, model.name, "author")

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def opinion(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> Opinion:
        """Judge one response on one rubric, independently of other rubrics, responses and positions."""
        drawn = draw_bytes(self.key, prompt.digest, response.digest, rubric.digest)
        seen = self.sees(prompt, response, rubric)
        degree = MET_ADVANTAGE * (rubric.criterion is not None and seen) + uniform(drawn, 1)
        return Opinion(seen is not (uniform(drawn, 0) < self.model.noise), degree)

    def sees(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> bool:
        """Return whether a response meets a rubric, before noise; a rubric outside the world is met by chance."""
        if rubric.criterion is not None:
            return bool(response.met >> rubric.criterion & 1)
        chance = 0.5 + IMPRESSION * (self._quality(prompt, response) - 0.5) + IMPRESSION * (response.surface - 1.5) / 3
        return draw(self.world.seed, "unknown", response.digest, rubric.digest) < chance

    def _quality(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return the true worth of a response between 0 and 1; 0.5 outside the world."""
        kind = self._kind(prompt)
        return 0.5 if kind is None else kind.value(response.met)

    def _kind(self, prompt: PromptReading) -> PromptKind | None:
        return None if prompt.kind is None else self.world.kinds[prompt.kind]

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
        return draw_bytes(self.key, "pair", prompt.digest, *sorted((a.digest, b.digest)), extra)

    def prefer(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading) -> Side:
        """Name the better response without rubrics: dazzled by surface, biased to A, with little insight."""
        if uniform(self._pair_draw(prompt, a, b, b"direct")) < self.model.direct_bias:
            return Side.A
        return Side.A if self.appeal(prompt, a) >= self.appeal(prompt, b) else Side.B

    def appeal(self, prompt: PromptReading, response: ResponseReading) -> float:
        """Return how good a response looks without rubrics: its surface, and the visible part of its quality."""
        whim = draw(self.key, "direct", prompt.digest, response.digest)
        return response.surface + self.model.insight * self._quality(prompt, response) + DIRECT_NOISE * whim

    @staticmethod
    def overall(rows: Sequence[RubricComparison]) -> Side:
        """Name the better response from judged rows with equal weights; a tie is settled by the first row."""
        total = sum(row.delta or 0.0 for row in rows)
        if total == 0.0 and rows:
            return rows[0].better or Side.A
        return Side.A if total > 0 else Side.B

    def chance(self, statement: str, prompt: PromptReading, responses: Mapping[str, ResponseReading]) -> float:
        """Return the probability of a statement about responses (by name): high if the judge's own verdict agrees."""
        found = STATEMENT.match(statement)
        if found is None:
            return 0.5
        side, compares, text = found.groups()
        rubric, sure = self.world.read_rubric(text or ""), 1 - min(0.5, self.model.noise)
        if text is None:
            sure, agrees = DIRECT_CHANCE, self.prefer(prompt, responses["A"], responses["B"]) is Side(side)
        elif compares:
            agrees = self.compare(prompt, responses["A"], responses["B"], rubric).better is Side(side)
        else:
            agrees = self.opinion(prompt, responses[side], rubric).met
        return round(sure if agrees else 1 - sure, 6)

    # --- texts --------------------------------------------------------------------------------------------------------

    def write_rubrics(self, prompt: PromptReading, *about: str) -> list[str]:
        """Write rubrics from the prompt alone; `about` varies them. Few name what its type cares about."""
        kind = self._kind(prompt)
        draws = [draw_bytes(self.key, "write", prompt.digest, slot, *about) for slot in range(N_WRITTEN * 2)]
        return list(dict.fromkeys(self._written(drawn, kind) for drawn in draws))[:N_WRITTEN]

    def _written(self, drawn: bytes, kind: PromptKind | None) -> str:
        place = uniform(drawn, 1)
        if kind and uniform(drawn, 0) < self.model.invention:
            return self.world.criteria[_pick(kind.cares, place)].rubric
        return _pick(GENERIC, place) if uniform(drawn, 2) < 0.5 else _pick(self.world.criteria, place).rubric

    def induce(self, prompt: str, chosen: str, rejected: str = "") -> list[Row]:
        """Propose 2 to 6 rubrics that favour chosen over rejected; without rejected, that describe chosen.

        Attributes that do not matter to the prompt's type are proposed as readily as those that do.
        """
        asked, good = self.world.read_prompt(prompt), self.world.read_response(chosen)
        bad = self.world.read_response(rejected) if rejected else None
        base = draw_bytes(self._author_key, asked.digest, good.digest, bad.digest if bad else b"")
        shown = good.met & ~(bad.met if bad else 0)
        every = range(len(self.world.criteria))
        seen = [n for n in every if shown >> n & 1 and draw(base, "seen", n) >= OVERLOOKED]
        seen.sort(key=lambda number: draw(base, "order", number))
        rows = [self._criterion_row(base, self._kind(asked), number) for number in seen]
        if draw(base, "generic") < GENERIC_CHANCE:
            rows = [*rows[: MAX_RUBRICS - 1], _generic_row(base, 0)]
        if len(rows) < MIN_RUBRICS:  # too few differences: a model then mentions words of the preferred response
            words = _novel_words(base, chosen, rejected)[:2]
            rows += [_row("coverage", "minor", f'The response mentions the word "{word}".') for word in words]
        rows += [_generic_row(base, slot) for slot in range(1, MIN_RUBRICS - len(rows) + 1)]
        return rows[:MAX_RUBRICS]

    def _criterion_row(self, base: bytes, kind: PromptKind | None, number: int) -> Row:
        """Propose a criterion: its importance is likelier to be high if it is heavy, its wording varies."""
        drawn, criterion = draw_bytes(base, "row", number), self.world.criteria[number]
        share = kind.value(1 << number) / max(kind.weights) if kind else 0.0  # of the weight of the heaviest
        guess = 0.5 * share + uniform(drawn, 2)
        importance = "critical" if guess > 1.0 else "major" if guess > 0.45 else "minor"
        head = _pick(HEADS[1:], uniform(drawn, 1)) if uniform(drawn, 0) < VARIANT_SHARE else HEADS[0]
        return _row(criterion.facet, importance, f"{head} {_pick(criterion.predicates, uniform(drawn, 3))}.")

    def probe(self, prompt: str, chosen: str) -> str:
        """Write an alternative close to the chosen response that lacks one or two things that matter."""
        asked = self.world.read_prompt(prompt)
        kind = self._kind(asked)
        drawn = draw_bytes(self._author_key, "probe", asked.digest, self.world.read_response(chosen).digest)
        known = [self.world.criteria[number] for number in (kind.cares if kind else ())]
        met = sorted((one for one in known if one.met in chosen), key=lambda one: draw(drawn, one.met))
        assertion = _pick(ASSERTIONS, uniform(drawn, 1))
        if not met:
            words = chosen.split(" ")
            return " ".join([*words[: max(1, len(words) // 2)], assertion])
        text = chosen
        for criterion in met[: 1 + int(uniform(drawn, 0) * 2)]:
            text = text.replace(criterion.met, criterion.unmet)
        return f"{text}\n\n{assertion}"

    def rephrase(self, prompt: PromptReading, rubric: str) -> str:
        """Adapt a rubric to the prompt by naming its type; unchanged without a type."""
        kind = self._kind(prompt)
        return rubric if kind is None else f"{REPHRASED}{kind.topic.name}: {rubric}"

    def same_criterion(self, known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
        """Say which listed criterion each new one repeats; some repetitions are missed, a few answers are wrong."""
        listed, answers = dict(known), dict[str, str | None]()
        for label, text in new.items():
            drawn = draw_bytes(self._author_key, "same criterion", text)
            number = self.world.read_rubric(text).criterion
            same = [one for one, other in listed.items() if self.world.read_rubric(other).criterion == number]
            others = sorted(set(listed) - set(same))
            answers[label] = same[0] if same and number is not None and uniform(drawn, 0) >= MISSED else None
            if others and uniform(drawn, 1) < MISTAKEN:
                answers[label] = _pick(others, uniform(drawn, 2))
            listed[label] = text
        return answers

    def respond(self, prompt: str, key: str) -> str:
        """Answer a prompt by a response to its type, or to any type if its own is unknown."""
        rng = random.Random(draw_bytes(self._author_key, "respond", key, 0))  # noqa: S311  (a planted world)
        kind = self.world.read_prompt(prompt).kind
        return self.world.write_response(rng, rng.randrange(len(self.world.kinds)) if kind is None else kind)


def _pick(options: Sequence[T], place: float) -> T:
    """Return the option at a place in [0, 1)."""
    return options[int(place * len(options))]


def _row(facet: str, importance: str, rubric: str) -> Row:
    return {
        "facet": facet,
        "importance": importance,
        "rubric": rubric,
        "grounding": "Only the preferred one does this.",
    }


def _generic_row(base: bytes, slot: int) -> Row:
    drawn = draw_bytes(base, "generic", slot)
    importance = _pick(("critical", "major", "minor"), uniform(drawn, 0))
    return _row("style", importance, _pick(GENERIC, uniform(drawn, 1)))


def _novel_words(base: bytes, chosen: str, rejected: str) -> list[str]:
    """Return words of five letters and more that only the chosen response has, in a drawn order."""
    other = set(WORD.findall(rejected.casefold()))
    words = {word for word in WORD.findall(chosen.casefold()) if len(word) >= 5 and word not in other}
    return sorted(words, key=lambda word: draw(base, word))
