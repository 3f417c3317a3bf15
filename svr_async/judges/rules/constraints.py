"""Explicit constraints read out of a prompt ("in three bullet points", "under 100 words", "as JSON") as checks.

Only what the user says in the last turn is read, and of that only where instructions stand: all of a short turn; the
first and the last three sentences of a long one. Quoted passages, code, block quotes, and what follows a lead such as
"Summarize the following text:" are taken for pasted material and left out. Some constraints are missed for it; few are invented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from svr_async.judges.rules.intent import asked_code_language, wants_code
from svr_async.judges.rules.language import LANGUAGES
from svr_async.judges.rules.lexicon import CODE_LANGUAGES
from svr_async.judges.rules.registry import problem_with, rubric_for
from svr_async.judges.rules.spec import MAX_PHRASE_CHARS, NUMBER_WORDS
from svr_async.judges.rules.text import TextView, sentences_of
from svr_async.vocabulary.pair import Prompt
from svr_async.vocabulary.rubric import Check, CheckValue, Rubric

MAX_CONSTRAINTS = 12
SHORT_TURN_WORDS = 150
EDGE_CHARS = 3_000
EDGE_SENTENCES = 3
TOLERANCE = 0.2
"""A text "of 300 words" may have a fifth more or less."""

_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-"})
_FENCE = re.compile(r"```(?:[^`]|`(?!``))*+(?:```)?+")
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,8}>.*$", re.MULTILINE)
_LONG_QUOTE = re.compile(r'"[^"]{60,}+"')
_PASTED = re.compile(
    r"\b(?:following|this|these|below|above|given|provided|translate|summari[sz]e|rewrite|rephrase|paraphrase|proofread|"
    r"correct|edit|improve|revise|analy[sz]e|grammar)\b[^\n]{0,160}:[ \t]*\n",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def constraints_in(text: str) -> tuple[Rubric, ...]:
    """Return the constraints of one user turn as rubrics with checks, in order of the rules below, at most twelve."""
    zone = instruction_zone(text)
    found: dict[Check, None] = {}
    for rule in _RULES:
        for match in list(rule.pattern.finditer(zone)):
            if rule.guarded and _is_about_parts(zone, match):
                continue
            found.update(dict.fromkeys(rule.make(match)))
            zone = zone[: match.start()] + "\x00" * (match.end() - match.start()) + zone[match.end() :]
    found.update(dict.fromkeys(_code_language(text)))
    return tuple(rubric_for(check) for check in found if not problem_with(check))[:MAX_CONSTRAINTS]


def prompt_constraints(prompt: Prompt) -> tuple[Rubric, ...]:
    """Return the constraints of a conversation's last user turn."""
    return constraints_in(last_user_turn(prompt))


def last_user_turn(prompt: Prompt) -> str:
    """Return the content of the last user turn, or of the last turn where no user speaks; empty for no turn."""
    said = [turn.content for turn in prompt if turn.role == "user"] or [turn.content for turn in prompt]
    return said[-1] if said else ""


def instruction_zone(text: str) -> str:
    """Return the part of a user turn where instructions stand, with straight quotes and single spaces."""
    if len(text) > 2 * EDGE_CHARS:
        text = f"{text[:EDGE_CHARS]}\n\n{text[-EDGE_CHARS:]}"
    bare = _BLOCK_QUOTE.sub(" ", _FENCE.sub(" ", text.translate(_STRAIGHT)))
    bare = _LONG_QUOTE.sub(' "" ', _without_pasted(bare))
    sentences = sentences_of(bare)
    if len(bare.split()) > SHORT_TURN_WORDS:
        sentences = sentences[:EDGE_SENTENCES] + sentences[EDGE_SENTENCES:][-EDGE_SENTENCES:]
    return " ".join(" . ".join(sentences).replace("\x00", " ").split())


def _without_pasted(text: str) -> str:
    """Cut what follows a lead such as "Rewrite this text:"; a last paragraph after at least two others is kept."""
    match = _PASTED.search(text)
    if match is None:
        return text
    after = [part for part in re.split(r"\n[ \t]*+\n", text[match.end() :]) if part.strip()]
    return text[: match.end()] + ("\n" + after[-1] if len(after) > 2 else "")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern over the instruction zone and the checks that a match stands for; `guarded` skips parts of a text."""

    pattern: re.Pattern[str]
    make: Callable[[re.Match[str]], Iterator[Check]]
    guarded: bool = False


_PART_BEFORE = re.compile(
    r"\b(?:each|every|per)\b[^.\x00]{0,24}$|\b(?:the|these|those|all|my|his|her|their|following|above|previous) $"
    r"|\b(?:paragraphs?|sentences?|lines?|bullets?|items?|stanzas?|verses?|chapters?|names?|titles?)(?: (?:must|should|may|can|will|have|has|be|is|are|of|that|which|with))* $",
    re.IGNORECASE,
)
_PART_AFTER = re.compile(
    r" ?(?:each|per|apiece|of (?:the|this|that) (?:text|article|passage|story|paper))\b", re.IGNORECASE
)


def _is_about_parts(zone: str, match: re.Match[str]) -> bool:
    """Whether a count is about parts of the answer ("each bullet under 20 words") or about given material."""
    before = zone[max(0, match.start() - 48) : match.start()]
    return bool(_PART_BEFORE.search(before) or _PART_AFTER.match(zone[match.end() :]))


_N = r"(\d{1,3}(?:,\d{3})?|\d{1,5}|" + "|".join(sorted(NUMBER_WORDS, key=len, reverse=True)) + "|a single|single)"
_LISTED = (
    "bullet points|bullets|bulleted points|items|points|steps|tips|examples|ways|ideas|reasons|suggestions|options|facts|questions|"
    "titles|names|headlines|headings|examples|recommendations|strategies|methods|benefits|advantages|disadvantages|features|topics|"
    "slogans|captions|books|movies|songs|podcasts|websites|quotes|jokes|keywords|hashtags|tweets|sentences that|variations|alternatives|"
    "synonyms|things|activities|exercises|recipes|places|countries|cities|companies|tools|rules|principles|challenges|factors|causes|"
    "effects|differences|similarities|key points|takeaways|interview questions|objectives|goals|skills|adjectives|verbs|nouns|use cases"
)
_UNIT = rf"(words?|sentences?|paragraphs?|characters?|lines?|{_LISTED})"
_UNITS = {
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
    return lowered if lowered in _UNITS.values() else _UNITS.get(lowered, "items")


def _most(match: re.Match[str], less: int = 0) -> Iterator[Check]:
    unit = _unit(match[2])
    if unit in _BOUNDED:
        yield Check.of(f"max_{unit}", n=_number(match[1]) - less)


def _fewer(match: re.Match[str]) -> Iterator[Check]:
    yield from _most(match, less=1)


def _least(match: re.Match[str]) -> Iterator[Check]:
    unit = _unit(match[2])
    if unit in _BOUNDED:
        yield Check.of(f"min_{unit}", n=_number(match[1]))


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


def _fixed(name: str, **args: CheckValue) -> Callable[[re.Match[str]], Iterator[Check]]:
    def make(_: re.Match[str]) -> Iterator[Check]:
        yield Check.of(name, **args)

    return make


def _phrase(name: str, key: str = "text") -> Callable[[re.Match[str]], Iterator[Check]]:
    def make(match: re.Match[str]) -> Iterator[Check]:
        phrase = _clean(match[1])
        if phrase:
            yield Check.of(name, **{key: phrase})

    return make


def _clean(phrase: str) -> str:
    return " ".join(phrase.strip(" .,;:!?\x00").split())[:MAX_PHRASE_CHARS].replace('"', "")


def _word_list(name: str) -> Callable[[re.Match[str]], Iterator[Check]]:
    def make(match: re.Match[str]) -> Iterator[Check]:
        words = tuple(dict.fromkeys(filter(None, map(_clean, _split_words(match[1])))))
        if words and all(len(word.split()) <= 8 for word in words):
            yield Check.of(name, words=words)

    return make


def _mentions(match: re.Match[str]) -> Iterator[Check]:
    words = tuple(filter(None, (_clean(group or "") for group in match.groups())))
    if words:
        yield Check.of("avoids_words", words=words)


def _split_words(text: str) -> list[str]:
    quoted = re.findall(r"""["']([^"'\x00]{1,80})["']""", text)
    return quoted or re.split(r",| and | or |/|\[|\]", text)


def _times(match: re.Match[str]) -> Iterator[Check]:
    word = _clean(match[1].strip("\"'"))
    if word:
        name = "limits_word" if re.search("most|more than|less|fewer", match[2] or "", re.IGNORECASE) else "uses_word"
        yield Check.of(name, word=word, n=_number(match[3]) - (1 if re.search("less|fewer", match[2] or "") else 0))


def _letters(match: re.Match[str]) -> Iterator[Check]:
    yield Check.of("uses_letter", letter=match[1], n=_number(match[3]))


_CODES = {label.lower(): code for code, label in LANGUAGES.items()} | {
    "mandarin": "zh",
    "farsi": "fa",
    "filipino": "tl",
}
_LANGUAGE = "|".join(sorted(_CODES, key=len, reverse=True))


def _language(match: re.Match[str]) -> Iterator[Check]:
    is_translation = re.search(r"translat|convert|how do you", match[0], re.IGNORECASE)
    yield Check.of("contains_language" if is_translation else "in_language", language=_CODES[match[1].lower()])


def _code_language(text: str) -> Iterator[Check]:
    view = TextView(text[: 2 * EDGE_CHARS])
    language = asked_code_language(view) if wants_code(view) else None
    if language and re.search(
        rf"\b(?:in|using|with) {re.escape(CODE_LANGUAGES[language])}(?!\w)", view.text, re.IGNORECASE
    ):
        yield Check.of("code_in", language=language)


def _rule(pattern: str, make: Callable[[re.Match[str]], Iterator[Check]], *, guarded: bool = False) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), make, guarded)


_QUOTED = r"""["']([^"\x00]{1,160}?)["']"""
_SAY = r"(?:write|respond|reply|answer|speak|translate|translated|say|output|explain|give|provide|rewrite|summari[sz]e|response|convert)"
_NOT = r"(?:do not|don't|never|without|avoid|must not|should not|shouldn't|cannot|can't|refrain from|exclude)"
_USE = r"(?:(?:ever )?(?:use|using|mention|mentioning|include|including|say|saying|contain|containing|writing|having|add|adding)(?: of)? )?"

_NO = r"\b(?:no|without|avoid|refrain from|do not|don't|not|never)(?: (?:use|using|contain|include|containing|including|the use of|have))?(?: of)?(?: any)?"

_RULES = (
    _rule(rf"\bbetween {_N}(?: \w+)? (?:and|to) {_N}[ -]{_UNIT}\b", _between, guarded=True),
    _rule(rf"\b{_N} ?(?:-|to) ?{_N}[ -]{_UNIT}\b", _between, guarded=True),
    _rule(
        rf"\b(?:no|not|n't|never)(?: \w+){{0,4}} (?:more than|over|exceed(?:ing)?|longer than|above) {_N}[ -]{_UNIT}\b",
        _most,
    ),
    _rule(
        rf"\b(?:at most|up to|(?:a )?max(?:imum)?(?: of)?|within|not exceeding|limit(?:ed)?(?: \w+){{0,4}} to|cap(?:ped)? at) {_N}[ -]{_UNIT}\b",
        _most,
        guarded=True,
    ),
    _rule(rf"\b{_N}[ -]{_UNIT} (?:or (?:less|fewer)|max(?:imum)?|at most|limit|tops)\b", _most, guarded=True),
    _rule(rf"\b(?:under|below|less than|fewer than|shorter than) {_N}[ -]{_UNIT}\b", _fewer, guarded=True),
    _rule(
        rf"\b(?:at least|(?:a )?min(?:imum)?(?: of)?|no (?:less|fewer) than|not (?:less|fewer) than) {_N}[ -]{_UNIT}\b",
        _least,
        guarded=True,
    ),
    _rule(rf"\b(?:more than|over|longer than) {_N}[ -]{_UNIT}\b", _least, guarded=True),
    _rule(rf"\b{_N}\+? (?:or more )?{_UNIT} (?:or more|minimum|at least)\b", _least, guarded=True),
    _rule(rf"\bexactly {_N}[ -]{_UNIT}\b", _exactly, guarded=True),
    _rule(
        rf"\b(?:use|using|with|in|as|give|write|list|provide|into)(?: \w+){{0,2}}? (?:{_N} )(?:short |concise |key |brief )?bullet(?:ed)?(?: ?-?points?|s)\b",
        _bullets,
    ),
    _rule(rf"\b(?:about|around|approximately|approx\.?|roughly|circa|~) ?{_N}[ -]{_UNIT}\b", _about, guarded=True),
    _rule(
        rf"\b(?:in|with|using|of|only|just|be|into|to|write|containing) (?:only |just |about |around )?{_N}[ -](words?|sentences?|paragraphs?|lines?)\b",
        _about,
        guarded=True,
    ),
    _rule(
        rf"\b{_N}[ -](word|sentence|paragraph|line)s?\b (?:\w+ ){{0,2}}(?:essay|story|summary|paragraph|article|description|response|answer|poem|post|blog|report|explanation|review|email|bio|speech|introduction|overview)",
        _about,
        guarded=True,
    ),
    _rule(
        r"\b(?:list|give|name|provide|write|suggest|generate|tell|share|recommend|create|propose|come up with|make|show|what are|describe|top|best|show me)(?: me| us)?"
        rf"(?: a list of| an? )?(?: the)?(?: top| best| at)? {_N} (?:[\w-]+ ){{0,3}}?(?:{_LISTED})\b",
        _listing,
    ),
    _rule(
        r"\b(?:in|as|using|use|with|into)(?: \w+){0,2}? ()(?:bullet(?:ed)?[ -]?(?:points?|lists?|form|format|style)?s?)\b",
        _bullets,
    ),
    _rule(
        r"\b(?:in|as|using|use|with|into)(?: \w+){0,2}? (?:numbered|ordered) (?:list|points|steps)\b",
        _fixed("numbered_list"),
    ),
    _rule(
        r"\b(?:in|as|into|using|create|make|draw|generate|give me|with|build)(?: \w+)? (?:a |an )?(?:\w+ )?(?:tables?(?: format| form)?|tabular (?:form|format))\b(?! of contents| lamp| tennis)",
        _fixed("table"),
    ),
    _rule(
        r"\b(?:in|as|return|output|respond with|reply with|using|valid)(?: only)?(?: a| an| valid)? json\b(?: format| object| array| only)?",
        lambda match: _json(match),
    ),
    _rule(
        rf"\b{_SAY}\b[^.?!\x00]{{0,90}}?\b(?:in|into|to) (?:the )?({_LANGUAGE})\b(?! (?:class|speaker|people|learner|history|culture))(?!,? (?:and |or )?(?:{_LANGUAGE})\b)",
        _language,
    ),
    _rule(
        r"\b(?:answer|respond|reply|say)(?: only| just)?(?: with)?(?: a)?(?: simple)? [\"']?yes[\"']? or [\"']?no[\"']?\b",
        _fixed("yes_or_no"),
    ),
    _rule(
        r"\b(?:all|only|entirely in|in)(?: \w+){0,2}? (?:lowercase|lower case|lower-case)\b|\bno capital letters\b",
        _fixed("all_lowercase"),
    ),
    _rule(
        r"\b(?:in|using|use)(?: \w+){0,3}? (?:all caps|all capital letters|all uppercase|only capital letters|capital letters only|upper ?case letters)\b",
        _fixed("all_uppercase"),
    ),
    _rule(r"\bend(?:s|ing)?\b(?: \w+){0,4}? with a question\b(?! mark)", _fixed("ends_with_question")),
    _rule(
        rf"\b(?:start|begin)(?:s|ning|ing)?\b(?: [\w']+){{0,5}}? with(?: the)?(?: exact)?(?: word| words| phrase| sentence| letter| line| text)?:? {_QUOTED}",
        _phrase("starts_with"),
        guarded=True,
    ),
    _rule(
        r"\b(?:start|begin)(?:s|ning|ing)?\b(?: [\w']+){0,5}? with the (?:word|phrase) (\w[\w'-]{0,40})",
        _phrase("starts_with"),
        guarded=True,
    ),
    _rule(
        rf"\b(?:end|finish|conclude|close)(?:s|ing)?\b(?: [\w']+){{0,5}}? with(?: the| this)?(?: exact)?(?: word| words| phrase| sentence| line| text)?:? {_QUOTED}",
        _phrase("ends_with"),
        guarded=True,
    ),
    _rule(
        r"\b(?:end|finish)(?:s|ing)?\b(?: [\w']+){0,5}? with the (?:word|phrase) (\w[\w'-]{0,40})",
        _phrase("ends_with"),
        guarded=True,
    ),
    _rule(
        rf"\b(?:use|include|mention|contain|repeat)(?: the)? (?:word|phrase|keyword|name) ([\"'][^\"'\x00]{{1,60}}[\"']|[\w-]{{1,30}})(?: \w+){{0,2}}? (at least|at most|no more than|less than|fewer than|exactly)? ?{_N} times?\b",
        _times,
    ),
    _rule(
        rf"\b{_NOT} {_USE}(?:any )?(?:the )?(?:following )?(?:words?|phrases?|terms?|keywords?|names?)(?: such as| like)?:? ((?:[\"'\[]|\w)[^.?!;\x00]{{0,160}})",
        _word_list("avoids_words"),
    ),
    _rule(
        rf"\b(?:do not|don't|never|without|avoid|must not|should not) (?:mention|mentioning|include|including|use|using|say|saying) {_QUOTED}",
        _word_list("avoids_words"),
    ),
    _rule(
        r"\b(?:do not|don't|never|without|avoid) mention(?:ing)? (?:the |any |of )?((?!that\b|how\b|what\b|it\b|this\b|anything\b|your|you\b|i\b|yourself)[a-z][\w'-]{2,30}(?: [\w'-]{2,30})?)(?= ?[.,;!?\x00]| and | or |$)(?:(?:,| and| or) ([a-z][\w'-]{2,30})(?= ?[.,;!?\x00]|$))?",
        _mentions,
    ),
    _rule(
        r"\b(?:include|use|mention|contain|containing|including|using|incorporate)s?(?: all)?(?: of)? (?:the )?(?:following )?(?:words?|phrases?|terms?|keywords?)(?: such as| like)?:? ((?:[\"'\[])[^.?!;\x00]{1,200}|(?:[\w-]+(?:, (?:and |or )?| and | or )){1,9}[\w-]+)",
        _word_list("includes_words"),
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
        lambda match: _counted("min_highlights", match),
    ),
    _rule(rf"\bletter [\"']?(\w)[\"']?(?: \w+){{0,3}}? (at least) {_N} times?\b", _letters),
    _rule(rf"\bat least {_N} placeholders?\b", lambda match: _counted("min_placeholders", match)),
    _rule(
        r"\b(?:add|include|end with|write)\b[^.\x00]{0,40}? (?:postscript|p\.s\.)",
        _fixed("includes_words", words=("P.S.",)),
    ),
    _rule(
        r"\bseparated? (?:them )?(?:by|with|using)(?: the)?[ \w]{0,30}?:? ([*\-=#]{3,10})(?![*\-=#])",
        _phrase("separated_by"),
    ),
    _rule(r"\b(?:first )?repeat (?:the|this|my) (?:request|question|prompt|sentence)\b", _fixed("restates_question")),
    _rule(
        r"\b(?:with|use|using|include|add)(?: \w+){0,2}? (?:headings|headers|subheadings|section titles)\b",
        _fixed("headings"),
    ),
    _rule(r"\bstep[ -]by[ -]step\b", _fixed("gives_steps")),
    _rule(
        r"\b(?:give|with|provide|include|show)(?: me)?(?: an?| some| any| concrete| specific)* examples?\b",
        _fixed("gives_example"),
    ),
    _rule(
        r"\b(?:cite|provide|include|with)(?: your| the| some)?(?: \w+)? (?:sources?|references|citations)\b",
        _fixed("names_source"),
    ),
    _rule(
        r"\b(?:write|speak|told|tell|written)\b[^.\x00]{0,40}? in (?:the )?first[ -]person\b", _fixed("first_person")
    ),
)


def _json(match: re.Match[str]) -> Iterator[Check]:
    """A wish for JSON is for the answer itself unless a program is to write it."""
    if not wants_code(TextView(match.string)):
        yield Check.of("json_only")


def _counted(name: str, match: re.Match[str]) -> Iterator[Check]:
    yield Check.of(name, n=_number(match[1]))
