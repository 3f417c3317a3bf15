"""Words and texts of a drawn world: made-up words, so that every likeness of two texts is one that was meant."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache

from svr_async.simulation.catalogue import GENERIC, Criterion
from svr_async.simulation.draws import digest_of, uniform
from svr_async.simulation.family import DrawnConfig
from svr_async.simulation.language import with_head
from svr_async.simulation.readings import (
    REPHRASED,
    WORD,
    PromptReading,
    ResponseReading,
    RubricReading,
    squeeze,
    surface_of,
)

FACETS = ("coverage", "correctness", "format", "reasoning", "style", "grounding")
TEMPLATES = (
    "must state the {0} condition",
    "states the {0} condition",
    "makes the {0} condition explicit",
    "says what the {0} condition is",
    "mentions the {0} condition somewhere",
)
AVOIDING = (
    "must not state the {0} condition",
    "leaves the {0} condition unsaid",
    "keeps away from the {0} condition",
    "says nothing of the {0} condition",
    "never brings up the {0} condition",
)
PARAPHRASE = "{0} the {1} {2}"
MET, UNMET = "The {0} condition is stated here.", "Nothing is said of the {0} condition."
TICKET = re.compile(r"Reference ([0-9a-f]{8})\.")
LONG = 120  # words of a long response


def made_up_words(rng: random.Random, count: int, taken: set[str]) -> list[str]:
    """Return `count` new words of two or three syllables, and add them to those taken."""
    found: list[str] = []
    while len(found) < count:
        word = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 3)))
        word += rng.choice(("", "n", "r", "l", "s", "k", "m"))
        if len(word) >= 5 and word not in taken:
            taken.add(word)
            found.append(word)
    return found


class FamilyLanguage:
    """The language of one drawn world of `n_attributes` attributes; attribute n + n_attributes is to avoid the n-th."""

    generic: Sequence[str] = GENERIC

    def __init__(self, config: DrawnConfig, rng: random.Random, n_attributes: int, taken: set[str]) -> None:
        self._config, self._half = config, n_attributes
        self.n_criteria = 2 * n_attributes
        self._keys = made_up_words(rng, n_attributes, taken)
        self._number = {key: number for number, key in enumerate(self._keys)}
        self._texts = [self._wordings(rng, number, taken) for number in range(self.n_criteria)]
        self._known = _telling_words(self._texts) if config.texts == "paraphrase" else {}
        self._exact: dict[str, int | None] = {squeeze(text): None for text in GENERIC}
        self._exact |= {f"the response {text}.": n for n, texts in enumerate(self._texts) for text in texts}
        self.everything: Sequence[Criterion] = [self._criterion(number) for number in range(self.n_criteria)]
        self._key = f"ticket|{config.draw}"
        self.borders = type_borders(config)

    def _wordings(self, rng: random.Random, number: int, taken: set[str]) -> list[str]:
        """Return the predicates of an attribute, or of avoiding one."""
        key, frames = self._keys[number % self._half], TEMPLATES if number < self._half else AVOIDING
        if self._config.texts == "paraphrase":
            return [PARAPHRASE.format(*made_up_words(rng, 3, taken)) for _ in range(self._config.wordings)]
        return [frame.format(key) for frame in frames[: self._config.wordings]]

    def _criterion(self, number: int) -> Criterion:
        key, avoided = self._keys[number % self._half], number >= self._half
        met, unmet = MET.format(key), UNMET.format(key)
        facet = FACETS[number % len(FACETS)]
        return Criterion(facet, self._texts[number][0], *((unmet, met) if avoided else (met, unmet)))

    def rubric(self, number: int) -> str:
        """Return the rubric of an attribute in its usual wording."""
        return f"The response {self._texts[number][0]}."

    def wordings(self, number: int) -> Sequence[str]:
        """Return the rubrics that a model may propose for an attribute."""
        return [f"The response {text}." for text in self._texts[number]]

    def proposal(self, number: int, drawn: bytes) -> str:
        """Return one of them, now and then with another beginning."""
        texts = self._texts[number]
        return with_head(texts[int(uniform(drawn, 3) * len(texts))], drawn)

    def read_prompt(self, text: str) -> PromptReading:
        """Tell the type of a prompt by its reference, which says nothing to whoever lacks the draw."""
        found = TICKET.search(text)
        return PromptReading(digest_of(text), None if found is None else self.type_of(found.group(1)))

    def type_of(self, ticket: str) -> int:
        """Return the type that a reference stands for."""
        place = uniform(digest_of(f"{self._key}|{ticket}"))
        return next((number for number, border in enumerate(self.borders) if place < border), len(self.borders) - 1)

    def read_response(self, text: str) -> ResponseReading:
        """Tell which attributes a response shows, and which of them it avoids."""
        return _read_response(self, text)

    def shown(self, plain: str) -> int:
        """Return the bits of a squeezed text: an attribute that is not shown is avoided."""
        met = sum(1 << self._number[key] for key in set(_SHOWN.findall(plain)) if key in self._number)
        return met | (((1 << self._half) - 1) & ~met) << self._half

    def read_rubric(self, text: str) -> RubricReading:
        """Recognise a rubric by its wording, with any beginning, or by a word of one attribute's rubrics alone."""
        plain = squeeze(text)
        own = plain.partition(": ")[2] if plain.startswith(squeeze(REPHRASED)) else plain
        return RubricReading(text, digest_of(plain), self._exact[own] if own in self._exact else self._named(own))

    def _named(self, plain: str) -> int | None:
        for word in WORD.findall(plain):
            if word in self._known:
                return self._known[word]
        key = next((self._number[word] for word in WORD.findall(plain) if word in self._number), None)
        if key is None or self._config.texts == "paraphrase":
            return key
        avoiding = any(frame.format(self._keys[key]) in plain for frame in AVOIDING)
        return key + self._half if avoiding else key


def _telling_words(texts: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the words by which paraphrases are recognised, and the attribute that each belongs to."""
    common = {word for text in (*TEMPLATES, *AVOIDING) for word in WORD.findall(text)} | {"the", "response"}
    words = ((word, number) for number, own in enumerate(texts) for text in own for word in WORD.findall(text))
    return {word: number for word, number in words if word not in common}


_SHOWN = re.compile(r"the (\w+) condition is stated here")


@lru_cache(maxsize=20_000)
def _read_response(language: FamilyLanguage, text: str) -> ResponseReading:
    plain = squeeze(text)
    words = plain.split()
    variety = min(1.0, len(set(words)) / LONG)
    return ResponseReading(digest_of(plain), language.shown(plain), surface_of(text, plain, len(words)), variety, plain)


def type_borders(config: DrawnConfig) -> list[float]:
    """Return the cumulative shares of the types."""
    rates = [1.0 if config.even else 1 / (number + 1) for number in range(config.types)]
    total, borders = 0.0, []
    for rate in rates:
        total += rate / sum(rates)
        borders.append(total)
    return borders
