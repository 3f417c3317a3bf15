"""Made-up rubric texts with many near-duplicates; all words are our own."""

from __future__ import annotations

import random

SUBJECTS = ("The response", "The answer", "The explanation", "The code")
VERBS = ("explains", "lists", "describes", "verifies", "compares", "names")
OBJECTS = ("the main steps of", "the limits of", "two examples of", "the assumptions behind", "the units used for")
TOPICS = (
    "sourdough baking",
    "train travel",
    "binary search",
    "rain gauges",
    "bicycle repair",
    "tide tables",
    "SQL joins",
)
TAILS = ("", "in plain words", "before it draws a conclusion", "without repeating itself", "within {n} words")
FILLERS = ("also", "clearly", "the", "fully", "key")


def rubric_texts(count: int, seed: int = 0, near: float = 0.5) -> list[str]:
    """Return texts from templates; a share `near` of them are edits of earlier ones."""
    rng = random.Random(seed)
    texts: list[str] = []
    while len(texts) < count:
        texts.append(_edited(rng, rng.choice(texts)) if texts and rng.random() < near else _fresh(rng))
    return texts


def _fresh(rng: random.Random) -> str:
    parts = [rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS), rng.choice(TOPICS), rng.choice(TAILS)]
    return " ".join(part for part in parts if part).format(n=rng.choice([50, 100, 200])) + "."


def _edited(rng: random.Random, text: str) -> str:
    words = text.split()
    place = rng.randrange(len(words))
    if rng.random() < 0.5:
        words.insert(place, rng.choice(FILLERS))
    elif len(words) > 4:
        del words[place]
    return " ".join(words)
