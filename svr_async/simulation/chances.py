"""What a planted judge that answers with probabilities says: how sure the judge of the verdicts may be of them.

It is the same judge: it observes what the judge of verdicts observes, with the same errors at the same places, and
knows nothing more. A probability is what an honest observer who knows how often the judge errs makes of its verdict,
where one truth is as likely as another beforehand. So P(A passes) is 1 − noise where the verdict is a pass and noise
where it is none, and what is likelier than not is the verdict itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache

from svr_async.core.pair import Side
from svr_async.core.rubric import positive
from svr_async.core.verdict import Chances, RubricComparison, Verdict
from svr_async.simulation.judge import MET_ADVANTAGE, PlantedJudge
from svr_async.simulation.language import HEADS, Language
from svr_async.simulation.readings import PromptReading, ResponseReading, RubricReading, squeeze

DIRECT = 0.55  # how sure of a direct verdict: dazzled judges are right about as often as not, however wide the gap
ABOUT = re.compile(
    r"(?:The response|Response (A|B)) satisfies this rubric( better than response [AB] does)?: (.*)", re.DOTALL
)
BETTER = re.compile(r"Response (A|B) is the better response")
DIGITS = 6
NEARER = 1 - (1 - MET_ADVANTAGE) ** 2 / 2  # chance that the one that meets a criterion has the higher degree


class Stater:
    """A planted judge as one that answers statements; each answer is a pure function of (seed, model, content)."""

    def __init__(self, judge: PlantedJudge) -> None:
        self.judge = judge
        self.language = judge.world.language
        self.noise = min(0.5, judge.model.noise)

    def chance(self, statement: str, prompt: PromptReading, responses: Mapping[str, ResponseReading]) -> float:
        """Return the probability that a statement about responses, by name, is true; one that is not read has 0.5."""
        about, direct = ABOUT.match(statement), BETTER.match(statement)
        if direct is not None:
            found = self.direct(prompt, responses["A"], responses["B"], Side(direct[1]))
        elif about is None:
            found = 0.5
        else:
            name = about[1] or ""
            rubric, turned = self.rubric(about[3].strip())
            if about[2]:
                found = self.better(prompt, responses["A"], responses["B"], rubric, Side(name))
            else:
                found = self.satisfied(prompt, responses[name], rubric)
            found = 1 - found if turned else found
        return round(found, DIGITS)

    @cached_property
    def opposites(self) -> dict[str, str]:
        """The rubrics that are asked about in the positive, by that text."""
        return _opposites_in(self.language)

    def compare(
        self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, rubric: RubricReading
    ) -> RubricComparison:
        """Judge one rubric on both responses by its three probabilities."""
        of_a, of_b = self.satisfied(prompt, a, rubric), self.satisfied(prompt, b, rubric)
        return RubricComparison.likely(rubric.text, Chances(of_a, of_b, self.better(prompt, a, b, rubric, Side.A)))

    def rubric(self, text: str) -> tuple[RubricReading, bool]:
        """Read the rubric of a statement; True with it where the text is a rubric's opposite."""
        own = self.opposites.get(squeeze(text))
        return self.language.read_rubric(text if own is None else own), own is not None

    def satisfied(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> float:
        """Return P(a response satisfies a rubric)."""
        return 1 - self.noise if self.judge.opinion(prompt, response, rubric).met else self.noise

    def better(
        self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, rubric: RubricReading, side: Side
    ) -> float:
        """Return P(one of two satisfies a rubric better), which is a matter of the hidden degree.

        Of two equal verdicts the judge sees the degrees, so only its leaning to A makes it unsure; of different ones it
        goes by the verdicts.
        """
        row = self.judge.compare(prompt, a, b, rubric)
        of_a = better_after(self.noise, self.judge.model.position_bias, (row.a, row.b), row.better is Side.A)
        return of_a if side is Side.A else 1 - of_a

    def direct(self, prompt: PromptReading, a: ResponseReading, b: ResponseReading, side: Side) -> float:
        """Return P(one of two is the better response), from the verdict without rubrics."""
        return DIRECT if self.judge.prefer(prompt, a, b) is side else 1 - DIRECT


@lru_cache(maxsize=256)
def better_after(noise: float, bias: float, verdicts: tuple[Verdict, Verdict], named_a: bool) -> float:
    """Return P(A has the higher degree) after the verdicts on both and the name of the better one."""
    if verdicts[0] is verdicts[1]:
        return 1 / (1 + bias) if named_a else 0.0
    right, wrong = (1 - noise) ** 2, noise**2  # both verdicts; where one of them is wrong, either may be higher
    higher = right * NEARER + wrong * (1 - NEARER) + (1 - right - wrong) / 2
    return higher if verdicts[0] is Verdict.PASS else 1 - higher


def _opposites_in(language: Language) -> dict[str, str]:
    """Return the rubrics that are asked about in the positive, by that text, but for texts that are rubrics too."""
    usual = [text for number in range(len(language.everything)) for text in language.wordings(number)]
    texts = [text.replace(HEADS[0], head, 1) for text in usual for head in HEADS]
    plain = [(positive(text), text) for text in texts]
    turned = {squeeze(one.text): text for one, text in plain if one.turned}
    known = {squeeze(text) for text in texts}
    return {text: rubric for text, rubric in turned.items() if text not in known}
