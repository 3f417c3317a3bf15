"""The planted world: prompts of known types, responses with known attributes, and which response is better."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from svr_async.core.pair import PreferencePair, prompt_text, user_prompt
from svr_async.simulation import catalogue
from svr_async.simulation.catalogue import CRITERIA, LATENT, TOPICS, Criterion, Topic

SOURCE = "svr-sim"
WORD = re.compile(r"[^\W_]+")
SURE = ("definitely", "without any doubt", "absolutely", "certainly", "undoubtedly")
LONG_RESPONSE_WORDS = 120
MIN_TOPIC_WORDS = 2

CARED = 6  # criteria that a type of prompts cares about
JUNK_DISTRACTORS, STRANGE_DISTRACTORS = 2, 1  # attributes that vary in a type and do not matter: to any type, to this
WEIGHT_RATIO = 0.57  # each criterion of a type weighs this share of the one before
LABEL_NOISE = 0.04  # share of pairs with the wrong label
MIN_MARGIN = 0.09  # pairs nearer than this are drawn again
UNMET_SHOWN = 0.8  # chance that a response without an attribute has a sentence that shows it
GLAMOUR = 0.055  # how much likelier than not the worse response is long, bold or assertive
STRAY_WORDS = 0.12  # share of a prompt's type words that come from another type
HUMAN_KEEP = 0.78  # chance that human rubrics name a criterion of the type


def seeded(*parts: int | str) -> random.Random:
    """Return a generator that depends only on the parts."""
    return random.Random("|".join(map(str, parts)))  # noqa: S311  (a planted world, not a secret)


def digest_of(text: str) -> bytes:
    """Return BLAKE2b of a text, which may have lone surrogates."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def draw_bytes(*parts: bytes | str | int) -> bytes:
    """Return 16 bytes that depend only on the parts, not on time, order or state."""
    encoded = [part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass") for part in parts]
    sizes = ",".join([str(len(data)) for data in encoded]).encode()  # so that ("ab", "c") is not ("a", "bc")
    return hashlib.blake2b(b"".join([*encoded, b"|", sizes]), digest_size=16).digest()


def uniform(data: bytes, quarter: int = 0) -> float:
    """Return the number in [0, 1) that a four-byte quarter (0–3) of 16 drawn bytes holds."""
    return int.from_bytes(data[4 * quarter : 4 * quarter + 4], "big") / 2**32


def draw(*parts: bytes | str | int) -> float:
    """Return a number in [0, 1) that depends only on the parts."""
    return uniform(draw_bytes(*parts))


class PromptKind(NamedTuple):
    """A type of prompt: its topic, the criteria it cares about, their true weights with sum 1, and its distractors."""

    topic: Topic
    cares: tuple[int, ...]
    weights: tuple[float, ...]
    distractors: tuple[int, ...]

    def value(self, met: int) -> float:
        """Return the true worth of a response with these attributes (bits), in [0, 1]."""
        return sum(weight for number, weight in zip(self.cares, self.weights, strict=True) if met >> number & 1)


class PlantedPair(NamedTuple):
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
    """The attributes of a response as bits; `surface` in [0, 3] counts what dazzles a direct judge."""

    digest: bytes
    met: int
    surface: float


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
    """The planted world. Each pair is a pure function of the seed, its split and its number."""

    criteria: Sequence[Criterion] = CRITERIA

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.kinds: Sequence[PromptKind] = _plant_kinds(seed)

    def pairs(self, count: int, split: str = "train") -> Iterator[PlantedPair]:
        """Yield the first pairs of a split."""
        return (self.pair(split, index) for index in range(count))

    def pair(self, split: str, index: int) -> PlantedPair:
        """Return one pair by split and number."""
        rng = seeded(self.seed, split, index)
        number = rng.randrange(len(self.kinds))
        kind, prompt = self.kinds[number], self._write_prompt(rng, number)
        better, worse = _draw_drafts(rng, kind)
        flipped = rng.random() < LABEL_NOISE
        if flipped:
            better, worse = worse, better
        pair = PreferencePair(
            id=f"sim-{split}-{index:05d}",
            prompt=user_prompt(prompt),
            chosen=_write(rng, kind, better),
            rejected=_write(rng, kind, worse),
            domain=kind.topic.name,
            chosen_first=rng.random() < 0.5,
        )
        return PlantedPair(pair, number, kind.value(better.met) - kind.value(worse.met), flipped)

    def human_rubrics(self, item: PlantedPair) -> tuple[str, ...]:
        """Return rubrics that a person would list: criteria of the type, unweighted, some forgotten."""
        rng = seeded(self.seed, "human", item.pair.id)
        cares = self.kinds[item.kind].cares
        kept = [number for number in cares if rng.random() < HUMAN_KEEP] or [rng.choice(cares)]
        rng.shuffle(kept)
        return tuple(CRITERIA[number].rubric for number in kept)

    def write_response(self, rng: random.Random, number: int, met: int | None = None) -> str:
        """Write a response to a prompt of a type; without `met` its attributes are drawn."""
        kind = self.kinds[number]
        return _write(rng, kind, dress(rng, _draw_met(rng, kind) if met is None else met, 0.5))

    @staticmethod
    @lru_cache(maxsize=4096)
    def read_prompt(text: str) -> PromptReading:
        """Recognise the type of a prompt by its vocabulary; None with fewer than two such words."""
        words = set(WORD.findall(text.casefold()))
        found = [len(words.intersection(topic.words)) for topic in TOPICS]
        return PromptReading(digest_of(text), found.index(max(found)) if max(found) >= MIN_TOPIC_WORDS else None)

    @staticmethod
    @lru_cache(maxsize=4096)
    def read_response(text: str) -> ResponseReading:
        """Find a response's attributes in its text, wherever they stand and however they are wrapped."""
        plain = squeeze(text)
        return response_reading(text, plain, sum(1 << number for number, met in enumerate(_MET) if met in plain))

    @staticmethod
    @lru_cache(maxsize=8192)
    def read_rubric(text: str) -> RubricReading:
        """Recognise the criterion whose predicate a rubric contains, whatever stands around it."""
        plain = squeeze(text)
        named = (number for number, predicate in enumerate(_PREDICATES) if predicate in plain)
        return RubricReading(text, digest_of(plain), next(named, None))

    def _write_prompt(self, rng: random.Random, number: int) -> str:
        while True:
            frames = [rng.choice(catalogue.OPENINGS), *rng.sample(catalogue.MIDDLES, rng.randint(2, 4))]
            text = " ".join(_fill(rng, TOPICS[number], frame, STRAY_WORDS) for frame in frames)
            if self.read_prompt(text).kind == number:
                return text


def _draw_met(rng: random.Random, kind: PromptKind) -> int:
    return sum(1 << one for one in (*kind.cares, *kind.distractors) if rng.random() < 0.5)


def _draw_drafts(rng: random.Random, kind: PromptKind) -> tuple[Draft, Draft]:
    """Draw two responses whose worth differs by enough, the better one first."""
    while True:
        better, worse = _draw_met(rng, kind), _draw_met(rng, kind)
        if kind.value(better) - kind.value(worse) >= MIN_MARGIN:
            return dress(rng, better, 0.5 - GLAMOUR), dress(rng, worse, 0.5 + GLAMOUR)


def _write(rng: random.Random, kind: PromptKind, draft: Draft) -> str:
    units = [_fill(rng, kind.topic, rng.choice(catalogue.FILLERS)) for _ in range(rng.randint(3, 6))]
    for criterion in (*kind.cares, *kind.distractors):
        if draft.met >> criterion & 1:
            units.append(CRITERIA[criterion].met)
        elif rng.random() < UNMET_SHOWN:
            units.append(CRITERIA[criterion].unmet)
    return lay_out(rng, draft, units, kind.topic.words, partial(_fill, rng, kind.topic))


def _fill(rng: random.Random, topic: Topic, frame: str, stray: float = 0.0) -> str:
    """Put words of a topic and of all topics into the places {w} and {n}."""
    while "{w}" in frame:
        words = (rng.choice(TOPICS) if rng.random() < stray else topic).words
        frame = frame.replace("{w}", rng.choice(words), 1)
    while "{n}" in frame:
        frame = frame.replace("{n}", rng.choice(catalogue.SHARED_WORDS), 1)
    return frame


def dress(rng: random.Random, met: int, chance: float) -> Draft:
    """Draw the looks of a response: each of three surfaces with the same chance."""
    return Draft(met, padded=rng.random() < chance, headed=rng.random() < chance, sure=rng.random() < chance)


def lay_out(
    rng: random.Random, draft: Draft, units: list[str], words: Sequence[str], fill: Callable[[str], str]
) -> str:
    """Add the surface to the sentences of a response and join all in paragraphs of two to four."""
    if draft.padded:
        units += [fill(frame) for frame in rng.sample(catalogue.PADDING, rng.randint(2, 3))]
    if draft.sure:
        units.append(rng.choice(catalogue.ASSERTIONS))
    rng.shuffle(units)
    blocks = [catalogue.HEADING.format(w=rng.choice(words))] if draft.headed else []
    while units:
        room = rng.randint(2, 4)
        blocks.append(" ".join(units[:room]))
        units = units[room:]
    return "\n\n".join(blocks)


def _plant_kinds(seed: int) -> tuple[PromptKind, ...]:
    """Deal the latent criteria to the types, each to at least one, and draw weights and distractors."""
    rng, deck = seeded(seed, "kinds"), list[int]()
    kinds = []
    for topic in TOPICS:
        if len(deck) < CARED:
            deck = rng.sample(range(len(LATENT)), len(LATENT))
        hand = [deck.pop() for _ in range(CARED)]
        raw = [WEIGHT_RATIO**rank * math.exp(rng.uniform(-0.15, 0.15)) for rank in range(CARED)]
        weights = tuple(weight / sum(raw) for weight in raw)
        others = [number for number in range(len(LATENT)) if number not in hand]
        distractors = rng.sample(range(len(LATENT), len(CRITERIA)), JUNK_DISTRACTORS)
        distractors += rng.sample(others, STRANGE_DISTRACTORS)
        kinds.append(PromptKind(topic, tuple(hand), weights, tuple(distractors)))
    return tuple(kinds)


def squeeze(text: str) -> str:
    """Return the text without differences of case and spacing."""
    return " ".join(text.split()).casefold()


def response_reading(text: str, plain: str, met: int) -> ResponseReading:
    """Return the reading of a response whose attributes are known; `plain` is its squeezed text."""
    bold, sure = text.count("**") >= 2, any(word in plain for word in SURE)
    length = min(1.0, len(plain.split()) / (2 * LONG_RESPONSE_WORDS))
    return ResponseReading(digest_of(plain), met, length + bold + sure)


_MET = tuple(squeeze(criterion.met) for criterion in CRITERIA)
_PREDICATES = tuple(squeeze(criterion.predicates[0]) for criterion in CRITERIA)


def train_row(item: PlantedPair) -> dict[str, Any]:
    """Return a training pair as a row, without what only the world knows."""
    pair = item.pair
    texts = {"prompt": prompt_text(pair.prompt), "chosen": pair.chosen, "rejected": pair.rejected}
    return {"id": pair.id, **texts, "domain": pair.domain, "source": SOURCE}


def rubricbench_row(world: World, item: PlantedPair) -> dict[str, Any]:
    """Return a test pair as a row of RubricBench's schema; label 0 means that response A is better."""
    pair = item.pair
    return {
        "case_id": pair.id,
        "instruction": prompt_text(pair.prompt),
        "response_a": pair.response_a,
        "response_b": pair.response_b,
        "label": 0 if pair.chosen_first else 1,
        "rubrics": "\n".join(world.human_rubrics(item)),
        "source": SOURCE,
        "domain": world.kinds[item.kind].topic.domain,
    }
