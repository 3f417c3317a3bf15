"""The planted world: prompts of known types, responses with known attributes, and who is preferred, from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import ConfigError
from svr_async.simulation.catalogue import CRITERIA, GENERIC, JUNK, LATENT
from svr_async.simulation.commonplaces import COMMONPLACES
from svr_async.simulation.draft import Draft, draw_met, dress, paragraphs, seeded
from svr_async.simulation.language import CatalogueLanguage, Language
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.planted import PlantedPair, PromptKind
from svr_async.simulation.readings import PromptReading, read_prompt, read_response
from svr_async.simulation.topics import (
    ASSERTIONS,
    FILLERS,
    HEADING,
    MIDDLES,
    OPENINGS,
    PADDING,
    SHARED_WORDS,
    TOPICS,
)
from svr_async.simulation.variety import NONE, REDUNDANT, VARIED, Variety


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """What is planted. The defaults are calibrated: see `simulation.calibration` for what each judge then scores."""

    seed: int = 0
    cared: int = 6
    """Criteria that a type of prompt cares about."""
    distractors: int = 3
    """Attributes that also vary between its responses and do not matter to it."""
    weight_ratio: float = 0.57
    """Each criterion of a type weighs this share of the one before."""
    label_noise: float = 0.04
    """Share of pairs whose label is the wrong way round."""
    min_margin: float = 0.09
    """Pairs nearer than this share of the type's total weight are drawn again."""
    unmet_shown: float = 0.8
    """Chance that a response which misses an attribute has a sentence that shows it."""
    glamour: float = 0.055
    """How much likelier than not the worse response has a long, bold or assertive surface."""
    stray_words: float = 0.12
    """Share of a prompt's type words that are taken from another type."""
    human_keep: float = 0.78
    """Chance that human rubrics name a criterion of the type."""
    human_generic: float = 0.5
    """Chance that human rubrics have a generic one besides."""
    variety: Variety = field(default=NONE, repr=False)
    """What a varied world has besides; nothing in the plain one."""

    def __post_init__(self) -> None:
        if not 1 <= self.cared <= len(LATENT):
            raise ConfigError(f"cared must be 1 to {len(LATENT)} (got {self.cared})")
        if self.variety.delicate_kinds and 2 * self.cared > len(LATENT):
            raise ConfigError(f"cared must be 1 to {len(LATENT) // 2} with delicate kinds (got {self.cared})")
        if not 0 <= self.distractors <= len(JUNK):
            raise ConfigError(f"distractors must be 0 to {len(JUNK)} (got {self.distractors})")
        if not 0 <= self.label_noise < 0.5:
            raise ConfigError(f"label_noise must be in [0, 0.5) (got {self.label_noise})")
        if not 0 <= self.min_margin < 0.5:
            raise ConfigError(f"min_margin must be in [0, 0.5) (got {self.min_margin})")


PRESETS: dict[str, WorldConfig] = {
    "plain": WorldConfig(),
    "varied": WorldConfig(variety=VARIED),
    "redundant": WorldConfig(weight_ratio=0.8, min_margin=0.12, human_keep=0.6, variety=REDUNDANT),
}
"""Named worlds, all but their seed."""


def preset(name: str, seed: int) -> WorldConfig:
    """Return a named world of a seed; `ConfigError` where there is none of that name."""
    if name not in PRESETS:
        raise ConfigError(f"there is no world {name!r}; there are {', '.join(PRESETS)}")
    return replace(PRESETS[name], seed=seed)


def preset_name(config: WorldConfig) -> str:
    """Return the name of a world; "plain" for one without variety, whatever its other settings."""
    return next((name for name, held in PRESETS.items() if held.variety == config.variety), "plain")


class World:
    """A planted world. Everything in it is a pure function of its config; pair i does not depend on pair i − 1.

    `kinds` are the types of prompts; those in `delicate` care about the criteria in `subtle`, which are inconspicuous.
    """

    def __init__(self, config: WorldConfig | None = None) -> None:
        self.config = config or WorldConfig()
        variety = self.config.variety
        self.seed = self.config.seed
        self.language: Language = CatalogueLanguage(variety.wordings)
        self.overlooked, self.shared_errors = variety.overlooked, variety.shared_errors
        self.shared_whims = variety.shared_whims
        self.subtle, self.delicate = _draw_subtle(self.config), _draw_delicate(self.config)
        self.kinds: Sequence[PromptKind] = _plant_kinds(self.config, self.subtle, self.delicate)
        share = self.config.variety.delicate_share
        self._rates = [share if number in self.delicate else 1.0 for number in range(len(self.kinds))]

    def pairs(self, count: int, split: str = "train", kinds: Sequence[int] | None = None) -> Iterator[PlantedPair]:
        """Yield `count` pairs of a split; `kinds`, one a pair, fixes their types (else drawn evenly)."""
        for index in range(count):
            yield self.pair(split, index, None if kinds is None else kinds[index])

    def pair(self, split: str, index: int, kind: int | None = None) -> PlantedPair:
        """Return one pair by split and number."""
        rng = seeded(self.config.seed, split, index)
        number = self._draw_kind(rng) if kind is None else kind
        prompt = self.write_prompt(rng, number)
        better, worse = self._drafts(rng, number)
        flipped = rng.random() < self.config.label_noise
        if flipped:
            better, worse = worse, better
        chosen, rejected = self._write(rng, number, better), self._write(rng, number, worse)
        margin = self.kinds[number].value(better.met) - self.kinds[number].value(worse.met)
        pair = PreferencePair(
            id=f"sim-{split}-{index:05d}",
            prompt=user_prompt(prompt),
            chosen=chosen,
            rejected=rejected,
            domain=self.kinds[number].topic.name,
            chosen_first=rng.random() < 0.5,
        )
        return PlantedPair(pair, number, margin, flipped)

    def _draw_kind(self, rng: random.Random) -> int:
        if not self.delicate:
            return rng.randrange(len(self.kinds))
        return rng.choices(range(len(self.kinds)), self._rates)[0]

    def human_rubrics(self, item: PlantedPair) -> tuple[str, ...]:
        """Return what a person would list for this prompt: its type's criteria, unweighted, some forgotten."""
        rng = seeded(self.config.seed, "human", item.pair.id)
        cares = self.kinds[item.kind].cares
        kept = [number for number in cares if rng.random() < self.config.human_keep] or [rng.choice(cares)]
        texts = [CRITERIA[number].rubric for number in kept]
        if rng.random() < self.config.human_generic:
            texts.append(rng.choice(GENERIC))
        rng.shuffle(texts)
        return tuple(texts)

    def true_margin(self, prompt: str, chosen: str, rejected: str) -> float | None:
        """Return the true margin of two responses, read from their texts; None for a prompt of no planted type."""
        kind = self.kind_of(read_prompt(prompt))
        if kind is None:
            return None
        return kind.value(read_response(chosen).met) - kind.value(read_response(rejected).met)

    def kind_of(self, prompt: PromptReading) -> PromptKind | None:
        """Return the planted type of a prompt that was read."""
        return None if prompt.kind is None else self.kinds[prompt.kind]

    def write_prompt(self, rng: random.Random, number: int) -> str:
        """Write a prompt of a type, with shared words and a few words of other types among its own."""
        while True:
            frames = [rng.choice(OPENINGS), *rng.sample(MIDDLES, rng.randint(2, 4))]
            text = " ".join(self._fill(rng, number, frame, self.config.stray_words) for frame in frames)
            if read_prompt(text).kind == number:
                return text

    def write_response(self, rng: random.Random, number: int, met: int | None = None) -> str:
        """Write a response to a prompt of a type; without `met` its attributes are drawn."""
        chosen = draw_met(rng, self.kinds[number]) if met is None else met
        return self._write(rng, number, dress(rng, chosen, 0.5))

    def model(self, usual: JudgeModel) -> JudgeModel:
        """Return a served model as it judges here: as ever."""
        return usual

    def _drafts(self, rng: random.Random, number: int) -> tuple[Draft, Draft]:
        kind = self.kinds[number]
        while True:
            one, other = draw_met(rng, kind), draw_met(rng, kind)
            margin = kind.value(one) - kind.value(other)
            if abs(margin) >= self.config.min_margin * kind.total:
                better, worse = (one, other) if margin > 0 else (other, one)
                return dress(rng, better, 0.5 - self.config.glamour), dress(rng, worse, 0.5 + self.config.glamour)

    def _write(self, rng: random.Random, number: int, draft: Draft) -> str:
        kind = self.kinds[number]
        units = [self._fill(rng, number, rng.choice(FILLERS)) for _ in range(rng.randint(3, 6))]
        for criterion in (*kind.cares, *kind.distractors):
            if draft.met >> criterion & 1:
                units.append(CRITERIA[criterion].met)
            elif rng.random() < self.config.unmet_shown:
                units.append(CRITERIA[criterion].unmet)
        units += _commonplaces(rng, self.config.variety)
        if draft.padded:
            units += [self._fill(rng, number, frame) for frame in rng.sample(PADDING, rng.randint(2, 3))]
        if draft.sure:
            units.append(rng.choice(ASSERTIONS))
        rng.shuffle(units)
        if draft.headed:
            units.insert(0, HEADING.format(w=rng.choice(kind.topic.words)))
        return paragraphs(rng, units)

    def _fill(self, rng: random.Random, number: int, frame: str, stray: float = 0.0) -> str:
        pieces = frame.split("{w}")
        text = pieces[0]
        for piece in pieces[1:]:
            topic = rng.choice(TOPICS) if rng.random() < stray else self.kinds[number].topic
            text += rng.choice(topic.words) + piece
        while "{n}" in text:
            text = text.replace("{n}", rng.choice(SHARED_WORDS), 1)
        return text


def _commonplaces(rng: random.Random, variety: Variety) -> list[str]:
    """Return the sentences that show, or now and then lack, what nearly every response has."""
    common = COMMONPLACES[: variety.commonplaces]
    return [one.met if rng.random() < variety.commonplace_rate else one.unmet for one in common]


def _draw_delicate(config: WorldConfig) -> frozenset[int]:
    """Draw the types of prompts that care about inconspicuous criteria."""
    rng = seeded(config.seed, "delicate")
    return frozenset(rng.sample(range(len(TOPICS)), config.variety.delicate_kinds))


def _draw_subtle(config: WorldConfig) -> frozenset[int]:
    """Draw the inconspicuous criteria: one hand, which all delicate types hold."""
    rng = seeded(config.seed, "subtle")
    return frozenset(rng.sample(range(len(LATENT)), config.cared if config.variety.delicate_kinds else 0))


def _plant_kinds(config: WorldConfig, subtle: frozenset[int], delicate: frozenset[int]) -> tuple[PromptKind, ...]:
    """Deal the latent criteria out to the types, every one to at least one type, and draw weights and distractors."""
    rng = seeded(config.seed, "kinds")
    plain = [number for number in range(len(LATENT)) if number not in subtle]
    usual = iter(_deal(rng, len(TOPICS) - len(delicate), config.cared, plain))
    careful = rng.sample(sorted(subtle), len(subtle))
    hands = [careful if number in delicate else next(usual) for number in range(len(TOPICS))]
    kinds = []
    for topic, hand in zip(TOPICS, hands, strict=True):
        weights = [config.weight_ratio**rank * math.exp(rng.uniform(-0.15, 0.15)) for rank in range(config.cared)]
        others = [number for number in range(len(LATENT)) if number not in hand]
        n_junk = (config.distractors + 1) // 2
        distractors = rng.sample(range(len(LATENT), len(CRITERIA)), n_junk)
        distractors += rng.sample(others, config.distractors - n_junk)
        kinds.append(PromptKind(topic, tuple(hand), tuple(weights), tuple(distractors)))
    return tuple(kinds)


def _deal(rng: random.Random, n_hands: int, size: int, cards: Sequence[int]) -> list[list[int]]:
    """Return `n_hands` hands of `size` different criteria, going through the whole deck before any comes twice."""
    deck: list[int] = []
    hands: list[list[int]] = []
    for _ in range(n_hands):
        hand: list[int] = []
        while len(hand) < size:
            if not deck:
                deck = rng.sample(cards, len(cards))
            card = next((number for number in deck if number not in hand), None)
            if card is None:
                deck += rng.sample(cards, len(cards))
                continue
            deck.remove(card)
            hand.append(card)
        hands.append(hand)
    return hands
