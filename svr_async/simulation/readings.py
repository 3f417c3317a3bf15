"""Reading back what was planted in a text: the type of a prompt, the attributes and the surface of a response."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from svr_async.simulation.catalogue import GENERIC
from svr_async.simulation.draws import digest_of
from svr_async.simulation.topics import TOPICS
from svr_async.simulation.wordings import EVERYTHING, PREDICATES

WORD = re.compile(r"[^\W_]+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s")
SURE = ("definitely", "without any doubt", "absolutely", "certainly", "undoubtedly")
LONG_RESPONSE_WORDS = 120
MIN_TOPIC_WORDS = 2
MIN_OVERLAP = 0.45
REPHRASED = "As the prompt is about "  # how a rubric begins that was fitted to a prompt; then its type and a colon


@dataclass(frozen=True, slots=True)
class ResponseReading:
    """What the simulation sees in a response.

    `met` has bit i set where attribute i of `EVERYTHING` is shown; `surface` in [0, 3] counts what dazzles a direct
    judge (length, headings, assertive tone); `variety` in [0, 1] is a crude sign of quality for any text.
    `plain` is the text without differences of case and spacing.
    """

    digest: bytes
    met: int
    surface: float
    variety: float
    plain: str = ""


@dataclass(frozen=True, slots=True)
class PromptReading:
    """What the simulation sees in a prompt: its digest, and the number of its type where it is of this world."""

    digest: bytes
    kind: int | None


@dataclass(frozen=True, slots=True)
class RubricReading:
    """A rubric text: its digest, and the number of the criterion that it names, or None."""

    text: str
    digest: bytes
    criterion: int | None


def squeeze(text: str) -> str:
    """Return the text without differences of case and spacing."""
    return " ".join(text.split()).casefold()


MET = tuple(squeeze(criterion.met) for criterion in EVERYTHING)
TOPIC_OF_WORD = {word: number for number, topic in enumerate(TOPICS) for word in topic.words}


@lru_cache(maxsize=4096)
def read_response(text: str) -> ResponseReading:
    """Look a response's attributes up in its text, wherever they stand and however they are wrapped."""
    plain = squeeze(text)
    met = sum(1 << number for number, sentence in enumerate(MET) if sentence in plain)
    words = plain.split()
    variety = min(1.0, len(set(words)) / LONG_RESPONSE_WORDS)
    return ResponseReading(digest_of(plain), met, surface_of(text, plain, len(words)), variety, plain)


def surface_of(text: str, plain: str, n_words: int) -> float:
    """Return how impressive a response looks, whatever it says: length, bold headings, assertive tone; 0 to 3."""
    bold = 1.0 if text.count("**") >= 2 else 0.0
    sure = 1.0 if any(word in plain for word in SURE) else 0.0
    return min(1.0, n_words / (2 * LONG_RESPONSE_WORDS)) + bold + sure


def likeness(first: str, second: str) -> float:
    """Return the share of sentences that two texts have in common, between 0 and 1; the order does not matter."""
    ours, theirs = (frozenset(SENTENCE_END.split(squeeze(text))) for text in (first, second))
    return 2 * len(ours & theirs) / max(1, len(ours) + len(theirs))


@lru_cache(maxsize=4096)
def read_prompt(text: str) -> PromptReading:
    """Tell the type of a prompt by its vocabulary; a prompt with fewer than two such words has none."""
    votes = [0] * len(TOPICS)
    for word in set(WORD.findall(text.casefold())):
        number = TOPIC_OF_WORD.get(word)
        if number is not None:
            votes[number] += 1
    best = max(range(len(votes)), key=votes.__getitem__)
    return PromptReading(digest_of(text), best if votes[best] >= MIN_TOPIC_WORDS else None)


@lru_cache(maxsize=8192)
def read_rubric(text: str) -> RubricReading:
    """Recognise the criterion that a rubric names: its own wording, or the nearest by shared words."""
    plain = squeeze(text)
    own = plain.partition(": ")[2] if plain.startswith(squeeze(REPHRASED)) else plain
    return RubricReading(text, digest_of(plain), _EXACT.get(own, _nearest(own)))


_SMALL = frozenset(("the", "a", "an", "it", "its", "is", "of", "or", "and", "to", "in", "on", "for", "with", "that"))


def _tokens(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text)) - _SMALL - {"answer", "response", "reply"}


_EXACT: dict[str, int | None] = {squeeze(text): None for text in GENERIC}
_EXACT |= {squeeze(f"The response {text}."): number for number, texts in enumerate(PREDICATES) for text in texts}
_NAMED = [(number, _tokens(squeeze(text))) for number, texts in enumerate(PREDICATES) for text in texts]


def _nearest(plain: str) -> int | None:
    tokens = _tokens(plain)
    overlap, number = max((len(tokens & own) / max(1, len(tokens | own)), -number) for number, own in _NAMED)
    return -number if overlap >= MIN_OVERLAP else None
