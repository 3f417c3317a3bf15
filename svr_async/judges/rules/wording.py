"""Checks of wording: required and forbidden words, openings and endings, tone, repetition, readability."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from svr_async.judges.rules.lexicon import (
    AI_TALK,
    APOLOGIES,
    CLOSING_OFFERS,
    CONNECTIVES,
    FILLER_OPENINGS,
    HEDGES,
    IMPERATIVES,
    PROFANITY,
)
from svr_async.judges.rules.spec import (
    Finding,
    Phrase,
    Phrases,
    Whole,
    at_least,
    at_most,
    both_ways,
    of_response,
    spec,
    yes_if,
)
from svr_async.judges.rules.text import TextView, kept, plain

# Every check takes (prompt, response, **args), whether it needs the prompt or not.
# ruff: noqa: ARG001

_FIRST_PERSON = frozenset(("i", "i'm", "i've", "i'd", "i'll", "me", "my", "mine", "myself"))
_SECOND_PERSON = frozenset(("you", "your", "yours", "you're", "you'll", "you've", "yourself"))
_CONTRACTION = re.compile(r"\w(?:n't|'re|'ve|'ll|'d|'m) |\b(?:it|that|he|she|there|what|who)'s ")
_LEADING_MARKS = re.compile(r"[\s*_#>\-•\d.)(\"']{0,40}")
_VOWELS = re.compile(r"[aeiouy]+")
_SILENT_E = re.compile(r"[^aeiouyl\W]e\b")
NGRAM = 4


@lru_cache(maxsize=4096)
def _finder(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds a phrase of `plain` text as whole words."""
    wanted = plain(phrase).strip()
    left = r"(?<!\w)" if wanted[:1].isalnum() else ""
    right = r"(?!\w)" if wanted[-1:].isalnum() else ""
    return re.compile(left + re.escape(wanted) + right)


def holds(view: TextView, phrase: str) -> bool:
    """Whether a phrase occurs as whole words, whatever its case, quotes and spacing."""
    wanted = _wanted(phrase)
    return wanted in view.plain and bool(_finder(phrase).search(view.plain))


@lru_cache(maxsize=4096)
def _wanted(phrase: str) -> str:
    return plain(phrase).strip()


def count_phrase(view: TextView, phrase: str) -> int:
    """Count a phrase's occurrences as whole words."""
    return len(_finder(phrase).findall(view.plain))


def any_in(text: str, phrases: tuple[str, ...]) -> bool:
    """Whether one of some phrases is part of a text."""
    return any(phrase in text for phrase in phrases)


def count_in(text: str, phrases: tuple[str, ...]) -> int:
    """Count how many of some phrases are part of a text."""
    return sum(phrase in text for phrase in phrases)


def includes_words(prompt: TextView, response: TextView, *, words: tuple[str, ...]) -> Finding:
    """All of some words or phrases occur; by the share that does."""
    found = sum(holds(response, word) for word in words)
    return Finding(found == len(words), found / len(words))


def avoids_words(prompt: TextView, response: TextView, *, words: tuple[str, ...]) -> Finding:
    """None of some words or phrases occurs; fewer are better."""
    return at_most(sum(holds(response, word) for word in words), 0)


def uses_word(prompt: TextView, response: TextView, *, word: str, n: int) -> Finding:
    """A word or phrase occurs at least n times."""
    return at_least(count_phrase(response, word), n)


def limits_word(prompt: TextView, response: TextView, *, word: str, n: int) -> Finding:
    """A word or phrase occurs at most n times."""
    return at_most(count_phrase(response, word), n)


def uses_letter(prompt: TextView, response: TextView, *, letter: str, n: int) -> Finding:
    """A letter, or any short run of characters, occurs at least n times in either case."""
    return at_least(response.plain.count(letter.lower()), n)


def starts_with(prompt: TextView, response: TextView, *, text: str) -> Finding:
    """The response begins with a phrase, after marks such as asterisks and quotes."""
    start = _LEADING_MARKS.sub("", plain(response.stripped[: 4 * len(text) + 80]), count=1)
    wanted = _LEADING_MARKS.sub("", plain(text), count=1).strip()
    return yes_if(
        start.startswith(wanted) or plain(response.stripped[: 4 * len(text) + 80]).startswith(f" {text.lower()}")
    )


def ends_with(prompt: TextView, response: TextView, *, text: str) -> Finding:
    """The response ends with a phrase; closing marks and the last full stop do not matter."""
    end = plain(response.stripped[-(4 * len(text) + 80) :]).rstrip(" .!?*_\"')")
    return yes_if(end.endswith(plain(text).strip().rstrip(" .!?*_\"')")))


def starts_with_verb(prompt: TextView, response: TextView) -> Finding:
    """The first word is an English verb in the imperative, from a list of common ones."""
    first = next(iter(response.lower_words[:1]), "")
    return yes_if(first in IMPERATIVES)


@of_response
def items_start_with_verb(view: TextView) -> Finding | None:
    """Every list item begins with an imperative verb; by the share that does. Abstains where there is no list."""
    if not view.item_count:
        return None
    items = [line for line in view.prose.lines if line[0] in "-*+•0123456789("]
    firsts = [_LEADING_MARKS.sub("", line, count=1).partition(" ")[0].strip("*_:,.").lower() for line in items]
    share = sum(first in IMPERATIVES for first in firsts) / max(len(firsts), 1)
    return Finding(share == 1, share)


def ends_with_question(prompt: TextView, response: TextView) -> Finding:
    """The last character, after closing marks, is a question mark."""
    return yes_if(response.stripped[-6:].rstrip("*_\"”') ")[-1:] in ("?", "？"))


def asks_question(prompt: TextView, response: TextView) -> Finding:
    """There is a question outside code."""
    return yes_if("?" in response.prose.text or "？" in response.prose.text)


def filler_opening(prompt: TextView, response: TextView) -> Finding:
    """The response opens with a pleasantry such as "Sure!" or "Great question"."""
    return yes_if(response.opening.lstrip(' "*').startswith(FILLER_OPENINGS))


def closing_offer(prompt: TextView, response: TextView) -> Finding:
    """The response closes with an offer of more help."""
    return yes_if(any_in(response.ending, CLOSING_OFFERS))


def apologises(prompt: TextView, response: TextView) -> Finding:
    """The opening apologises."""
    return yes_if(any_in(response.opening, APOLOGIES))


def ai_talk(prompt: TextView, response: TextView) -> Finding:
    """The response speaks of itself as an AI or of its training."""
    return yes_if(any_in(response.head.plain, AI_TALK))


def hedged(prompt: TextView, response: TextView) -> Finding:
    """More than two words in a hundred hedge, such as "perhaps" or "might"."""
    share = response.once(_hedge_share)
    return Finding(share > 0.02, share)


def _hedge_share(view: TextView) -> float:
    words = view.head.lower_words
    return sum(word in HEDGES for word in words) / max(len(words), 1)


def first_person(prompt: TextView, response: TextView) -> Finding:
    """The response speaks in the first person singular."""
    return yes_if(not _FIRST_PERSON.isdisjoint(response.head.vocabulary))


def addresses_user(prompt: TextView, response: TextView) -> Finding:
    """The response speaks to the reader as "you"."""
    return yes_if(not _SECOND_PERSON.isdisjoint(response.head.vocabulary))


def contractions(prompt: TextView, response: TextView) -> Finding:
    """There are contractions such as "don't"."""
    return yes_if(_CONTRACTION.search(response.head.plain))


def profanity(prompt: TextView, response: TextView) -> Finding:
    """There is a swear word."""
    return yes_if(not PROFANITY.isdisjoint(response.head.vocabulary))


def repeats_itself(prompt: TextView, response: TextView) -> Finding:
    """More than a tenth of the runs of four words occurred before in the response."""
    share = response.once(_repeated_share)
    return Finding(share > 0.1, round(share, 2))


def _repeated_share(view: TextView) -> float:
    words = view.head.lower_words
    total = len(words) - NGRAM + 1
    if total < 10:
        return 0.0
    runs = zip(*(islice(words, i, None) for i in range(NGRAM)), strict=False)
    return 1.0 - len(set(runs)) / total


@of_response
def repeated_lines(view: TextView) -> bool:
    """A line of five words or more outside code occurs twice."""
    long_lines = [line for line in view.prose.lines if len(line) > 25 and line.count(" ") >= 4]
    return len(set(long_lines)) < len(long_lines)


def rich_vocabulary(prompt: TextView, response: TextView) -> Finding | None:
    """Of the first hundred words, at least 65 are distinct. Abstains below fifty words."""
    words = response.lower_words[:100]
    if len(words) < 50:
        return None
    share = len(set(words)) / len(words)
    return Finding(share >= 0.65, round(share, 2))


@kept
def reading_grade(view: TextView) -> float | None:
    """Return the Flesch-Kincaid grade of a text's prose, syllables by a rule of thumb; None below 20 words."""
    words, sentences = len(view.prose.head.words), len(view.prose.head.sentences)
    if words < 20 or not sentences:
        return None
    lower = view.prose.head.plain
    syllables = max(len(_VOWELS.findall(lower)) - len(_SILENT_E.findall(lower)), words)
    return 0.39 * words / sentences + 11.8 * syllables / words - 15.59


def max_grade(prompt: TextView, response: TextView, *, n: int) -> Finding | None:
    """The reading grade (Flesch-Kincaid, roughly years at school) is at most n. Abstains below 20 words."""
    grade = reading_grade(response)
    return None if grade is None else at_most(grade, n)


def connected(prompt: TextView, response: TextView) -> Finding:
    """At least two connectives such as "however" or "therefore" link the statements; more, up to six, are better."""
    found = len(CONNECTIVES & response.head.vocabulary)
    return Finding(found >= 2, float(min(found, 6)))


@of_response
def truncated(view: TextView) -> bool:
    """The response stops in the middle: an open code fence, or a last line of prose without an end."""
    code = view.layout.code
    if code and not code[-1].closed:
        return True
    last = view.stripped[-400:].rpartition("\n")[2].strip()
    if len(last.split()) < 8 or last[0] in "|#`":
        return False
    return last[-1].isalnum() or last[-1] in ",;-–("


_COMMON = (
    "for example",
    "however",
    "because",
    "important",
    "note",
    "step",
    "please",
    "consider",
    "in conclusion",
    "overall",
)

CHECKS = (
    spec(includes_words, "includes {words}", facet="coverage", words=(Phrases(), [(word,) for word in _COMMON])),
    spec(
        avoids_words, "does not include {words}", facet="format", words=(Phrases("or"), [(word,) for word in _COMMON])
    ),
    spec(
        uses_word,
        "uses {word} at least {n:time}",
        facet="format",
        word=(Phrase(), ("for example", "because")),
        n=(Whole(1), (2, 3)),
    ),
    spec(
        limits_word,
        "uses {word} at most {n:time}",
        facet="format",
        word=(Phrase(), ("however", "important")),
        n=(Whole(0), (1, 2)),
    ),
    spec(
        uses_letter,
        "contains the letter {letter} at least {n:time}",
        facet="format",
        letter=(Phrase(), ("q", "z")),
        n=(Whole(1), (1, 3)),
    ),
    spec(
        starts_with,
        "starts with {text}",
        facet="format",
        text=(Phrase(), ("Here", "The", "I", "To", "As", "Yes", "No")),
    ),
    spec(ends_with, "ends with {text}", facet="format", text=(Phrase(), ("questions", "help", "you"))),
    *both_ways(
        starts_with_verb,
        "starts with an imperative verb",
        "no_verb_start",
        "does not start with an imperative verb",
        facet="style",
    ),
    spec(items_start_with_verb, "starts every list item with an imperative verb", facet="style"),
    *both_ways(
        ends_with_question, "ends with a question", "no_question_end", "does not end with a question", facet="style"
    ),
    *both_ways(asks_question, "asks a question", "asks_nothing", "does not ask any question", facet="style"),
    *both_ways(
        filler_opening,
        "opens with a pleasantry or filler",
        "direct_opening",
        "opens without pleasantry or filler",
        facet="conciseness",
    ),
    *both_ways(
        closing_offer,
        "closes with an offer of further help",
        "no_closing_offer",
        "does not close with an offer of further help",
        facet="style",
    ),
    *both_ways(apologises, "opens with an apology", "no_apology", "does not open with an apology", facet="style"),
    *both_ways(
        ai_talk,
        "talks about being an AI or about its training",
        "no_ai_talk",
        "does not talk about being an AI or about its training",
        facet="style",
    ),
    *both_ways(hedged, "hedges heavily", "assured", "states things without heavy hedging", facet="style"),
    *both_ways(
        first_person,
        "speaks in the first person",
        "no_first_person",
        "does not speak in the first person",
        facet="style",
    ),
    *both_ways(
        addresses_user, "addresses the reader as you", "impersonal", "does not address the reader as you", facet="style"
    ),
    *both_ways(contractions, "uses contractions", "no_contractions", "does not use contractions", facet="style"),
    *both_ways(profanity, "contains swear words", "no_profanity", "does not contain swear words", facet="safety"),
    *both_ways(repeats_itself, "repeats itself", "no_repetition", "does not repeat itself", facet="coherence"),
    *both_ways(
        repeated_lines,
        "contains the same line twice",
        "no_repeated_lines",
        "does not contain the same line twice",
        facet="coherence",
    ),
    *both_ways(
        rich_vocabulary, "uses a varied vocabulary", "poor_vocabulary", "uses few different words", facet="style"
    ),
    *both_ways(
        max_grade,
        "reads at grade {n} or below",
        "above_grade",
        "reads above grade {n}",
        facet="style",
        n=(Whole(1), (6, 8, 10, 12, 14)),
    ),
    *both_ways(
        connected,
        "links its statements with connectives",
        "unconnected",
        "uses hardly any connectives",
        facet="coherence",
    ),
    *both_ways(
        truncated, "breaks off in the middle", "complete_ending", "does not break off in the middle", facet="coverage"
    ),
)
