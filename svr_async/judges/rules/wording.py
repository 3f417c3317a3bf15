"""Checks of wording: required and forbidden words, openings and endings, tone, repetition, readability."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from svr_async.judges.rules.lexicon import (
    APOLOGIES,
    CLOSING_OFFERS,
    CONNECTIVES,
    HEDGES,
    IMPERATIVES,
    PROFANITY,
)
from svr_async.judges.rules.spec import CheckTable, Finding, at_least, at_most, phrase, phrases, whole
from svr_async.judges.rules.text import TextView, kept, plain

_FIRST_PERSON = frozenset(("i", "i'm", "i've", "i'd", "i'll", "me", "my", "mine", "myself"))
_CONTRACTION = re.compile(r"\w(?:n't|'re|'ve|'ll|'d|'m) |\b(?:it|that|he|she|there|what|who)'s ")
_LEADING_MARKS = re.compile(r"[\s*_#>\-•\d.)(\"']{0,40}")
_VOWELS = re.compile(r"[aeiouy]+")
_SILENT_E = re.compile(r"[^aeiouyl\W]e\b")
_COMMON = (
    "for example", "however", "because", "important", "note", "step", "please", "consider", "in conclusion", "overall",
)  # fmt: skip
CLOSING = "*_\"”') "
RUN_WORDS = 4
CHECKS = CheckTable()


@lru_cache(maxsize=4096)
def _finder(text: str) -> tuple[str, re.Pattern[str]]:
    """Return a phrase in the form of `plain`, and a pattern that finds it as whole words."""
    wanted = plain(text).strip()
    left = r"(?<!\w)" if wanted[:1].isalnum() else ""
    right = r"(?!\w)" if wanted[-1:].isalnum() else ""
    return wanted, re.compile(left + re.escape(wanted) + right)


def holds(view: TextView, text: str) -> bool:
    """Whether a phrase occurs as whole words, whatever its case, quotes and spacing."""
    wanted, pattern = _finder(text)
    return wanted in view.plain and bool(pattern.search(view.plain))


def _occurrences(view: TextView, text: str) -> int:
    return len(_finder(text)[1].findall(view.plain))


def any_in(text: str, wanted: tuple[str, ...]) -> bool:
    """Whether at least one of some phrases is part of a text."""
    return any(part in text for part in wanted)


@CHECKS.add("includes {words}", "coverage", words=phrases(*_COMMON))
def includes_words(response: TextView, *, words: tuple[str, ...]) -> Finding:
    """All of some words or phrases occur; by the share that does."""
    found = sum(holds(response, word) for word in words)
    return Finding(found == len(words), found / len(words))


@CHECKS.add("does not include {words}", "format", words=phrases(*_COMMON, joint="or"))
def avoids_words(response: TextView, *, words: tuple[str, ...]) -> Finding:
    """None of some words or phrases occurs; fewer are better."""
    return at_most(sum(holds(response, word) for word in words), 0)


@CHECKS.add("uses {word} at least {n:time}", "format", word=phrase("for example", "because"), n=whole(2, 3))
def uses_word(response: TextView, *, word: str, n: int) -> Finding:
    """A word or phrase occurs at least n times."""
    return at_least(_occurrences(response, word), n)


@CHECKS.add("uses {word} at most {n:time}", "format", word=phrase("however", "important"), n=whole(1, 2, low=0))
def limits_word(response: TextView, *, word: str, n: int) -> Finding:
    """A word or phrase occurs at most n times."""
    return at_most(_occurrences(response, word), n)


@CHECKS.add("contains the letter {letter} at least {n:time}", "format", letter=phrase("q", "z"), n=whole(1, 3))
def uses_letter(response: TextView, *, letter: str, n: int) -> Finding:
    """A letter, or any short run of characters, occurs at least n times in either case."""
    return at_least(response.plain.count(letter.lower()), n)


@CHECKS.add("starts with {text}", "format", text=phrase("Here", "The", "I", "To", "As", "Yes", "No"))
def starts_with(response: TextView, *, text: str) -> bool:
    """The response begins with a phrase, with or without marks such as asterisks and quotes before it."""
    start = plain(response.stripped[: 4 * len(text) + 80])
    wanted = _LEADING_MARKS.sub("", plain(text), count=1).strip()
    return _LEADING_MARKS.sub("", start, count=1).startswith(wanted) or start.startswith(f" {text.lower()}")


@CHECKS.add("ends with {text}", "format", text=phrase("questions", "help", "you"))
def ends_with(response: TextView, *, text: str) -> bool:
    """The response ends with a phrase; closing marks and the last full stop do not matter."""
    end = plain(response.stripped[-(4 * len(text) + 80) :]).rstrip(" .!?*_\"')")
    return end.endswith(plain(text).strip().rstrip(" .!?*_\"')"))


CHECKS.simple(
    "style",
    ("starts_with_verb", "starts with an imperative verb", lambda view: {*view.lower_words[:1]} & IMPERATIVES),
    ("ends_with_question", "ends with a question", lambda view: view.stripped[-6:].rstrip(CLOSING)[-1:] in ("?", "？")),
    (
        "closing_offer",
        "closes with an offer of further help",
        lambda view: any_in(view.ending, CLOSING_OFFERS),
        ("no_closing_offer", "does not close with an offer of further help"),
    ),
    ("apologises", "opens with an apology", lambda view: any_in(view.opening, APOLOGIES)),
)


@CHECKS.add("hedges heavily", "style")
def hedged(response: TextView) -> Finding:
    """More than two words in a hundred hedge, such as "perhaps" or "might"."""
    words = response.head.lower_words
    share = sum(word in HEDGES for word in words) / max(len(words), 1)
    return Finding(share > 0.02, share)


CHECKS.simple(
    "style",
    (
        "first_person",
        "speaks in the first person",
        lambda view: _FIRST_PERSON & view.head.vocabulary,
        ("no_first_person", "does not speak in the first person"),
    ),
    (
        "contractions",
        "uses contractions",
        lambda view: _CONTRACTION.search(view.head.plain),
        ("no_contractions", "does not use contractions"),
    ),
)
CHECKS.simple("safety", ("no_profanity", "does not contain swear words", lambda v: not PROFANITY & v.head.vocabulary))


@CHECKS.add("does not repeat itself", "coherence")
def no_repetition(response: TextView) -> Finding:
    """At most a tenth of the runs of four words occurred before in the response; fewer are better."""
    words = response.head.lower_words
    total = len(words) - RUN_WORDS + 1
    if total < 10:
        return Finding(True, 0.0)
    runs = set(zip(*(islice(words, i, None) for i in range(RUN_WORDS)), strict=False))
    share = 1.0 - len(runs) / total
    return Finding(share <= 0.1, -round(share, 2))


@CHECKS.add("uses a varied vocabulary", "style")
def rich_vocabulary(response: TextView) -> Finding | None:
    """Of the first hundred words, at least 65 % are distinct. Abstains below fifty words."""
    words = response.lower_words[:100]
    share = len(set(words)) / max(len(words), 1)
    return Finding(share >= 0.65, round(share, 2)) if len(words) >= 50 else None


@kept
def reading_grade(view: TextView) -> float | None:
    """Return the Flesch-Kincaid grade of a text's prose, with estimated syllables; None below 20 words."""
    words, sentences = len(view.prose.head.words), len(view.prose.head.sentences)
    if words < 20 or not sentences:
        return None
    lower = view.prose.head.plain
    syllables = max(len(_VOWELS.findall(lower)) - len(_SILENT_E.findall(lower)), words)
    return 0.39 * words / sentences + 11.8 * syllables / words - 15.59


@CHECKS.add(
    "reads at grade {n} or below",
    "style",
    opposite=("above_grade", "reads above grade {n}"),
    n=whole(6, 8, 10, 12, 14),
)
def max_grade(response: TextView, *, n: int) -> Finding | None:
    """The reading grade (Flesch-Kincaid, roughly years at school) is at most n. Abstains below 20 words."""
    grade = reading_grade(response)
    return None if grade is None else at_most(grade, n)


@CHECKS.add("links its statements with connectives", "coherence")
def connected(response: TextView) -> Finding:
    """At least two connectives such as "however" or "therefore" occur; more, up to six, are better."""
    found = len(CONNECTIVES & response.head.vocabulary)
    return Finding(found >= 2, float(min(found, 6)))
