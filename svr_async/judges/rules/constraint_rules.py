"""The wordings in which people state constraints, each with the checks that it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from svr_async.core.rubric import Check, CheckValue
from svr_async.judges.rules.intent import wants_code
from svr_async.judges.rules.language import LANGUAGES
from svr_async.judges.rules.spec import MAX_PHRASE_CHARS, NUMBER_WORDS
from svr_async.judges.rules.text import TextView

TOLERANCE = 0.2
"""A text "of 300 words" may have a fifth more or less."""

Make = Callable[[re.Match[str]], Iterator[Check]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over the instruction zone and the checks that a match stands for.

    `guarded` rules do not apply to parts of the answer or of given material ("each bullet …", "the 3 paragraphs").
    """

    pattern: re.Pattern[str]
    make: Make
    guarded: bool


def _rule(pattern: str, make: Make, *, guarded: bool = False) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), make, guarded)


_N = (
    r"(\d{1,3}(?:,\d{3})?|\d{1,5}|"
    + "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
    + "|a single|single)"
)  # fmt: skip
_LISTED = (
    "bullet points|bulleted points|bullets|items|points|steps|tips|examples|ways|ideas|reasons|suggestions|options|"
    "facts|questions|titles|names|headlines|headings|recommendations|strategies|methods|benefits|advantages|"
    "disadvantages|features|topics|slogans|captions|books|movies|songs|podcasts|websites|quotes|jokes|keywords|"
    "hashtags|tweets|variations|alternatives|synonyms|things|activities|exercises|recipes|places|countries|cities|"
    "companies|tools|rules|principles|challenges|factors|causes|effects|differences|similarities|takeaways|"
    "objectives|goals|skills|adjectives|verbs|nouns|use cases"
)
_UNIT = rf"(words?|sentences?|paragraphs?|characters?|lines?|{_LISTED})"
_N_UNIT = rf"{_N}[ -]{_UNIT}\b"
_PLURALS = {
    "word": "words",
    "sentence": "sentences",
    "paragraph": "paragraphs",
    "character": "characters",
    "line": "lines",
}
_EXACT = {
    "sentences": "exact_sentences",
    "paragraphs": "exact_paragraphs",
    "lines": "exact_lines",
    "items": "exact_items",
}
_BOUNDED = frozenset(("words", "sentences", "paragraphs", "characters", "items"))


def _number(text: str) -> int:
    lowered = text.lower()
    if lowered in ("a single", "single"):
        return 1
    return NUMBER_WORDS[lowered] if lowered in NUMBER_WORDS else int(text.replace(",", ""))


def _unit(text: str) -> str:
    lowered = text.lower()
    return lowered if lowered in _PLURALS.values() else _PLURALS.get(lowered, "items")


def _bounded(kind: str, match: re.Match[str], shift: int = 0) -> Iterator[Check]:
    if _unit(match[2]) in _BOUNDED:
        yield Check.of(f"{kind}_{_unit(match[2])}", n=_number(match[1]) + shift)


def _most(match: re.Match[str]) -> Iterator[Check]:
    return _bounded("max", match)


def _fewer(match: re.Match[str]) -> Iterator[Check]:
    return _bounded("max", match, shift=-1)


def _least(match: re.Match[str]) -> Iterator[Check]:
    return _bounded("min", match)


def _more(match: re.Match[str]) -> Iterator[Check]:
    return _bounded("min", match, shift=1)


def _between(match: re.Match[str]) -> Iterator[Check]:
    low, high, unit = _number(match[1]), _number(match[2]), _unit(match[3])
    if unit == "words":
        yield Check.of("words_between", low=low, high=high)
    elif unit in _BOUNDED:
        yield Check.of(f"min_{unit}", n=low)
        yield Check.of(f"max_{unit}", n=high)


def _about(match: re.Match[str]) -> Iterator[Check]:
    n, unit = _number(match[1]), _unit(match[2])
    if unit == "words" and n <= 5:
        yield Check.of("exact_words", n=n)
    elif unit == "words":
        yield Check.of("words_between", low=round(n * (1 - TOLERANCE)), high=round(n * (1 + TOLERANCE)))
    elif unit in _EXACT:
        yield Check.of(_EXACT[unit], n=n)


def _exactly(match: re.Match[str]) -> Iterator[Check]:
    if _unit(match[2]) == "words":
        yield Check.of("exact_words", n=_number(match[1]))
    else:
        yield from _about(match)


def _listing(match: re.Match[str]) -> Iterator[Check]:
    if 2 <= _number(match[1]) <= 60:
        yield Check.of("exact_items", n=_number(match[1]))


def _bullets(match: re.Match[str]) -> Iterator[Check]:
    yield Check.of("bullet_list")
    if match[1]:
        yield Check.of("exact_items", n=_number(match[1]))


def _fixed(name: str, **args: CheckValue) -> Make:
    def make(_: re.Match[str]) -> Iterator[Check]:
        yield Check.of(name, **args)

    return make


def _counted(name: str) -> Make:
    def make(match: re.Match[str]) -> Iterator[Check]:
        yield Check.of(name, n=_number(match[1]))

    return make


def _phrase(name: str) -> Make:
    def make(match: re.Match[str]) -> Iterator[Check]:
        if phrase := _clean(match[1]):
            yield Check.of(name, text=phrase)

    return make


def _words(name: str) -> Make:
    def make(match: re.Match[str]) -> Iterator[Check]:
        words = tuple(dict.fromkeys(filter(None, map(_clean, _split(match[1])))))
        if words and all(len(word.split()) <= 8 for word in words):
            yield Check.of(name, words=words)

    return make


def _mentions(match: re.Match[str]) -> Iterator[Check]:
    words = tuple(filter(None, (_clean(group or "") for group in match.groups())))
    if words:
        yield Check.of("avoids_words", words=words)


def _clean(phrase: str) -> str:
    return " ".join(phrase.strip(" .,;:!?\x00").split())[:MAX_PHRASE_CHARS].replace('"', "").strip()


def _split(text: str) -> list[str]:
    """Split a list of words: those in quotes if any are, else at commas, "and" and "or"."""
    quoted = re.findall(r"""["']([^"'\x00]{1,80})["']""", text)
    return quoted or re.split(r",| and | or |/|\[|\]", text)


def _times(match: re.Match[str]) -> Iterator[Check]:
    """Read "use the word "x" at least 3 times"; a bare count is taken as a minimum."""
    word, bound, n = _clean(match[1].strip("\"'")), (match[2] or "").lower(), _number(match[3])
    if word and bound in ("at most", "no more than", "less than", "fewer than"):
        yield Check.of("limits_word", word=word, n=n - bound.endswith(("less than", "fewer than")))
    elif word:
        yield Check.of("uses_word", word=word, n=n)


def _letters(match: re.Match[str]) -> Iterator[Check]:
    yield Check.of("uses_letter", letter=match[1], n=_number(match[2]))


_CODES = {label.lower(): code for code, label in LANGUAGES.items()} | {
    "mandarin": "zh",
    "farsi": "fa",
    "filipino": "tl",
}
_LANGUAGE = "|".join(sorted(_CODES, key=len, reverse=True))


def _language(match: re.Match[str]) -> Iterator[Check]:
    """A translation must contain the language, for it may be framed in another; any other answer is written in it."""
    is_translation = re.search(r"translat|convert|how do you", match[0], re.IGNORECASE)
    yield Check.of("contains_language" if is_translation else "in_language", language=_CODES[match[1].lower()])


def _json(match: re.Match[str]) -> Iterator[Check]:
    """A wish for JSON is for the answer itself unless a program is to write it."""
    if not wants_code(TextView(match.string)):
        yield Check.of("json_only")


_QUOTED = r"""["']([^"\x00]{1,160}?)["']"""
_SAY = (
    r"\b(?:write|respond|reply|answer|speak|translated?|say|output|explain|give|provide|rewrite|summari[sz]e|response|"
    r"convert)\b[^.?!\x00]{0,90}?"
)
_NOT = r"\b(?:do not|don't|never|without|avoid|must not|should not|shouldn't|cannot|can't|refrain from|exclude)"
_USE = (
    r"(?: (?:ever )?(?:use|using|mention|mentioning|include|including|say|saying|contain|containing|writing|having|"
    r"add|adding)(?: of)?)?"
)
_NO = (
    r"\b(?:no|without|avoid|refrain from|do not|don't|not|never)"
    r"(?: (?:use|using|contain|include|containing|including|the use of|have))?(?: of)?(?: any)?"
)
_IN = r"\b(?:in|as|using|use|with|into)(?: \w+){0,2}?"
_INCLUDE = r"\b(?:include|use|mention|contain|containing|including|using|incorporate)s?(?: all)?(?: of)? (?:the )?"
_TERMS = r"(?:following )?(?:words?|phrases?|terms?|keywords?)(?: such as| like)?:?"
_START = r"\b(?:start|begin)(?:s|ning|ing)?\b(?: [\w']+){0,5}? with"
_END = r"\b(?:end|finish|conclude|close)(?:s|ing)?\b(?: [\w']+){0,5}? with"
_EXACT_TEXT = r"(?: the| this)?(?: exact)?(?: words?| phrase| sentence| letter| line| text)?:? "
_TEXT_KIND = (
    "essay|story|summary|article|description|response|answer|poem|post|blog|report|explanation|review|email|bio|"
    "speech|introduction|overview"
)
_LIST_VERB = (
    r"\b(?:list|give|name|provide|write|suggest|generate|tell|share|recommend|create|propose|come up with|make|show|"
    r"what are|describe|top|best)(?: me| us)?(?: a list of| an? )?(?: the)?(?: top| best| at)? "
)
_NOBODY = r"(?!that\b|how\b|what\b|it\b|this\b|anything\b|your|you\b|i\b)"

_LENGTH_RULES = (
    _rule(rf"\bbetween {_N}(?: \w+)? (?:and|to) {_N_UNIT}", _between, guarded=True),
    _rule(rf"\b{_N} ?(?:-|to) ?{_N_UNIT}", _between, guarded=True),
    _rule(
        rf"\b(?:no|not|n't|never)(?: \w+){{0,4}} (?:more than|over|exceed(?:ing)?|longer than|above) {_N_UNIT}", _most
    ),
    _rule(rf"\b(?:at most|up to|(?:a )?max(?:imum)?(?: of)?|within|cap(?:ped)? at) {_N_UNIT}", _most, guarded=True),
    _rule(rf"\blimit(?:ed)?(?: \w+){{0,4}} to {_N_UNIT}", _most, guarded=True),
    _rule(rf"\b{_N_UNIT} (?:or (?:less|fewer)|max(?:imum)?|at most|limit|tops)\b", _most, guarded=True),
    _rule(rf"\b(?:under|below|less than|fewer than|shorter than) {_N_UNIT}", _fewer, guarded=True),
    _rule(
        rf"\b(?:at least|(?:a )?min(?:imum)?(?: of)?|(?:no|not) (?:less|fewer) than) {_N_UNIT}", _least, guarded=True
    ),
    _rule(rf"\b(?:more than|over|longer than) {_N_UNIT}", _more, guarded=True),
    _rule(rf"\b{_N}(?:\+| or more) {_UNIT}\b", _least, guarded=True),
    _rule(rf"\b{_N_UNIT} (?:or more|minimum|at least)\b", _least, guarded=True),
    _rule(rf"\bexactly {_N_UNIT}", _exactly, guarded=True),
)
_COUNT_RULES = (
    _rule(
        r"\b(?:use|using|with|in|as|give|write|list|provide|into)(?: \w+){0,2}? "
        rf"(?:{_N} )(?:short |concise |key |brief )?bullet(?:ed)?(?: ?-?points?|s)\b",
        _bullets,
    ),
    _rule(rf"\b(?:about|around|approximately|approx\.?|roughly|circa|~) ?{_N_UNIT}", _about, guarded=True),
    _rule(
        r"\b(?:in|with|using|of|only|just|be|into|to|write|containing) (?:only |just |about |around )?"
        rf"{_N}[ -](words?|sentences?|paragraphs?|lines?)\b",
        _about,
        guarded=True,
    ),
    _rule(rf"\b{_N}[ -](word|sentence|paragraph|line)s?\b (?:\w+ ){{0,2}}(?:{_TEXT_KIND})", _about, guarded=True),
    _rule(rf"{_LIST_VERB}{_N} (?:[\w-]+ ){{0,3}}?(?:{_LISTED})\b", _listing),
)
_SHAPE_RULES = (
    _rule(rf"{_IN} ()(?:bullet(?:ed)?[ -]?(?:points?|lists?|form|format|style)?s?)\b", _bullets),
    _rule(rf"{_IN} (?:numbered|ordered) (?:list|points|steps)\b", _fixed("numbered_list")),
    _rule(
        r"\b(?:in|as|into|using|create|make|draw|generate|give me|with|build)(?: \w+)? (?:a |an )?(?:\w+ )?"
        r"(?:tables?(?: format| form)?|tabular (?:form|format))\b(?! of contents| lamp| tennis)",
        _fixed("table"),
    ),
    _rule(
        r"\b(?:in|as|return|output|respond with|reply with|using|valid)(?: only)?(?: an?| valid)? json\b"
        r"(?: format| object| array| only)?",
        _json,
    ),
    _rule(r"\b(?:all|only|entirely in|in)(?: \w+){0,2}? (?:lower-?case|lower case)\b", _fixed("all_lowercase")),
    _rule(r"\bno capital letters\b", _fixed("all_lowercase")),
    _rule(
        r"\b(?:in|using|use)(?: \w+){0,3}? "
        r"(?:all caps|all capital letters|all uppercase|only capital letters|capital letters only|upper ?case letters)"
        r"\b",
        _fixed("all_uppercase"),
    ),
    _rule(rf"{_NO} commas\b", _fixed("no_commas")),
    _rule(rf"{_NO} emojis?\b", _fixed("no_emoji")),
    _rule(rf"{_NO} (?:bullet points|bullets|bulleted lists?|lists)\b", _fixed("no_bullet_list")),
    _rule(rf"{_NO} markdown\b|\bin plain text\b", _fixed("plain_text")),
    _rule(rf"{_NO} exclamation (?:marks|points)\b", _fixed("no_exclamation_marks")),
    _rule(rf"{_NO} contractions\b", _fixed("no_contractions")),
    _rule(
        r"\b(?:wrap|put|enclose|surround)\b[^.\x00]{0,60}? (?:in|with|inside) double quot(?:ation marks|es)\b",
        _fixed("in_quotes"),
    ),
    _rule(r"\bdouble (?:angular|angle) brackets\b", _fixed("bracketed_title")),
    _rule(
        rf"\b(?:highlight|italicize)\b(?: at least)? {_N} (?:sections?|passages?|parts?|phrases?|words?)",
        _counted("min_highlights"),
    ),
    _rule(rf"\bat least {_N} placeholders?\b", _counted("min_placeholders")),
    _rule(
        r"\bseparated? (?:them )?(?:by|with|using)(?: the)?[ \w]{0,30}?:? ([*\-=#]{3,10})(?![*\-=#])",
        _phrase("separated_by"),
    ),
    _rule(r"\b(?:with|use|using|include|add)(?: \w+){0,2}? (?:sub)?(?:headings|headers)\b", _fixed("headings")),
)
_WORDING_RULES = (
    _rule(
        rf"{_SAY}\b(?:in|into|to) (?:the )?({_LANGUAGE})\b(?! (?:class|speaker|people|learner|history|culture))"
        rf"(?!,? (?:and |or )?(?:{_LANGUAGE})\b)",
        _language,
    ),
    _rule(
        r"\b(?:answer|respond|reply|say)(?: only| just)?(?: with)?(?: a)?(?: simple)? "
        r"[\"']?yes[\"']? or [\"']?no[\"']?\b",
        _fixed("yes_or_no"),
    ),
    _rule(r"\bend(?:s|ing)?\b(?: \w+){0,4}? with a question\b(?! mark)", _fixed("ends_with_question")),
    _rule(rf"{_START}{_EXACT_TEXT}{_QUOTED}", _phrase("starts_with"), guarded=True),
    _rule(rf"{_START} the (?:word|phrase) (\w[\w'-]{{0,40}})", _phrase("starts_with"), guarded=True),
    _rule(rf"{_END}{_EXACT_TEXT}{_QUOTED}", _phrase("ends_with"), guarded=True),
    _rule(rf"{_END} the (?:word|phrase) (\w[\w'-]{{0,40}})", _phrase("ends_with"), guarded=True),
    _rule(
        r"\b(?:use|include|mention|contain|repeat)(?: the)? (?:word|phrase|keyword|name) "
        r"([\"'][^\"'\x00]{1,60}[\"']|[\w-]{1,30})(?: \w+){0,2}? "
        rf"(at least|at most|no more than|less than|fewer than|exactly)? ?{_N} times?\b",
        _times,
    ),
    _rule(rf"\bletter [\"']?(\w)[\"']?(?: \w+){{0,3}}? at least {_N} times?\b", _letters),
    _rule(
        rf"{_NOT}{_USE} (?:any )?(?:the )?{_TERMS} ((?:[\"'\[]|\w)[^.?!;\x00]{{0,160}})",
        _words("avoids_words"),
    ),
    _rule(
        r"\b(?:do not|don't|never|without|avoid|must not|should not) "
        rf"(?:mention|mentioning|include|including|use|using|say|saying) {_QUOTED}",
        _words("avoids_words"),
    ),
    _rule(
        rf"\b(?:do not|don't|never|without|avoid) mention(?:ing)? (?:the |any |of )?({_NOBODY}[a-z][\w'-]{{2,30}}"
        r"(?: [\w'-]{2,30})?)(?= ?[.,;!?\x00]| and | or |$)(?:(?:,| and| or) ([a-z][\w'-]{2,30})(?= ?[.,;!?\x00]|$))?",
        _mentions,
    ),
    _rule(
        rf"{_INCLUDE}{_TERMS} ([\"'\[][^.?!;\x00]{{1,200}}|(?:[\w-]+(?:, (?:and |or )?| and | or )){{1,9}}[\w-]+)",
        _words("includes_words"),
    ),
    _rule(
        r"\b(?:add|include|end with|write)\b[^.\x00]{0,40}? (?:postscript|p\.s\.)",
        _fixed("includes_words", words=("P.S.",)),
    ),
)
_CONTENT_RULES = (
    _rule(r"\brepeat (?:the|this|my) (?:request|question|prompt|sentence)\b", _fixed("restates_question")),
    _rule(r"\bstep[ -]by[ -]step\b", _fixed("gives_steps")),
    _rule(
        r"\b(?:give|with|provide|include|show)(?: me)?(?: an?| some| any| concrete| specific){0,2} examples?\b",
        _fixed("gives_example"),
    ),
    _rule(
        r"\b(?:cite|provide|include|with)(?: your| the| some)?(?: \w+)? (?:sources?|references|citations)\b",
        _fixed("names_source"),
    ),
    _rule(
        r"\b(?:write|speak|told|tell|written)\b[^.\x00]{0,40}? in (?:the )?first[ -]person\b",
        _fixed("first_person"),
    ),
)

RULES = (*_LENGTH_RULES, *_COUNT_RULES, *_SHAPE_RULES, *_WORDING_RULES, *_CONTENT_RULES)
"""Applied in this order; what one rule has matched is not seen by the next."""
