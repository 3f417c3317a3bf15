"""The planted world: prompts of known types, responses with known attributes, and which response is better."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.simulation import catalogue
from svr_async.simulation.catalogue import CRITERIA, GENERIC, LATENT, TOPICS, Criterion, Topic

REPHRASED = "As the prompt is about "  # the beginning of a rubric adapted to a prompt; then its type and a colon
WORD = re.compile(r"[^\W_]+")
SURE = ("definitely", "without any doubt", "absolutely", "certainly", "undoubtedly")
LONG_RESPONSE_WORDS = 120
MIN_TOPIC_WORDS = 2
MIN_OVERLAP = 0.45  # of words, from which on a rubric in free words names a criterion

CARED = 6  # criteria that a type of prompts cares about
JUNK_DISTRACTORS, STRANGE_DISTRACTORS = 2, 1  # attributes that vary in a type and do not matter: to any type, to this
WEIGHT_RATIO = 0.57  # each criterion of a type weighs this share of the one before
LABEL_NOISE = 0.04  # share of pairs with the wrong label
MIN_MARGIN = 0.09  # pairs nearer than this share of the type's total weight are drawn again
UNMET_SHOWN = 0.8  # chance that a response without an attribute has a sentence that shows it
GLAMOUR = 0.055  # how much likelier than not the worse response is long, bold or assertive
STRAY_WORDS = 0.12  # share of a prompt's type words that come from another type
HUMAN_KEEP = 0.78  # chance that human rubrics name a criterion of the type
HUMAN_GENERIC = 0.5  # chance that human rubrics also have a generic one


def seeded(*parts: int | str) -> random.Random:
    """Return a generator that depends only on the parts."""
    return random.Random("|".join(map(str, parts)))  # noqa: S311  (a planted world, not a secret)


def digest_of(text: str) -> bytes:
    """Return BLAKE2b of a text, which may have lone surrogates."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def draw_bytes(*parts: bytes | str | int) -> bytes:
    """Return 16 bytes that depend only on the parts: nothing depends on time, order or state."""
    encoded = [part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass") for part in parts]
    sizes = ",".join([str(len(data)) for data in encoded]).encode()  # so that ("ab", "c") is not ("a", "bc")
    return hashlib.blake2b(b"".join([*encoded, b"|", sizes]), digest_size=16).digest()


def uniform(data: bytes, quarter: int = 0) -> float:
    """Return the number in [0, 1) that a four-byte quarter (0–3) of 16 drawn bytes holds."""
    return int.from_bytes(data[4 * quarter : 4 * quarter + 4], "big") / 2**32


def draw(*parts: bytes | str | int) -> float:
    """Return a number in [0, 1) that depends only on the parts."""
    return uniform(draw_bytes(*parts))


@dataclass(frozen=True, slots=True)
class PromptKind:
    """A type of prompt: its topic, the criteria it cares about with their true weights, and its distractors."""

    topic: Topic
    cares: tuple[int, ...]
    weights: tuple[float, ...]
    distractors: tuple[int, ...]

    @property
    def total(self) -> float:
        """The sum of the true weights."""
        return sum(self.weights)

    def value(self, met: int) -> float:
        """Return the true worth of a response with these attributes (bits), between 0 and `total`."""
        return sum(weight for number, weight in zip(self.cares, self.weights, strict=True) if met >> number & 1)


@dataclass(frozen=True, slots=True)
class PlantedPair:
    """A pair, its prompt type, its true margin (below 0 if the label is flipped), and whether it is flipped."""

    pair: PreferencePair
    kind: int
    margin: float
    flipped: bool


class PromptReading(NamedTuple):
    """A prompt's digest, and the number of its type; None outside this world."""

    digest: bytes
    kind: int | None


class ResponseReading(NamedTuple):
    """The attributes of a response as bits, and how it looks.

    `surface` in [0, 3] counts what dazzles a direct judge; `variety` in [0, 1] is a crude sign of quality for any text.
    """

    digest: bytes
    met: int
    surface: float
    variety: float


class RubricReading(NamedTuple):
    """A rubric text, and the number of the criterion that it names, or None."""

    text: str
    digest: bytes
    criterion: int | None


class Draft(NamedTuple):
    """A response before it is written: its attributes as bits, and whether it is padded, headed and assertive."""

    met: int
    padded: bool
    headed: bool
    sure: bool


class World:
    """The planted world. Each pair is a pure function of the seed, its split and its number.

    `shared_errors` is the chance that a judge misreads a criterion alike in all wordings; with `shared_whims` equal
    verdicts are settled alike too.
    """

    criteria: Sequence[Criterion] = CRITERIA
    shared_errors = 0.0
    shared_whims = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.kinds: Sequence[PromptKind] = _plant_kinds(seed)

    def pairs(self, count: int, split: str = "train", kinds: Sequence[int] | None = None) -> Iterator[PlantedPair]:
        """Yield `count` pairs of a split; `kinds` fixes the type of each, else types are drawn evenly."""
        return (self.pair(split, index, None if kinds is None else kinds[index]) for index in range(count))

    def pair(self, split: str, index: int, kind: int | None = None) -> PlantedPair:
        """Return one pair by split and number."""
        rng = seeded(self.seed, split, index)
        number = rng.randrange(len(self.kinds)) if kind is None else kind
        kind_of, prompt = self.kinds[number], self._write_prompt(rng, number)
        better, worse = self._drafts(rng, number)
        flipped = rng.random() < LABEL_NOISE
        if flipped:
            better, worse = worse, better
        pair = PreferencePair(
            id=f"sim-{split}-{index:05d}",
            prompt=user_prompt(prompt),
            chosen=self._write(rng, number, better),
            rejected=self._write(rng, number, worse),
            domain=kind_of.topic.name,
            chosen_first=rng.random() < 0.5,
        )
        return PlantedPair(pair, number, kind_of.value(better.met) - kind_of.value(worse.met), flipped)

    def human_rubrics(self, item: PlantedPair) -> tuple[str, ...]:
        """Return rubrics that a person would list: criteria of the type, unweighted, some forgotten."""
        rng = seeded(self.seed, "human", item.pair.id)
        cares = self.kinds[item.kind].cares
        kept = [number for number in cares if rng.random() < HUMAN_KEEP] or [rng.choice(cares)]
        texts = [CRITERIA[number].rubric for number in kept]
        if rng.random() < HUMAN_GENERIC:
            texts.append(rng.choice(GENERIC))
        rng.shuffle(texts)
        return tuple(texts)

    def write_response(self, rng: random.Random, number: int, met: int | None = None) -> str:
        """Write a response to a prompt of a type; without `met` its attributes are drawn."""
        return self._write(rng, number, dress(rng, self._draw_met(rng, number) if met is None else met, 0.5))

    @staticmethod
    @lru_cache(maxsize=4096)
    def read_prompt(text: str) -> PromptReading:
        """Recognise the type of a prompt by its vocabulary; None with fewer than two such words."""
        found = Counter(_TOPIC_OF_WORD[word] for word in set(WORD.findall(text.casefold())) if word in _TOPIC_OF_WORD)
        best = max(range(len(TOPICS)), key=found.__getitem__)
        return PromptReading(digest_of(text), best if found[best] >= MIN_TOPIC_WORDS else None)

    @staticmethod
    @lru_cache(maxsize=4096)
    def read_response(text: str) -> ResponseReading:
        """Find a response's attributes in its text, wherever they stand and however they are wrapped."""
        plain = squeeze(text)
        return response_reading(text, plain, sum(1 << number for number, met in enumerate(_MET) if met in plain))

    @staticmethod
    @lru_cache(maxsize=8192)
    def read_rubric(text: str) -> RubricReading:
        """Recognise the criterion that a rubric names: its own wording, or the nearest by common words."""
        plain = squeeze(text)
        own = own_words(plain)
        return RubricReading(text, digest_of(plain), _EXACT[own] if own in _EXACT else _nearest(own))

    def _write_prompt(self, rng: random.Random, number: int) -> str:
        while True:
            frames = [rng.choice(catalogue.OPENINGS), *rng.sample(catalogue.MIDDLES, rng.randint(2, 4))]
            text = " ".join(self._fill(rng, number, frame, STRAY_WORDS) for frame in frames)
            if self.read_prompt(text).kind == number:
                return text

    def _draw_met(self, rng: random.Random, number: int) -> int:
        kind = self.kinds[number]
        return sum(1 << one for one in (*kind.cares, *kind.distractors) if rng.random() < 0.5)

    def _drafts(self, rng: random.Random, number: int) -> tuple[Draft, Draft]:
        """Draw two responses whose worth differs by enough, the better one first."""
        kind = self.kinds[number]
        while True:
            one, other = self._draw_met(rng, number), self._draw_met(rng, number)
            margin = kind.value(one) - kind.value(other)
            if abs(margin) >= MIN_MARGIN * kind.total:
                better, worse = (one, other) if margin > 0 else (other, one)
                return dress(rng, better, 0.5 - GLAMOUR), dress(rng, worse, 0.5 + GLAMOUR)

    def _write(self, rng: random.Random, number: int, draft: Draft) -> str:
        kind = self.kinds[number]
        units = [self._fill(rng, number, rng.choice(catalogue.FILLERS)) for _ in range(rng.randint(3, 6))]
        for criterion in (*kind.cares, *kind.distractors):
            if draft.met >> criterion & 1:
                units.append(CRITERIA[criterion].met)
            elif rng.random() < UNMET_SHOWN:
                units.append(CRITERIA[criterion].unmet)
        return lay_out(rng, draft, units, kind.topic.words, lambda frame: self._fill(rng, number, frame))

    def _fill(self, rng: random.Random, number: int, frame: str, stray: float = 0.0) -> str:
        text, *pieces = frame.split("{w}")
        for piece in pieces:
            topic = rng.choice(TOPICS) if rng.random() < stray else self.kinds[number].topic
            text += rng.choice(topic.words) + piece
        while "{n}" in text:
            text = text.replace("{n}", rng.choice(catalogue.SHARED_WORDS), 1)
        return text


def dress(rng: random.Random, met: int, chance: float) -> Draft:
    """Draw the looks of a response: each of three surfaces with the same chance."""
    return Draft(met, padded=rng.random() < chance, headed=rng.random() < chance, sure=rng.random() < chance)


def lay_out(
    rng: random.Random, draft: Draft, units: list[str], words: Sequence[str], fill: Callable[[str], str]
) -> str:
    """Add the surface to the sentences of a response and join all in paragraphs of two to four.

    Tables, headings and code get lines of their own.
    """
    if draft.padded:
        units += [fill(frame) for frame in rng.sample(catalogue.PADDING, rng.randint(2, 3))]
    if draft.sure:
        units.append(rng.choice(catalogue.ASSERTIONS))
    rng.shuffle(units)
    if draft.headed:
        units.insert(0, catalogue.HEADING.format(w=rng.choice(words)))
    blocks: list[list[str]] = [[]]
    room = rng.randint(2, 4)
    for unit in units:
        if unit[0] in "|#*`" or "\n" in unit:
            blocks += [[unit], []]
            continue
        if len(blocks[-1]) >= room:
            blocks.append([])
            room = rng.randint(2, 4)
        blocks[-1].append(unit)
    return "\n\n".join(" ".join(block) for block in blocks if block)


def _plant_kinds(seed: int) -> tuple[PromptKind, ...]:
    """Deal the latent criteria to the types, each to at least one, and draw weights and distractors."""
    rng = seeded(seed, "kinds")
    kinds = []
    for topic, hand in zip(TOPICS, list(_deal(rng, len(TOPICS), CARED)), strict=True):
        weights = [WEIGHT_RATIO**rank * math.exp(rng.uniform(-0.15, 0.15)) for rank in range(CARED)]
        others = [number for number in range(len(LATENT)) if number not in hand]
        distractors = rng.sample(range(len(LATENT), len(CRITERIA)), JUNK_DISTRACTORS)
        distractors += rng.sample(others, STRANGE_DISTRACTORS)
        kinds.append(PromptKind(topic, tuple(hand), tuple(weights), tuple(distractors)))
    return tuple(kinds)


def _deal(rng: random.Random, n_hands: int, size: int) -> Iterator[list[int]]:
    """Yield hands of different criteria; the whole deck is dealt before any criterion is dealt twice."""
    deck: list[int] = []
    for _ in range(n_hands):
        hand: list[int] = []
        while len(hand) < size:
            free = [card for card in deck if card not in hand]
            if free:
                hand.append(free[0])
                deck.remove(free[0])
            else:
                deck += rng.sample(range(len(LATENT)), len(LATENT))
        yield hand


def squeeze(text: str) -> str:
    """Return the text without differences of case and spacing."""
    return " ".join(text.split()).casefold()


def response_reading(text: str, plain: str, met: int) -> ResponseReading:
    """Return the reading of a response whose attributes are known; `plain` is its squeezed text."""
    words = plain.split()
    bold, sure = text.count("**") >= 2, any(word in plain for word in SURE)
    surface = min(1.0, len(words) / (2 * LONG_RESPONSE_WORDS)) + bold + sure
    return ResponseReading(digest_of(plain), met, surface, min(1.0, len(set(words)) / LONG_RESPONSE_WORDS))


def own_words(plain: str) -> str:
    """Return a squeezed rubric without the beginning that adapts it to a prompt."""
    return plain.partition(": ")[2] if plain.startswith(squeeze(REPHRASED)) else plain


def _tokens(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text)) - _SMALL


_SMALL = frozenset(WORD.findall("the a an it its is of or and to in on for with that answer response reply"))
_MET = tuple(squeeze(criterion.met) for criterion in CRITERIA)
_TOPIC_OF_WORD = {word: number for number, topic in enumerate(TOPICS) for word in topic.words}
_EXACT: dict[str, int | None] = {squeeze(text): None for text in GENERIC}
_EXACT |= {squeeze(criterion.rubric): number for number, criterion in enumerate(CRITERIA)}
_NAMED = [(number, _tokens(squeeze(criterion.predicates[0]))) for number, criterion in enumerate(CRITERIA)]


def _nearest(plain: str) -> int | None:
    tokens = _tokens(plain)
    overlap, number = max((len(tokens & own) / max(1, len(tokens | own)), -number) for number, own in _NAMED)
    return -number if overlap >= MIN_OVERLAP else None
