"""Checks of length: words, sentences, paragraphs, lines and characters."""

from __future__ import annotations

import math
from dataclasses import replace

from svr_async.judges.rules.spec import (
    Finding,
    Whole,
    at_least,
    at_most,
    both_ways,
    bounds,
    spec,
    within,
    yes_if,
)
from svr_async.judges.rules.text import TextView

# Every check takes (prompt, response, **args), whether it needs the prompt or not.
# ruff: noqa: ARG001


def max_words(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of words is at most n."""
    return at_most(len(response.words), n)


def min_words(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of words is at least n."""
    return at_least(len(response.words), n)


def words_between(prompt: TextView, response: TextView, *, low: int, high: int) -> Finding:
    """The number of words lies between two bounds, both included."""
    return within(len(response.words), low, high)


def exact_words(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of words is exactly n."""
    return within(len(response.words), n, n)


def max_sentences(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of sentences outside code is at most n."""
    return at_most(len(response.sentences), n)


def min_sentences(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of sentences outside code is at least n."""
    return at_least(len(response.sentences), n)


def exact_sentences(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of sentences outside code is exactly n."""
    return within(len(response.sentences), n, n)


def max_paragraphs(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of paragraphs (runs of lines between blank lines, outside code) is at most n."""
    return at_most(len(response.paragraphs), n)


def min_paragraphs(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of paragraphs is at least n."""
    return at_least(len(response.paragraphs), n)


def exact_paragraphs(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of paragraphs is exactly n."""
    return within(len(response.paragraphs), n, n)


def exact_lines(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of lines that are not blank is exactly n."""
    return within(len(response.lines), n, n)


def max_characters(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of characters, without white space at the ends, is at most n."""
    return at_most(len(response.stripped), n)


def min_characters(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The number of characters, without white space at the ends, is at least n."""
    return at_least(len(response.stripped), n)


def max_sentence_words(prompt: TextView, response: TextView, *, n: int) -> Finding | None:
    """The mean number of words in a sentence is at most n. Abstains where there is no sentence."""
    sentences = len(response.sentences)
    return at_most(len(response.prose.words) / sentences, n) if sentences else None


def max_paragraph_words(prompt: TextView, response: TextView, *, n: int) -> Finding | None:
    """The longest paragraph has at most n words. Abstains where there is no paragraph."""
    longest = response.once(_longest_paragraph)
    return at_most(longest, n) if longest else None


def _longest_paragraph(view: TextView) -> int:
    return max((len(paragraph.split()) for paragraph in view.paragraphs), default=0)


def is_empty(prompt: TextView, response: TextView) -> Finding:
    """There is no letter or digit in the response."""
    return yes_if(not response.words)


def developed(prompt: TextView, response: TextView) -> Finding:
    """The answer has 150 words or more; of two answers the longer is the more developed, on a logarithmic scale."""
    words = len(response.words)
    return Finding(words >= 150, math.log1p(words))


def as_long_as_prompt(prompt: TextView, response: TextView) -> Finding:
    """The response has at least as many words as the prompt."""
    return at_least(len(response.words), len(prompt.words))


_WORDS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 900)
_LOW, _HIGH = (Whole(0), ()), (Whole(1), ())  # which go together in _RANGES
_RANGES = ((25, 75), (50, 150), (100, 250), (200, 400), (300, 600))
_FEW = (1, 2, 3, 4, 5, 6, 8, 10)

CHECKS = (
    *bounds(max_words, min_words, "is at {bound} {n:word} long", _WORDS),
    replace(
        spec(
            words_between,
            "is between {low} and {high:word} long",
            facet="conciseness",
            low=(Whole(0), ()),
            high=(Whole(1), ()),
        ),
        grid=tuple({"low": low, "high": high} for low, high in _RANGES),
        ordered=("low", "high"),
    ),
    spec(exact_words, "is exactly {n:word} long", facet="format", n=(Whole(1), (1, 2, 3, 5, 10, 50, 100))),
    *bounds(max_sentences, min_sentences, "has at {bound} {n:sentence}", _FEW),
    spec(exact_sentences, "has exactly {n:sentence}", facet="format", n=(Whole(1), _FEW)),
    *bounds(max_paragraphs, min_paragraphs, "has at {bound} {n:paragraph}", _FEW),
    spec(exact_paragraphs, "has exactly {n:paragraph}", facet="format", n=(Whole(1), _FEW)),
    spec(exact_lines, "has exactly {n:line}", facet="format", n=(Whole(1), _FEW)),
    *bounds(max_characters, min_characters, "is at {bound} {n:character} long", (140, 280, 500, 1000, 2000, 4000)),
    spec(
        max_sentence_words,
        "'s sentences have at most {n:word} on average",
        facet="style",
        n=(Whole(1), (12, 15, 18, 22, 26)),
    ),
    spec(
        max_paragraph_words,
        "has no paragraph of more than {n:word}",
        facet="style",
        n=(Whole(1), (50, 75, 100, 150, 200)),
    ),
    *both_ways(is_empty, "is empty", "not_empty", "is not empty", facet="format"),
    *both_ways(
        developed,
        "develops its answer at length",
        "brief",
        "keeps its answer brief",
        facet="coverage",
        opposite_facet="conciseness",
    ),
    spec(as_long_as_prompt, "is at least as long as the prompt", facet="coverage"),
)
