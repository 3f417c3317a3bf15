"""A family of planted worlds: `draw N` has its properties drawn from N, so that no choice was made with it in view.

Development draws (0 to 39) are for choosing defaults, report draws (1000 to 1039) for one run at the end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from svr_async.errors import ConfigError
from svr_async.simulation.draft import seeded

RubricTexts = Literal["template", "paraphrase", "repeat"]
DEVELOPMENT = range(40)
REPORT = range(1000, 1040)
HARDLY_TOLD = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnConfig:
    """The properties of one world of the family.

    Where prompts hardly tell their type (`told` below `HARDLY_TOLD`), what matters has to hold for all types, or nobody
    could know it: the common criteria carry at least the share 1 − `told` of the weight.
    """

    draw: int = 0
    types: int = 12
    """Types of prompts."""
    own: int = 5
    """Criteria of a type besides the common ones."""
    common: int = 0
    """Criteria that all types share."""
    common_share: float = 0.0
    """What the common criteria weigh of a type's total."""
    faults: float = 0.0
    """Share of types in which the heaviest criterion of another type is a fault: to avoid it is a criterion here."""
    weight_ratio: float = 0.7
    """Each criterion weighs this share of the one before."""
    even: bool = True
    """Whether types are equally frequent; else the n-th is 1/n as frequent as the first."""
    told: float = 0.5
    """Chance that a content word of a prompt is one of its type's."""
    asides: bool = False
    """Whether prompts also have words of topics that have nothing to do with their type."""
    matter: float = 0.5
    """About what share of the differences between two responses matters; the rest are irrelevant attributes."""
    texts: RubricTexts = "repeat"
    """`template`: rubrics differ in a word; `paraphrase`: wordings of a criterion share none; `repeat`: one wording."""
    wordings: int = 1
    """Wordings of a criterion."""
    shared_errors: float = 0.0
    """Chance that the judge errs alike on all wordings of a criterion."""
    style: float = 0.0
    """How much likelier than not a preferred training response has an irrelevant feature of style; 0 in the test."""
    noise: float = 0.1
    """Chance that a verdict is the wrong way round."""
    position_bias: float = 0.1
    """Chance that, of two responses alike on a rubric, the judge calls A the better without looking."""
    label_noise: float = 0.05
    """Share of training labels that are the wrong way round; test labels are right."""
    human_keep: float = 0.75
    """Chance that human rubrics name a criterion."""
    min_margin: float = 0.1
    """Pairs nearer than this share of a type's total weight are drawn again."""
    pairs: int = 3000
    """Training pairs, where no number is asked for."""

    def __post_init__(self) -> None:
        if self.draw < 0:
            raise ConfigError(f"a draw is a number from 0 (got {self.draw})")

    @property
    def seed(self) -> int:
        """The draw, by which everything in the world is seeded."""
        return self.draw

    def properties(self) -> dict[str, Any]:
        """Return the drawn properties as plain values."""
        return asdict(self)


def drawn(number: int) -> DrawnConfig:
    """Return the world of a draw; ConfigError for a negative number."""
    rng = seeded("family", number)
    types = rng.choice([1, 2, 4, 6, 8, 12, 16, 20, 30, 40])
    told = rng.choice([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])
    share = 1.0 if types == 1 else max(rng.choice([0.0, 0.0, 0.3, 0.6]), 1 - told if told < HARDLY_TOLD else 0.0)
    texts: RubricTexts = rng.choice(["template", "paraphrase", "repeat"])
    return DrawnConfig(
        draw=number,
        types=types,
        own=0 if share == 1 else rng.randint(2, 8),
        common=0 if share == 0 else rng.randint(6, 14) if share == 1 else rng.randint(1, 6),
        common_share=share,
        faults=0.0 if share == 1 else rng.choice([0.0, 0.0, 0.25, 0.5]),
        weight_ratio=rng.choice([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        even=rng.random() < 0.5,
        told=told,
        asides=rng.random() < 0.5,
        matter=round(rng.uniform(0.1, 1.0), 2),
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


def in_words(config: DrawnConfig) -> str:
    """Return the properties as lines of `name: value`."""
    return "\n".join(f"  {one.name}: {getattr(config, one.name)}" for one in fields(config))
