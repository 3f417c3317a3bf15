"""What the types of prompts of a drawn world care about: common and own criteria, faults, weights, distractors."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.simulation.family import DrawnConfig
from svr_async.simulation.planted import PromptKind
from svr_async.simulation.topics import Topic

DEALT_SHARE = 0.8  # criteria dealt to types, for each that a type holds: below 1, since several types share some
MOST_IRRELEVANT = 16
STYLES = 2  # irrelevant attributes that go with the label in training


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a drawn world by number: criteria first, then what is irrelevant everywhere."""

    common: range
    """Criteria of all types."""
    dealt: range
    """Criteria that types are dealt; to a type that does not hold them they are irrelevant."""
    styles: range
    """Irrelevant ones that go with the label in training."""
    irrelevant: range

    @property
    def count(self) -> int:
        """How many there are."""
        return self.irrelevant.stop


def attributes_of(config: DrawnConfig) -> Attributes:
    """Number the attributes of a draw."""
    common = range(config.common)
    dealt = _after(common, max(config.own, round(config.own * config.types * DEALT_SHARE)))
    styles = _after(dealt, STYLES if config.style else 0)
    return Attributes(common, dealt, styles, _after(styles, max(1, _n_irrelevant(config))))


def _after(before: range, count: int) -> range:
    return range(before.stop, before.stop + count)


def _n_irrelevant(config: DrawnConfig) -> int:
    """Return how many attributes that do not matter to a type its responses differ in."""
    cared = config.common + config.own
    return min(MOST_IRRELEVANT, round(cared * (1 - config.matter) / config.matter))


def plant_kinds(
    rng: random.Random, config: DrawnConfig, numbered: Attributes, topics: Sequence[Topic]
) -> tuple[PromptKind, ...]:
    """Return the types, one a topic: to each its criteria, their weights, and what is irrelevant to it."""
    hands = [rng.sample(numbered.dealt, config.own) for _ in topics]
    return tuple(
        _kind(rng, config, numbered, topic, _with_fault(rng, config, hands, number, numbered.count))
        for number, topic in enumerate(topics)
    )


def _with_fault(
    rng: random.Random, config: DrawnConfig, hands: Sequence[Sequence[int]], number: int, n_attributes: int
) -> list[int]:
    """Return a type's own criteria; now and then the next type's heaviest is a fault here, to be avoided."""
    hand = list(hands[number])
    if hand and len(hands) > 1 and rng.random() < config.faults:
        best = hands[(number + 1) % len(hands)][0]
        others = [one for one in hand if one != best]
        hand = [*others[: config.own - 1], best + n_attributes]
        rng.shuffle(hand)
    return hand


def _kind(
    rng: random.Random, config: DrawnConfig, numbered: Attributes, topic: Topic, hand: Sequence[int]
) -> PromptKind:
    n_irrelevant, held = _n_irrelevant(config), {one % numbered.count for one in hand}
    others = [one for one in numbered.dealt if one not in held]
    strangers = rng.sample(others, min(len(others), n_irrelevant // 3))
    rest = n_irrelevant - len(strangers)
    irrelevant = rng.sample(numbered.irrelevant, min(len(numbered.irrelevant), rest))
    weights = _weights(rng, config, len(numbered.common), len(hand))
    return PromptKind(topic, (*numbered.common, *hand), weights, (*numbered.styles, *strangers, *irrelevant))


def _weights(rng: random.Random, config: DrawnConfig, n_common: int, n_own: int) -> tuple[float, ...]:
    """Return the weights of a type's criteria, the common ones first; they add up to 1."""
    shared, own = _falling(rng, config, n_common), _falling(rng, config, n_own)
    total = config.common_share if own else 1.0
    return (*(total * weight for weight in shared), *((1 - total) * weight for weight in own))


def _falling(rng: random.Random, config: DrawnConfig, count: int) -> list[float]:
    """Return `count` weights of sum 1, each about `weight_ratio` of the one before."""
    raw = [config.weight_ratio**rank * math.exp(rng.uniform(-0.15, 0.15)) for rank in range(count)]
    return [value / sum(raw) for value in raw]
