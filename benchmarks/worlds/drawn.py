"""A family of planted worlds: the properties of draw N are drawn from N, so that no choice was made with it in view.

Development draws 0–39 and report draws 1000–1039 have the first properties. Draws 100–139 (development) and 8000–8099
(report) may also have type frequencies by Zipf's law, rubrics that name an absence, and rubrics about two things.
Draws 200–239 (development) and 8200–8239 (report) have the same properties, and all are written as by language models:
each criterion in 8 to 40 wordings that share no word, so that two wordings are rarely judged on the same pair.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.simulation.catalogue import FILLERS, GENERIC, MIDDLES, OPENINGS, SHARED_WORDS, Criterion, Topic
from svr_async.simulation.judge import MET_ADVANTAGE, MODELS, REPHRASED, Opinion, PlantedJudge
from svr_async.simulation.world import (
    WORD,
    Draft,
    PlantedPair,
    PromptKind,
    PromptReading,
    ResponseReading,
    RubricReading,
    World,
    digest_of,
    draw_bytes,
    dress,
    lay_out,
    response_reading,
    seeded,
    squeeze,
    uniform,
)

RubricTexts = Literal["template", "paraphrase", "repeat"]
EXTENDED = (range(100, 140), range(8000, 8100))
MANY_WORDINGS = (range(200, 240), range(8200, 8240))
WEAK_SIGNAL = 0.35  # below this share of type words, criteria common to all types carry at least 1 − the share
DEALT_SHARE = 0.8  # criteria dealt per criterion that a type holds: below 1, so that types share some
MOST_IRRELEVANT = 16
N_STYLES = 2  # irrelevant attributes that correlate with the label in training
WORDS_A_TYPE = 20
OFF_TOPICS = 6
OFF_TOPIC_SHARE = 0.5
STRAY = 0.08  # share of type words that belong to another type
UNMET_SHOWN = 0.8
GLAMOUR = 0.05
TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnConfig:
    """The properties of one world of the family."""

    draw: int = 0
    types: int = 12
    """Types of prompts."""
    own: int = 5
    """Criteria of a type besides the common ones."""
    common: int = 0
    """Criteria that all types share."""
    common_share: float = 0.0
    """Weight of the common criteria, as a share of a type's total."""
    faults: float = 0.0
    """Share of types that count the heaviest criterion of the next type as a fault."""
    weight_ratio: float = 0.7
    """Each criterion weighs this share of the one before."""
    zipf: float = 0.0
    """Exponent of Zipf's law for type frequencies; 0: all types are equally frequent."""
    type_words: float = 0.5
    """Chance that a content word of a prompt belongs to its type."""
    off_topic: bool = False
    """Whether prompts also have words of topics unrelated to their type."""
    relevant: float = 0.5
    """Approximate share of the differences between two responses that matters."""
    texts: RubricTexts = "repeat"
    """`template`: rubrics differ in a word; `paraphrase`: wordings share no word; `repeat`: one wording."""
    wordings: int = 1
    """Wordings of a criterion."""
    absences: float = 0.0
    """Share of a type's own criteria that are met by an absence."""
    doubles: float = 0.0
    """Rubrics about two things at once, per criterion of a type."""
    shared_errors: float = 0.0
    """Chance that the judge errs alike on all wordings of a criterion."""
    style: float = 0.0
    """How much likelier than not a preferred training response has an irrelevant feature of style; 0 in the test."""
    noise: float = 0.1
    """Chance of a wrong verdict."""
    position_bias: float = 0.1
    """Chance that the judge prefers A without looking, if both verdicts are equal."""
    label_noise: float = 0.05
    """Share of wrong training labels; test labels are right."""
    human_keep: float = 0.75
    """Chance that human rubrics name a criterion."""
    min_margin: float = 0.1
    """Pairs nearer than this share of a type's total weight are drawn again."""
    pairs: int = 3000
    """Training pairs, if no number is given."""


def drawn(number: int) -> DrawnConfig:
    """Return the world of a draw."""
    rng = seeded("family", number)
    types = rng.choice([1, 2, 4, 6, 8, 12, 16, 20, 30, 40])
    type_words = rng.choice([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])
    least = 1 - type_words if type_words < WEAK_SIGNAL else 0.0
    share = 1.0 if types == 1 else max(rng.choice([0.0, 0.0, 0.3, 0.6]), least)
    texts: RubricTexts = rng.choice(["template", "paraphrase", "repeat"])
    config = DrawnConfig(
        draw=number,
        types=types,
        own=0 if share == 1 else rng.randint(2, 8),
        common=0 if share == 0 else rng.randint(6, 14) if share == 1 else rng.randint(1, 6),
        common_share=share,
        faults=0.0 if share == 1 else rng.choice([0.0, 0.0, 0.25, 0.5]),
        weight_ratio=rng.choice([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        zipf=0.0 if rng.random() < 0.5 else 1.0,
        type_words=type_words,
        off_topic=rng.random() < 0.5,
        relevant=round(rng.uniform(0.1, 1.0), 2),
        texts=texts,
        wordings=1 if texts == "repeat" else rng.randint(2, 5),
        shared_errors=rng.choice([0.0, 0.0, 0.5, 1.0]),
        style=rng.choice([0.0, 0.0, 0.1, 0.2]),
        noise=round(rng.uniform(0.0, 0.25), 2),
        position_bias=round(rng.uniform(0.0, 0.3), 2),
        label_noise=round(rng.uniform(0.0, 0.2), 2),
        human_keep=round(rng.uniform(0.5, 1.0), 2),
        min_margin=round(rng.uniform(0.03, 0.15), 2),
        pairs=round(300 * (10_000 / 300) ** rng.random()),
    )
    if any(number in draws for draws in MANY_WORDINGS):
        wordings = seeded("family many wordings", number).choice([8, 12, 20, 40])
        return replace(_extended(config), texts="paraphrase", wordings=wordings)
    return _extended(config) if any(number in draws for draws in EXTENDED) else config


def _extended(config: DrawnConfig) -> DrawnConfig:
    """Draw the second set of properties, from a generator of their own: the first draws stay as they were."""
    rng = seeded("family extended", config.draw)
    return replace(
        config,
        texts=rng.choice(["template", "paraphrase", "paraphrase"]),
        wordings=rng.randint(2, 5),
        zipf=rng.choice([0.0, 1.0, 1.3, 1.6]),
        absences=rng.choice([0.0, 0.2, 0.4]),
        doubles=rng.choice([0.0, 0.2, 0.4]),
        shared_errors=rng.choice([0.0, 0.5, 1.0]),
    )


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a world by number: criteria of all types, criteria dealt to types, styles, irrelevant ones."""

    common: range
    dealt: range
    styles: range
    irrelevant: range


def attributes_of(config: DrawnConfig) -> Attributes:
    """Number the attributes of a draw."""
    common = range(config.common)
    dealt = _after(common, max(config.own, round(config.own * config.types * DEALT_SHARE)))
    styles = _after(dealt, N_STYLES if config.style else 0)
    return Attributes(common, dealt, styles, _after(styles, max(1, _n_irrelevant(config))))


def _after(before: range, count: int) -> range:
    return range(before.stop, before.stop + count)


def _n_irrelevant(config: DrawnConfig) -> int:
    """Return the number of irrelevant attributes in which a type's responses differ."""
    cared = config.common + config.own
    return min(MOST_IRRELEVANT, round(cared * (1 - config.relevant) / config.relevant))


def plant_kinds(
    rng: random.Random, config: DrawnConfig, numbered: Attributes, topics: Sequence[Topic]
) -> list[PromptKind]:
    """Return a type per topic: its criteria, their weights, and its irrelevant attributes."""
    hands = [rng.sample(numbered.dealt, config.own) for _ in topics]
    kinds = []
    for number, topic in enumerate(topics):
        hand = _with_fault(rng, config, hands, number, numbered.irrelevant.stop)
        kinds.append(_kind(rng, config, numbered, topic, hand))
    return kinds


def _with_fault(
    rng: random.Random, config: DrawnConfig, hands: Sequence[Sequence[int]], number: int, half: int
) -> list[int]:
    """Return a type's own criteria; sometimes the next type's heaviest is a fault here, to be avoided."""
    hand = list(hands[number])
    if hand and len(hands) > 1 and rng.random() < config.faults:
        best = hands[(number + 1) % len(hands)][0]
        others = [one for one in hand if one != best]
        hand = [*others[: config.own - 1], best + half]
        rng.shuffle(hand)
    if config.absences:
        hand = [one + half if one < half and rng.random() < config.absences else one for one in hand]
    return hand


def _kind(
    rng: random.Random, config: DrawnConfig, numbered: Attributes, topic: Topic, hand: Sequence[int]
) -> PromptKind:
    n_irrelevant, held = _n_irrelevant(config), {one % numbered.irrelevant.stop for one in hand}
    others = [one for one in numbered.dealt if one not in held]
    strangers = rng.sample(others, min(len(others), n_irrelevant // 3))
    rest = n_irrelevant - len(strangers)
    irrelevant = rng.sample(numbered.irrelevant, min(len(numbered.irrelevant), rest))
    shared, own = _falling(rng, config, config.common), _falling(rng, config, len(hand))
    total = config.common_share if own else 1.0
    weights = (*(total * weight for weight in shared), *((1 - total) * weight for weight in own))
    return PromptKind(topic, (*numbered.common, *hand), weights, (*numbered.styles, *strangers, *irrelevant))


def _falling(rng: random.Random, config: DrawnConfig, count: int) -> list[float]:
    """Return weights with sum 1, each about `weight_ratio` of the one before."""
    raw = [config.weight_ratio**rank * math.exp(rng.uniform(-0.15, 0.15)) for rank in range(count)]
    return [value / sum(raw) for value in raw]


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
MET, UNMET = "The {0} condition is stated here.", "Nothing is said of the {0} condition."
SHOWN = re.compile(r"the (\w+) condition is stated here")
TICKET = re.compile(r"Reference ([0-9a-f]{8})\.")


def made_up_words(rng: random.Random, count: int, taken: set[str]) -> list[str]:
    """Return new words of two or three syllables, and add them to those taken: no two texts are alike by accident."""
    found: list[str] = []
    while len(found) < count:
        word = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 3)))
        word += rng.choice(("", "n", "r", "l", "s", "k", "m"))
        if len(word) >= 5 and word not in taken:
            taken.add(word)
            found.append(word)
    return found


class DrawnWorld(World):
    """A drawn world; each pair depends only on its split and number.

    Of `half` attributes, number n + half is the absence of number n; numbers from 2 · half on are two at once.
    """

    def __init__(self, config: DrawnConfig) -> None:
        self.config, self.seed = config, config.draw
        rng, taken = seeded("world", config.draw), set(SHARED_WORDS)
        self._off_topics = [made_up_words(rng, WORDS_A_TYPE, taken) for _ in range(OFF_TOPICS)]
        topics = [
            Topic(f"type-{number:02d}", "general", tuple(made_up_words(rng, WORDS_A_TYPE, taken)))
            for number in range(config.types)
        ]
        numbered = attributes_of(config)
        self._styles, self.half = tuple(numbered.styles), numbered.irrelevant.stop
        self.kinds = plant_kinds(rng, config, numbered, topics)
        self._keys = made_up_words(rng, self.half, taken)
        self._number = {key: number for number, key in enumerate(self._keys)}
        self._texts = [self._wordings(rng, number, taken) for number in range(2 * self.half)]
        self.doubles = self._draw_doubles()
        self._texts += [[f"{self._texts[a][0]} and {self._texts[b][0]}"] for a, b in self.doubles]
        self._word_of = self._telling_words() if config.texts == "paraphrase" else {}
        self._exact: dict[str, int | None] = {squeeze(text): None for text in GENERIC}
        self._exact |= {f"the response {text}.": n for n, texts in enumerate(self._texts) for text in texts}
        self.criteria = [self._criterion(number) for number in range(len(self._texts))]
        rates = [(number + 1) ** -config.zipf for number in range(config.types)]
        self._borders = [sum(rates[: number + 1]) / sum(rates) for number in range(config.types)]

    def judges(self) -> dict[str, PlantedJudge]:
        """Return the served models with the noise and the bias of this world."""
        given: dict[str, Any] = {"noise": self.config.noise, "position_bias": self.config.position_bias}
        return {name: DrawnJudge(self, replace(model, **given)) for name, model in MODELS.items()}

    def pairs(self, count: int, split: str = "train") -> Iterator[PlantedPair]:
        """Yield the first pairs of a split; labels of the test are right."""
        return (self.pair(split, index) for index in range(count))

    def pair(self, split: str, index: int) -> PlantedPair:
        """Return one pair by split and number."""
        rng = seeded("family pair", self.seed, split, index)
        ticket = f"{rng.getrandbits(32):08x}"
        number = self._type_of(ticket)
        prompt = self._prompt(rng, number, ticket)
        in_test = split == TEST
        better, worse = self._drafts(rng, number, 0.0 if in_test else self.config.style)
        flipped = not in_test and rng.random() < self.config.label_noise
        if flipped:
            better, worse = worse, better
        kind = self.kinds[number]
        pair = PreferencePair(
            id=f"draw-{split}-{index:05d}",
            prompt=user_prompt(prompt),
            chosen=self._write(rng, number, better),
            rejected=self._write(rng, number, worse),
            domain=kind.topic.name,
            chosen_first=rng.random() < 0.5,
        )
        return PlantedPair(pair, number, kind.value(better.met) - kind.value(worse.met), flipped)

    def human_rubrics(self, item: PlantedPair) -> tuple[str, ...]:
        """Return rubrics that a person would list: criteria of the type, unweighted, some forgotten."""
        rng = seeded("family human", self.seed, item.pair.id)
        cares = self.kinds[item.kind].cares
        kept = [number for number in cares if rng.random() < self.config.human_keep] or [rng.choice(cares)]
        rng.shuffle(kept)
        return tuple(self.criteria[number].rubric for number in kept)

    def write_response(self, rng: random.Random, number: int) -> str:
        """Write a response to a prompt of a type, with drawn attributes."""
        return self._write(rng, number, dress(rng, self._met(rng, number, 0.0), 0.5))

    def read_prompt(self, text: str) -> PromptReading:
        """Recognise the type of a prompt by its reference, which says nothing without the draw."""
        found = TICKET.search(text)
        return PromptReading(digest_of(text), None if found is None else self._type_of(found[1]))

    def read_response(self, text: str) -> ResponseReading:
        """Recognise the attributes that a response shows; the others are avoided."""
        return _read_response(self, text)

    def shown(self, plain: str) -> int:
        """Return the attributes of a squeezed text as bits."""
        stated = sum(1 << self._number[key] for key in set(SHOWN.findall(plain)) if key in self._number)
        met = self._with_absences(stated)
        both = (n for n, (a, b) in enumerate(self.doubles) if met >> a & 1 and met >> b & 1)
        return met | sum(1 << (2 * self.half + n) for n in both)

    def read_rubric(self, text: str) -> RubricReading:
        """Recognise a rubric by its wording with any beginning, or by words of one criterion's rubrics."""
        plain = squeeze(text)
        own = plain.partition(": ")[2] if plain.startswith(squeeze(REPHRASED)) else plain
        return RubricReading(text, digest_of(plain), self._exact[own] if own in self._exact else self._named(own))

    def _named(self, plain: str) -> int | None:
        words = WORD.findall(plain)
        if self._word_of:
            found = [self._word_of[word] for word in words if word in self._word_of]
        else:
            found = [self._number[word] for word in words if word in self._number]
            frames = [(n, any(frame.format(self._keys[n]) in plain for frame in AVOIDING)) for n in found]
            found = [n + self.half if avoided else n for n, avoided in frames]
        pair = next(((a, b) for a in found[:1] for b in found if a != b), None)
        if pair in self.doubles:
            return 2 * self.half + self.doubles.index(pair)
        if found or self.config.texts != "paraphrase":
            return found[0] if found else None
        return next((self._number[word] for word in words if word in self._number), None)

    def _wordings(self, rng: random.Random, number: int, taken: set[str]) -> list[str]:
        """Return the predicates of an attribute, or of its absence."""
        absent = number >= self.half
        if self.config.texts == "paraphrase":
            head = "does not " if absent and self.config.absences else ""
            words = [made_up_words(rng, 3, taken) for _ in range(self.config.wordings)]
            return [f"{head}{verb} the {one} {other}" for verb, one, other in words]
        frames = AVOIDING if absent else TEMPLATES
        return [frame.format(self._keys[number % self.half]) for frame in frames[: self.config.wordings]]

    def _draw_doubles(self) -> list[tuple[int, int]]:
        """Draw pairs of attributes of the same type that one rubric names together."""
        rng, found = seeded("family doubles", self.seed), dict[tuple[int, int], None]()
        for kind in self.kinds:
            for _ in range(round(self.config.doubles * len(kind.cares))):
                a, b = rng.sample((*kind.cares, *kind.distractors), 2) if len(kind.cares) > 1 else (0, 0)
                if a % self.half != b % self.half:
                    found[a, b] = None
        return list(found)

    def _telling_words(self) -> dict[str, int]:
        """Return the words that identify paraphrases, with their attributes."""
        single = enumerate(self._texts[: 2 * self.half])
        words = ((word, number) for number, own in single for text in own for word in WORD.findall(text))
        return {word: number for word, number in words if word not in {"the", "does", "not"}}

    def _criterion(self, number: int) -> Criterion:
        key, facet = self._keys[number % self.half], FACETS[number % len(FACETS)]
        met, unmet = MET.format(key), UNMET.format(key)
        if number >= self.half:
            met, unmet = unmet, met
        return Criterion(facet, tuple(self._texts[number]), met, unmet)

    def _type_of(self, ticket: str) -> int:
        place = uniform(digest_of(f"ticket|{self.seed}|{ticket}"))
        return next((n for n, border in enumerate(self._borders) if place < border), len(self.kinds) - 1)

    def _prompt(self, rng: random.Random, number: int, ticket: str) -> str:
        other = self._off_topics[rng.randrange(OFF_TOPICS)] if self.config.off_topic else ()
        frames = [rng.choice(OPENINGS), *rng.sample(MIDDLES, rng.randint(2, 4))]
        return f"{' '.join(self._worded(rng, number, frame, other) for frame in frames)} Reference {ticket}."

    def _worded(self, rng: random.Random, number: int, frame: str, other: Sequence[str]) -> str:
        while "{w}" in frame:
            frame = frame.replace("{w}", self._content_word(rng, number, other), 1)
        while "{n}" in frame:
            frame = frame.replace("{n}", rng.choice(SHARED_WORDS), 1)
        return frame

    def _content_word(self, rng: random.Random, number: int, other: Sequence[str]) -> str:
        if rng.random() < self.config.type_words:
            topic = rng.randrange(len(self.kinds)) if rng.random() < STRAY else number
            return rng.choice(self.kinds[topic].topic.words)
        return rng.choice(other) if other and rng.random() < OFF_TOPIC_SHARE else rng.choice(SHARED_WORDS)

    def _with_absences(self, stated: int) -> int:
        return stated | (((1 << self.half) - 1) & ~stated) << self.half

    def _stated_by(self, kind: PromptKind) -> set[int]:
        return {one % self.half for one in (*kind.cares, *kind.distractors)}

    def _met(self, rng: random.Random, number: int, lean: float) -> int:
        """Draw the attributes of a response; styles are likelier by `lean`."""
        shown = self._stated_by(self.kinds[number])
        met = sum(1 << one for one in sorted(shown - set(self._styles)) if rng.random() < 0.5)
        met |= sum(1 << one for one in self._styles if rng.random() < 0.5 + lean)
        return self._with_absences(met)

    def _drafts(self, rng: random.Random, number: int, style: float) -> tuple[Draft, Draft]:
        """Draw two responses whose worth differs by enough, the better one first; styles lean with the label."""
        kind = self.kinds[number]
        while True:
            one, other = self._met(rng, number, style), self._met(rng, number, -style)
            if kind.value(one) - kind.value(other) >= self.config.min_margin:
                return dress(rng, one, 0.5 - GLAMOUR), dress(rng, other, 0.5 + GLAMOUR)

    def _write(self, rng: random.Random, number: int, draft: Draft) -> str:
        kind = self.kinds[number]
        words = kind.topic.words
        units = [rng.choice(FILLERS).replace("{w}", rng.choice(words)) for _ in range(rng.randint(2, 5))]
        for attribute in sorted(self._stated_by(kind)):
            if draft.met >> attribute & 1:
                units.append(self.criteria[attribute].met)
            elif rng.random() < UNMET_SHOWN:
                units.append(self.criteria[attribute].unmet)
        return lay_out(rng, draft, units, words, lambda frame: frame.replace("{w}", rng.choice(words)))


@lru_cache(maxsize=20_000)
def _read_response(world: DrawnWorld, text: str) -> ResponseReading:
    plain = squeeze(text)
    return response_reading(text, plain, world.shown(plain))


class DrawnJudge(PlantedJudge):
    """A judge that errs alike on wordings of one criterion, in the share that its world says."""

    def opinion(self, prompt: PromptReading, response: ResponseReading, rubric: RubricReading) -> Opinion:
        """Judge one response on one rubric; if all errors are shared, equal verdicts are settled alike too."""
        assert isinstance(self.world, DrawnWorld)
        shared, seen = self.world.config.shared_errors, self.sees(prompt, response, rubric)
        drawn = reading = draw_bytes(self.key, prompt.digest, response.digest, rubric.digest)
        if rubric.criterion is not None and uniform(drawn, 2) < shared:
            reading = draw_bytes(self.key, "criterion", prompt.digest, response.digest, rubric.criterion)
        whim = uniform(reading if shared == 1 else drawn, 1)
        degree = MET_ADVANTAGE * (rubric.criterion is not None and seen) + whim
        return Opinion(seen is not (uniform(reading, 0) < self.model.noise), degree)
