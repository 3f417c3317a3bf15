"""Distinguishes criteria that read almost alike: other numbers, quotes, negation, opposites, names or order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from svr_async.core.rubric import Check
from svr_async.core.similarity import STOPWORDS, normalised
from svr_async.judges.rules import spec

_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
NUMBER_WORDS = (
    {word: str(value) for word, value in spec.NUMBER_WORDS.items()}
    | {word: str(value) for value, word in enumerate(_ORDINALS.split(), 1)}
    | {"seventy": "70", "eighty": "80", "ninety": "90", "thousand": "1000", "million": "1000000"}
    | {"once": "1", "twice": "2", "single": "1"}
)
_OPPOSITES = """
    least/most minimum/maximum min/max more/less more/fewer fewer/greater less/greater over/under above/below
    before/after first/last longer/shorter long/short larger/smaller higher/lower high/low larger/fewer bigger/smaller
    start/end starts/ends begin/end begins/ends begins/finishes opens/closes opening/closing beginning/end all/any
    all/some any/every each/any always/sometimes include/exclude includes/excludes including/excluding accept/reject
    accepts/rejects increase/decrease increases/decreases increasing/decreasing ascending/descending positive/negative
    true/false same/different agree/disagree agrees/disagrees allow/forbid allows/forbids present/absent
    internal/external global/local input/output upper/lower uppercase/lowercase left/right open/closed active/passive
    past/future past/present present/future brief/detailed short/detailed concise/detailed concise/verbose short/lengthy
    simple/complex early/late earlier/later formal/casual formal/colloquial refuses/complies refuse/comply
    refuses/provides supports/opposes singular/plural public/private static/dynamic benefits/drawbacks pros/cons
    advantages/disadvantages strengths/weaknesses user/assistant prompt/response question/answer must/may
"""
OPPOSITES = frozenset(frozenset(pair.split("/")) for pair in _OPPOSITES.split())
NEGATIVE_PREFIXES = ("un", "in", "im", "ir", "il", "non", "dis", "mis", "anti", "de", "over", "under")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+")
_QUOTED = re.compile(
    '"([^"]{1,200})"|“([^”]{1,200})”|„([^“”]{1,200})[“”]|«([^»]{1,200})»|`([^`]{1,200})`|‘([^’]{1,200})’'
    r"|(?<!\w)'([^']{1,200})'(?!\w)"
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot|lack|lacks|lacking|omits?|omitting|avoid|avoids"
    r"|avoiding|refrains?|refraining|free from|free of|instead of|rather than|excludes?|excluding|fails? to|absent)\b"
    r"|n['’]t\b"
)
_PIVOT = re.compile(
    r"\b(?:rather than|instead of|before|after|than|not|without|but|unless|if|when|only|over|versus|to|from|into)\b"
)
_NAME = re.compile(r"(?<=[^.!?:;\s] )[\"“‘'(]?([A-Z][\w+#-]*|\w+[A-Z][\w+#-]*)")
_SUBJECT = re.compile(
    r"^\s*(?:(?:the|a|an|this)\s+)?(?:(?:good|best|better|strong|ideal|chosen|assistant's)\s+)?"
    r"(?:response|answer|reply|output)(?:\s+(?:clearly|explicitly|properly))?\s+(?=\w)"
)
_IDLE = STOPWORDS | frozenset(
    """
    not no never none nothing neither nor without cannot lack lacks omit omits avoid avoids refrain refrains free
    exclude excludes fail fails must shall may don doesn isn
    """.split()  # noqa: SIM905  (reads better than thirty quoted words)
)
_CARRIERS = frozenset(["us", "use", "using", "includ", "include", "contain", "hav", "have", "has", "ha", "provid",
                       "provide", "giv", "give", "mak", "make"])  # fmt: skip
_NAMING = frozenset(["response", "respons", "answer", "reply", "output", "text", "good", "clearly", "clear",
                     "explicitly", "properly"])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """What a text states beyond its wording. `numbers` and `quotes` are in order; `before` and `after` a pivot word."""

    numbers: tuple[str, ...]
    quotes: tuple[str, ...]
    negations: int
    words: frozenset[str]
    names: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]


@lru_cache(maxsize=16_384)
def profile(text: str) -> Profile:
    """Read a rubric text's profile."""
    plain = unicodedata.normalize("NFKC", text)
    lower = plain.lower().replace("’", "'")
    tokens = (NUMBER_WORDS.get(token, token) for token in _NUMBER.findall(lower))
    before, after = _around_pivot(lower)
    return Profile(
        numbers=tuple(token for token in tokens if token[0].isdigit()),
        quotes=tuple(" ".join("".join(groups).lower().split()) for groups in _QUOTED.findall(plain)),
        negations=len(_NEGATION.findall(lower)),
        words=frozenset(normalised(text).split()),
        names=frozenset(word for name in _NAME.findall(plain) for word in normalised(name).split()),
        before=before,
        after=after,
    )


def _around_pivot(lower: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the content words left and right of the first word whose sides cannot be exchanged, as in "x before y"."""
    match = _PIVOT.search(lower)
    if match is None:
        return frozenset(), frozenset()
    left, right = (frozenset(normalised(part).split()) for part in (lower[: match.start()], lower[match.end() :]))
    return left - right - STOPWORDS, right - left - STOPWORDS


def predicate(text: str) -> str:
    """Return a rubric without its name for the response: "the answer", "a good response clearly".

    Two rubrics of the same predicate are one criterion. Other texts are returned lower-cased, with single spaces.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    rest = _SUBJECT.sub("", plain)
    return rest if len(rest.split()) > 1 else plain


def differ(first: str, second: str) -> str:
    """Return why two near-identical texts are different criteria, in a word or two; empty if they are not.

    Symmetric. Only differences that turn a criterion into another count. A content word that one text adds does not;
    whether such texts are one criterion, only answers can tell.
    """
    one, two = profile(first), profile(second)
    only_one, only_two = one.words - two.words, two.words - one.words
    reasons = {
        "numbers": one.numbers != two.numbers,
        "quoted words": one.quotes != two.quotes,
        "negation": one.negations != two.negations,
        "opposite words": opposite_words(only_one, only_two),
        "names": one.names - two.words and two.names - one.words,
        "order": one.before & two.after and one.after & two.before,
        "content words": carried(only_one) - stems(two.words) and carried(only_two) - stems(one.words),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def checks_differ(first: Check | None, second: Check | None) -> bool:
    """Return whether both rubrics carry a check and the checks are not the same."""
    return first is not None and second is not None and first != second


def opposite_words(only_first: frozenset[str], only_second: frozenset[str]) -> bool:
    """Return whether a word of one side is the opposite of a word of the other."""
    return any(_are_opposite(one, other) for one in only_first for other in only_second)


def _are_opposite(one: str, other: str) -> bool:
    if frozenset((one, other)) in OPPOSITES:
        return True
    short, long = sorted((one, other), key=len)
    return len(short) >= 3 and long.endswith(short) and long[: -len(short)] in NEGATIVE_PREFIXES


@lru_cache(maxsize=16_384)
def stems(words: frozenset[str]) -> frozenset[str]:
    """Return the words that carry a criterion: without stopwords, negations, common verbs and the plural's ending."""
    return frozenset(_stem(word) for word in words - _IDLE if len(word) > 1) - _CARRIERS


def _stem(word: str) -> str:
    for ending in ("es", "s"):
        if len(word) > len(ending) + 2 and word.endswith(ending) and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def carried(words: frozenset[str]) -> frozenset[str]:
    """Return the stems that may make a criterion another: without numbers, names for the response, and praise.

    Numbers are compared as numbers, in whatever form they are written.
    """
    return frozenset(word for word in stems(words) - _NAMING if word not in NUMBER_WORDS and not word.isdigit())


def rubric_words(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, as a CSR from rubrics to words, the content words of each text; words are numbered alphabetically.

    Singular and plural are one word: "source" and "sources" are "sourc".
    """
    words = [
        sorted({word.removesuffix("e") for word in carried(frozenset(normalised(text).split()))}) for text in texts
    ]
    number = {word: place for place, word in enumerate(sorted({word for row in words for word in row}))}
    borders = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return borders, np.array([number[word] for row in words for word in row], dtype=np.int32)
