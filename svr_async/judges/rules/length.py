"""Checks of length: words, sentences, paragraphs, lines and characters."""

from __future__ import annotations

import math

from svr_async.judges.rules.spec import (
    Finding,
    Inverse,
    Whole,
    at_least,
    at_most,
    both_ways,
    each,
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


_ONE = {"n": Whole(1)}
_WORDS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 900)
_FEW = (1, 2, 3, 4, 5, 6, 8, 10)

CHECKS = (
    spec(
        max_words,
        "The response is at most {n:word} long.",
        facet="conciseness",
        params={"n": Whole(0)},
        grid=each(n=_WORDS),
        inverse=Inverse("min_words", {"n": 1}),
    ),
    spec(
        min_words,
        "The response is at least {n:word} long.",
        facet="coverage",
        params=_ONE,
        grid=each(n=_WORDS),
        inverse=Inverse("max_words", {"n": -1}),
    ),
    spec(
        words_between,
        "The response is between {low} and {high:word} long.",
        facet="conciseness",
        params={"low": Whole(0), "high": Whole(1)},
        grid=tuple(
            {"low": low, "high": high} for low, high in ((25, 75), (50, 150), (100, 250), (200, 400), (300, 600))
        ),
        ordered=("low", "high"),
    ),
    spec(
        exact_words,
        "The response is exactly {n:word} long.",
        facet="format",
        params=_ONE,
        grid=each(n=(1, 2, 3, 5, 10, 50, 100)),
    ),
    spec(
        max_sentences,
        "The response has at most {n:sentence}.",
        facet="conciseness",
        params={"n": Whole(0)},
        grid=each(n=_FEW),
        inverse=Inverse("min_sentences", {"n": 1}),
    ),
    spec(
        min_sentences,
        "The response has at least {n:sentence}.",
        facet="coverage",
        params=_ONE,
        grid=each(n=_FEW),
        inverse=Inverse("max_sentences", {"n": -1}),
    ),
    spec(exact_sentences, "The response has exactly {n:sentence}.", facet="format", params=_ONE, grid=each(n=_FEW)),
    spec(
        max_paragraphs,
        "The response has at most {n:paragraph}.",
        facet="conciseness",
        params={"n": Whole(0)},
        grid=each(n=_FEW),
        inverse=Inverse("min_paragraphs", {"n": 1}),
    ),
    spec(
        min_paragraphs,
        "The response has at least {n:paragraph}.",
        facet="coverage",
        params=_ONE,
        grid=each(n=_FEW),
        inverse=Inverse("max_paragraphs", {"n": -1}),
    ),
    spec(exact_paragraphs, "The response has exactly {n:paragraph}.", facet="format", params=_ONE, grid=each(n=_FEW)),
    spec(exact_lines, "The response has exactly {n:line}.", facet="format", params=_ONE, grid=each(n=_FEW)),
    spec(
        max_characters,
        "The response is at most {n:character} long.",
        facet="conciseness",
        params={"n": Whole(0)},
        grid=each(n=(140, 280, 500, 1000, 2000, 4000)),
        inverse=Inverse("min_characters", {"n": 1}),
    ),
    spec(
        min_characters,
        "The response is at least {n:character} long.",
        facet="coverage",
        params=_ONE,
        grid=each(n=(140, 280, 500, 1000, 2000, 4000)),
        inverse=Inverse("max_characters", {"n": -1}),
    ),
    spec(
        max_sentence_words,
        "The response's sentences have at most {n:word} on average.",
        facet="style",
        params=_ONE,
        grid=each(n=(12, 15, 18, 22, 26)),
    ),
    spec(
        max_paragraph_words,
        "The response has no paragraph of more than {n:word}.",
        facet="style",
        params=_ONE,
        grid=each(n=(50, 75, 100, 150, 200)),
    ),
    *both_ways(is_empty, "The response is empty.", "not_empty", "The response is not empty.", facet="format"),
    *both_ways(
        developed,
        "The response develops its answer at length.",
        "brief",
        "The response keeps its answer brief.",
        facet="coverage",
        opposite_facet="conciseness",
    ),
    spec(as_long_as_prompt, "The response is at least as long as the prompt.", facet="coverage"),
)
