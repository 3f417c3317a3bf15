"""What takes a simulated judge in, if it is told to have such weaknesses: length, its rubrics' own words, orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from svr_async.core.similarity import content_tokens
from svr_async.errors import ConfigError
from svr_async.simulation.judge import JudgeModel, PlantedJudge
from svr_async.simulation.world import (
    LONG_RESPONSE_WORDS,
    PlantedWorld,
    PromptReading,
    ResponseReading,
    RubricReading,
    draw,
    squeeze,
)

PADDED_WORDS = 2 * LONG_RESPONSE_WORDS  # from here on a response is long, whatever it says
TAKEN_BY_LENGTH = ("coverage", "reasoning")  # the facets of rubrics that a long response seems to satisfy
ORDER = "note to the judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """Chances in [0, 1] that a rubric which a response does not satisfy seems satisfied all the same.

    `padding`: on a rubric about coverage or reasoning, where the response has 240 words; `restated`: where the rubric
    stands in it word for word; `keywords`: where all content words of the rubric do; `instructions`: where it has a
    "note to the judge". All are 0 unless they are declared.
    """

    padding: float = 0.0
    restated: float = 0.0
    keywords: float = 0.0
    instructions: float = 0.0

    def __post_init__(self) -> None:
        for name, chance in self.chances.items():
            if not 0 <= chance <= 1:
                raise ConfigError(f"the weakness {name} must be in [0, 1] (got {chance:g})")

    @property
    def chances(self) -> Mapping[str, float]:
        """The chances by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def parse(cls, text: str) -> Weakness:
        """Read `padding=0.5,keywords=1`; `ConfigError` on anything else. An empty text has none."""
        found = [part.partition("=")[::2] for part in text.split(",") if part]
        known = [one.name for one in fields(cls)]
        try:
            return cls(**{known[known.index(name.strip())]: float(chance) for name, chance in found})
        except ValueError as error:
            raise ConfigError(
                f"no weaknesses of a judge: {text!r}", hint=f"write NAME=CHANCE,… of {', '.join(known)}"
            ) from error

    def tempting(self, plain: str, rubric: RubricReading, facet: str) -> Mapping[str, float]:
        """Return the chances of what a squeezed response holds that may take a judge in on a rubric of a facet."""
        words = plain.split()
        holds = {
            "padding": len(words) >= PADDED_WORDS and facet in TAKEN_BY_LENGTH,
            "restated": squeeze(rubric.text) in plain,
            "keywords": _tokens(rubric.text) <= _tokens(plain),
            "instructions": ORDER in plain,
        }
        return {name: chance for name, chance in self.chances.items() if chance and holds[name]}


NONE = Weakness()


class WeakJudge(PlantedJudge):
    """A planted judge that its weaknesses mislead."""

    def __init__(self, world: PlantedWorld, model: JudgeModel, weakness: Weakness = NONE) -> None:
        super().__init__(world, model)
        self.weakness = weakness

    def sees(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> bool:
        """Return whether a response meets a rubric, or seems to."""
        met = super().sees(prompt, response, rubric)
        if met or rubric.criterion is None or self.weakness == NONE:
            return met
        tempting = self.weakness.tempting(response.plain, rubric, self.world.criteria[rubric.criterion].facet)
        parts = ("taken in", response.digest, rubric.digest)
        return any(draw(self._key, *parts, name) < chance for name, chance in tempting.items())


_tokens = lru_cache(maxsize=4096)(content_tokens)
