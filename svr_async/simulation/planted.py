"""What every planted world has: types of prompts, pairs with a known better response, and a language."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from svr_async.core.pair import PreferencePair
from svr_async.simulation.language import Language
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.readings import PromptReading
from svr_async.simulation.topics import Topic


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
        """Return the true worth of a response with these attributes, between 0 and `total`."""
        return sum(weight for number, weight in zip(self.cares, self.weights, strict=True) if met >> number & 1)


@dataclass(frozen=True, slots=True)
class PlantedPair:
    """A generated pair with what only the world knows: its type, the true margin of chosen over rejected."""

    pair: PreferencePair
    kind: int
    margin: float
    flipped: bool


class PlantedWorld(Protocol):
    """A world as its judge and its author know it; everything in it is a pure function of its settings."""

    seed: int
    kinds: Sequence[PromptKind]
    subtle: frozenset[int]
    """Criteria that an inducer overlooks between responses that are not near copies."""
    overlooked: float
    """Chance of that."""
    shared_errors: float
    """Chance that a wording is misread where the criterion is."""
    shared_whims: bool
    """Whether the whim that settles equal verdicts then goes with it."""

    @property
    def language(self) -> Language:
        """What the world is written in."""

    def pairs(self, count: int, split: str = "train", kinds: Sequence[int] | None = None) -> Iterator[PlantedPair]:
        """Yield `count` pairs of a split; `kinds`, one a pair, fixes their types."""

    def kind_of(self, prompt: PromptReading) -> PromptKind | None:
        """Return the planted type of a prompt that was read."""

    def human_rubrics(self, item: PlantedPair) -> tuple[str, ...]:
        """Return what a person would list for this prompt."""

    def write_response(self, rng: random.Random, number: int, met: int | None = None) -> str:
        """Write a response to a prompt of a type; without `met` its attributes are drawn."""

    def model(self, usual: JudgeModel) -> JudgeModel:
        """Return a served model as it judges here."""
