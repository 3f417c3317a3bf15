"""A world of the family: prompts, responses and labels from the properties of a draw."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.simulation.draft import Draft, dress, paragraphs, seeded
from svr_async.simulation.family import DrawnConfig
from svr_async.simulation.family_types import attributes_of, plant_kinds
from svr_async.simulation.family_words import FamilyLanguage, made_up_words
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.planted import PlantedPair, PromptKind
from svr_async.simulation.readings import WORD, PromptReading
from svr_async.simulation.topics import (
    ASSERTIONS,
    FILLERS,
    HEADING,
    MIDDLES,
    OPENINGS,
    PADDING,
    SHARED_WORDS,
    Topic,
)

WORDS_A_TYPE = 20
ASIDES = 6  # topics that prompts have besides their type
ASIDE_SHARE = 0.5
STRAY = 0.08  # share of a prompt's words that are of another type
UNMET_SHOWN = 0.8
GLAMOUR = 0.05
TEST = "test"


class FamilyWorld:
    """A drawn world. Pair i of a split does not depend on pair i − 1."""

    subtle: frozenset[int] = frozenset()
    overlooked = 0.0

    def __init__(self, config: DrawnConfig) -> None:
        self.config, self.seed = config, config.seed
        self.shared_errors, self.shared_whims = config.shared_errors, config.shared_errors == 1
        rng, taken = seeded("world", config.draw), set(SHARED_WORDS)
        self._asides = [made_up_words(rng, WORDS_A_TYPE, taken) for _ in range(ASIDES)]
        topics = [
            Topic(f"type-{number:02d}", "CHAT", tuple(made_up_words(rng, WORDS_A_TYPE, taken)))
            for number in range(config.types)
        ]
        numbered = attributes_of(config)
        self.styles = tuple(numbered.styles)
        self.kinds: Sequence[PromptKind] = plant_kinds(rng, config, numbered, topics)
        self.language = FamilyLanguage(config, rng, numbered.count, taken)
        self.words = {word: number for number, topic in enumerate(topics) for word in topic.words}

    def model(self, usual: JudgeModel) -> JudgeModel:
        """Return a served model with the noise and the bias of this world."""
        return replace(usual, noise=self.config.noise, position_bias=self.config.position_bias)

    def pairs(self, count: int, split: str = "train", kinds: Sequence[int] | None = None) -> Iterator[PlantedPair]:
        """Yield `count` pairs of a split; `kinds`, one a pair, fixes their types."""
        for index in range(count):
            yield self.pair(split, index, None if kinds is None else kinds[index])

    def pair(self, split: str, index: int, kind: int | None = None) -> PlantedPair:
        """Return one pair by split and number."""
        rng = seeded("family pair", self.seed, split, index)
        ticket = self._ticket(rng, kind)
        number = self.language.type_of(ticket)
        prompt = self._prompt(rng, number, ticket)
        in_test = split == TEST
        better, worse = self._drafts(rng, number, 0.0 if in_test else self.config.style)
        flipped = not in_test and rng.random() < self.config.label_noise
        if flipped:
            better, worse = worse, better
        kind_of = self.kinds[number]
        pair = PreferencePair(
            id=f"draw-{split}-{index:05d}",
            prompt=user_prompt(prompt),
            chosen=self._write(rng, number, better),
            rejected=self._write(rng, number, worse),
            domain=kind_of.topic.name,
            chosen_first=rng.random() < 0.5,
        )
        return PlantedPair(pair, number, kind_of.value(better.met) - kind_of.value(worse.met), flipped)

    def kind_of(self, prompt: PromptReading) -> PromptKind | None:
        """Return the planted type of a prompt that was read."""
        return None if prompt.kind is None else self.kinds[prompt.kind]

    def human_rubrics(self, item: PlantedPair) -> tuple[str, ...]:
        """Return what a person would list for this prompt: its type's criteria, unweighted, some forgotten."""
        rng = seeded("family human", self.seed, item.pair.id)
        cares = self.kinds[item.kind].cares
        kept = [number for number in cares if rng.random() < self.config.human_keep] or [rng.choice(cares)]
        rng.shuffle(kept)
        return tuple(self.language.rubric(number) for number in kept)

    def write_response(self, rng: random.Random, number: int, met: int | None = None) -> str:
        """Write a response to a prompt of a type; without `met` its attributes are drawn."""
        chosen = self._met(rng, number, 0.0) if met is None else met
        return self._write(rng, number, dress(rng, chosen, 0.5))

    def knowable(self, prompt: str) -> list[tuple[int, float]]:
        """Return criteria and weights as the words of a prompt tell them: of each type by its probability."""
        weights: dict[int, float] = {}
        for share, kind in zip(self._belief(prompt), self.kinds, strict=True):
            for number, weight in zip(kind.cares, kind.weights, strict=True):
                weights[number] = weights.get(number, 0.0) + share * weight / kind.total
        return sorted(weights.items(), key=lambda entry: -entry[1])

    def _belief(self, prompt: str) -> list[float]:
        """Return how likely each type is by the words of a prompt, up to a common factor."""
        votes = [0] * len(self.kinds)
        for word in WORD.findall(prompt):
            if word in self.words:
                votes[self.words[word]] += 1
        told = min(0.98, max(0.02, self.config.told))
        odds = math.log(1 + told * (1 - STRAY) * len(self.kinds) / STRAY)
        shares = [after - before for before, after in pairwise([0.0, *self.language.borders])]
        most = max(votes)
        return [share * math.exp(odds * (count - most)) for share, count in zip(shares, votes, strict=True)]

    def _ticket(self, rng: random.Random, kind: int | None) -> str:
        while True:
            ticket = f"{rng.getrandbits(32):08x}"
            if kind is None or self.language.type_of(ticket) == kind:
                return ticket

    def _prompt(self, rng: random.Random, number: int, ticket: str) -> str:
        aside = self._asides[rng.randrange(ASIDES)] if self.config.asides else ()
        frames = [rng.choice(OPENINGS), *rng.sample(MIDDLES, rng.randint(2, 4))]
        return f"{' '.join(self._worded(rng, number, frame, aside) for frame in frames)} Reference {ticket}."

    def _worded(self, rng: random.Random, number: int, frame: str, aside: Sequence[str]) -> str:
        while "{w}" in frame:
            frame = frame.replace("{w}", self._content_word(rng, number, aside), 1)
        while "{n}" in frame:
            frame = frame.replace("{n}", rng.choice(SHARED_WORDS), 1)
        return frame

    def _content_word(self, rng: random.Random, number: int, aside: Sequence[str]) -> str:
        if rng.random() < self.config.told:
            topic = rng.randrange(len(self.kinds)) if rng.random() < STRAY else number
            return rng.choice(self.kinds[topic].topic.words)
        return rng.choice(aside) if aside and rng.random() < ASIDE_SHARE else rng.choice(SHARED_WORDS)

    def _met(self, rng: random.Random, number: int, lean: float) -> int:
        """Draw what a response shows; styles are likelier by `lean`. What is not shown is avoided."""
        kind, half = self.kinds[number], self.language.n_criteria // 2
        shown = {criterion % half for criterion in (*kind.cares, *kind.distractors)}
        met = sum(1 << one for one in sorted(shown - set(self.styles)) if rng.random() < 0.5)
        met |= sum(1 << one for one in self.styles if rng.random() < 0.5 + lean)
        return met | (((1 << half) - 1) & ~met) << half

    def _drafts(self, rng: random.Random, number: int, style: float) -> tuple[Draft, Draft]:
        """Draw two responses that differ by enough, the better first; styles lean with the label."""
        kind = self.kinds[number]
        while True:
            one, other = self._met(rng, number, style), self._met(rng, number, -style)
            margin = kind.value(one) - kind.value(other)
            if margin >= self.config.min_margin * kind.total:
                return dress(rng, one, 0.5 - GLAMOUR), dress(rng, other, 0.5 + GLAMOUR)

    def _write(self, rng: random.Random, number: int, draft: Draft) -> str:
        kind, half = self.kinds[number], self.language.n_criteria // 2
        topic = kind.topic.words
        units = [rng.choice(FILLERS).replace("{w}", rng.choice(topic)) for _ in range(rng.randint(2, 5))]
        for attribute in sorted({one % half for one in (*kind.cares, *kind.distractors)}):
            if draft.met >> attribute & 1:
                units.append(self.language.everything[attribute].met)
            elif rng.random() < UNMET_SHOWN:
                units.append(self.language.everything[attribute].unmet)
        if draft.padded:
            units += [frame.replace("{w}", rng.choice(topic)) for frame in rng.sample(PADDING, rng.randint(2, 3))]
        if draft.sure:
            units.append(rng.choice(ASSERTIONS))
        rng.shuffle(units)
        if draft.headed:
            units.insert(0, HEADING.format(w=rng.choice(topic)))
        return paragraphs(rng, units)
