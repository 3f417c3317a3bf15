"""What makes rubrics that read almost alike different criteria: numbers, quotes, negation, opposites, names, order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svr_async.core.rubric import Check, Rubric
from svr_async.core.similarity import STOPWORDS, normalised
from svr_async.judges.rules.registry import inverse_of, problem_with

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
NUMBER_WORDS = (
    {word: str(value) for value, word in enumerate(f"{_UNITS} seventeen eighteen nineteen".split())}
    | {word: str(10 * value) for value, word in enumerate(_TENS.split(), 2)}
    | {word: str(value) for value, word in enumerate(_ORDINALS.split(), 1)}
    | {"hundred": "100", "thousand": "1000", "million": "1000000", "once": "1", "twice": "2", "single": "1"}
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

_EMPTY_WORDS = """
    not no never none nothing neither nor without cannot lack lacks omit omits avoid avoids refrain refrains free
    exclude excludes fail fails must shall may don doesn isn
"""
_CARRIERS = "us use using includ include contain hav have has ha provid provide giv give mak make"
_NAMING_WORDS = "response answer reply output text respons good clearly clear explicitly properly"
_SUBJECT = re.compile(
    r"^\s*(?:(?:the|a|an|this)\s+)?(?:(?:good|best|better|strong|ideal|chosen|assistant's)\s+)?"
    r"(?:response|answer|reply|output)(?:\s+(?:clearly|explicitly|properly))?\s+(?=\w)"
)
_IDLE = frozenset(_EMPTY_WORDS.split()) | STOPWORDS
_NAMING = frozenset(_NAMING_WORDS.split())


@dataclass(frozen=True, slots=True)
class Profile:
    """What a text says beyond its wording. `numbers` and `quotes` in their order; `before` and `after` a pivot word."""

    numbers: tuple[str, ...]
    quotes: tuple[str, ...]
    negations: int
    words: frozenset[str]
    names: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]


def profile(text: str) -> Profile:
    """Read a rubric text's profile."""
    plain = unicodedata.normalize("NFKC", text)
    lower = plain.lower().replace("’", "'")
    before, after = _around_pivot(lower)
    return Profile(
        numbers=_numbers(lower),
        quotes=tuple(" ".join(next(filter(None, found), "").lower().split()) for found in _QUOTED.findall(plain)),
        negations=len(_NEGATION.findall(lower)),
        words=frozenset(normalised(text).split()),
        names=frozenset(word for name in _NAME.findall(plain) for word in normalised(name).split()),
        before=before,
        after=after,
    )


def predicate(text: str) -> str:
    """Return what a rubric says of a response, without how it names it: "the answer", "a good response clearly".

    Two rubrics of the same predicate are one criterion. A text that does not begin so is returned as it is, lower-cased
    and with single spaces.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    said = _SUBJECT.sub("", plain)
    return said if len(said.split()) > 1 else plain


def _numbers(lower: str) -> tuple[str, ...]:
    """Return the numbers of a text in order; words for numbers count as their digits."""
    found = (NUMBER_WORDS.get(token, token) for token in _NUMBER.findall(lower))
    return tuple(token for token in found if token[0].isdigit())


def _around_pivot(lower: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the content words left and right of the first word whose sides cannot be exchanged, as in "x before y"."""
    match = _PIVOT.search(lower)
    if match is None:
        return frozenset(), frozenset()
    left, right = (frozenset(normalised(part).split()) for part in (lower[: match.start()], lower[match.end() :]))
    return left - right - STOPWORDS, right - left - STOPWORDS


def differ(first: Profile, second: Profile) -> str:
    """Say why two near-identical texts are different criteria, in a word or two; empty when they are not.

    Symmetric. Only differences that turn a criterion into another count: other numbers, other quoted words, a
    negation more or less, opposite words ("at least" and "at most", "relevant" and "irrelevant"), a name in the place
    of another, two sides exchanged ("x before y" and "y before x"), and a content word on either side that the other
    lacks: whether those two are one, only answers can tell.
    """
    reasons = {
        "numbers": first.numbers != second.numbers,
        "quoted words": first.quotes != second.quotes,
        "negation": first.negations != second.negations,
    }
    return next((reason for reason, found in reasons.items() if found), "") or _words_differ(first, second)


def _words_differ(first: Profile, second: Profile) -> str:
    if opposite_words(first.words - second.words, second.words - first.words):
        return "opposite words"
    if first.names - second.words and second.names - first.words:
        return "names"
    if first.before & second.after and first.after & second.before:
        return "order"
    if _lacking(first, second) and _lacking(second, first):
        return "content words"
    return ""


def _lacking(one: Profile, other: Profile) -> frozenset[str]:
    """Return the content words of one text that the other has in no form."""
    found = carried(one.words - other.words)
    return found - stems(other.words) if found else found


def carried(words: frozenset[str]) -> frozenset[str]:
    """Return the words that may make a criterion another: `stems` without numbers, what is judged, and praise.

    Numbers are compared as numbers, in whatever form they are written.
    """
    return frozenset(word for word in stems(words) - _NAMING if word not in NUMBER_WORDS and not word.isdigit())


def opposite_words(only_first: frozenset[str], only_second: frozenset[str]) -> bool:
    """Tell whether a word of one side is the opposite of a word of the other."""
    return any(_are_opposite(one, other) for one in only_first for other in only_second)


def _are_opposite(one: str, other: str) -> bool:
    if frozenset((one, other)) in OPPOSITES:
        return True
    short, long = sorted((one, other), key=len)
    return len(short) >= 3 and long.endswith(short) and long[: -len(short)] in NEGATIVE_PREFIXES


def checks_differ(first: Check | None, second: Check | None) -> bool:
    """Tell whether both rubrics carry a check and the checks are not the same."""
    return first is not None and second is not None and first != second


def opposed(first: Rubric, second: Rubric) -> bool:
    """Tell whether one rubric asks for what the other forbids: the same words but for a negation or an opposite.

    Rubrics that both carry a check are opposed where one check is the registry's inverse of the other.
    """
    if first.check is not None and second.check is not None:
        return _inverse_checks(first.check, second.check)
    one, other = profile(first.text), profile(second.text)
    if one.numbers != other.numbers or one.quotes != other.quotes:
        return False
    here, there = stems(one.words), stems(other.words)
    here, there = here - there, there - here
    if (one.negations - other.negations) % 2:
        return not here and not there
    return len(here) == len(there) == 1 and opposite_words(here, there)


def _inverse_checks(first: Check, second: Check) -> bool:
    if problem_with(first) or problem_with(second):
        return False
    return inverse_of(first) == second or inverse_of(second) == first


def stems(words: frozenset[str]) -> frozenset[str]:
    """Return the words that carry a criterion: without stopwords, negations, common verbs and the plural's ending."""
    return frozenset(_stem(word) for word in words - _IDLE if len(word) > 1) - frozenset(_CARRIERS.split())


def _stem(word: str) -> str:
    for ending in ("es", "s"):
        if len(word) > len(ending) + 2 and word.endswith(ending) and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def rubric_words(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, as a CSR from rubrics to words, the content words of each text; words are numbered alphabetically."""
    words = [sorted(_roots(text)) for text in texts]
    number = {word: place for place, word in enumerate(sorted({word for found in words for word in found}))}
    borders = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return borders, np.array([number[word] for found in words for word in found], dtype=np.int32)


def _roots(text: str) -> set[str]:
    """Return the content words of a text, singular and plural alike: "source" and "sources" are "sourc"."""
    return {word.removesuffix("e") for word in carried(frozenset(normalised(text).split()))}
