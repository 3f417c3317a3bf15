"""A response before it is written, and the layout of its sentences; what all planted worlds share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.simulation.planted import PromptKind


@dataclass(frozen=True, slots=True)
class Draft:
    """A response before it is written: which attributes it has, and how it looks."""

    met: int
    padded: bool
    headed: bool
    sure: bool


def seeded(*parts: int | str) -> random.Random:
    """Return a generator that depends on the parts alone."""
    return random.Random("|".join(map(str, parts)))  # noqa: S311  (a planted world, not a secret)


def draw_met(rng: random.Random, kind: PromptKind) -> int:
    """Draw which of the attributes that vary in a type's responses one of them has."""
    return sum(1 << number for number in (*kind.cares, *kind.distractors) if rng.random() < 0.5)


def dress(rng: random.Random, met: int, chance: float) -> Draft:
    """Give a response its looks: each of three surfaces with the same chance."""
    return Draft(met, padded=rng.random() < chance, headed=rng.random() < chance, sure=rng.random() < chance)


def paragraphs(rng: random.Random, units: Sequence[str]) -> str:
    """Join sentences into paragraphs of two to four; what needs lines of its own gets them."""
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
