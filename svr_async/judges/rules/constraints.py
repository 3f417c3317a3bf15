"""Reads explicit constraints out of a prompt ("in three bullet points", "under 100 words", "as JSON") as checks.

Only the last user turn is read, and of that only the parts where instructions stand: all of a short turn, the first
and last three sentences of a long one. Quoted passages, code, block quotes, and the text after a lead such as
"Summarize the following text:" are left out as pasted material. So some constraints are missed, but few are invented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.judges.rules.code import CODE_LANGUAGES, asked_code_language, wants_code
from svr_async.judges.rules.language import LANGUAGES
from svr_async.judges.rules.registry import problem_with, rubric_for
from svr_async.judges.rules.spec import MAX_PHRASE_CHARS, NUMBER_WORDS, read_number
from svr_async.judges.rules.text import TextView, sentences_of

MAX_CONSTRAINTS = 12
SHORT_TURN_WORDS = 150
EDGE_CHARS = 3_000
EDGE_SENTENCES = 3
GUARD_CHARS = 48
TOLERANCE = 0.2
"""A text "of 300 words" may be a fifth longer or shorter."""

Make = Callable[[re.Match[str]], Iterable[Check]]


class Rule(NamedTuple):
    """A pattern over the instructions of a prompt, and the checks that a match means.

    A `guarded` rule does not apply to parts of the answer or of given material ("each bullet …", "the 3 paragraphs").
    """

    pattern: re.Pattern[str]
    make: Make
    guarded: bool


def _rule(pattern: str, make: Make | str, *, guarded: bool = False) -> Rule:
    """Compile a rule; in place of `make` stands the name of a check without arguments."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return Rule(compiled, (lambda _: [Check.of(make)]) if isinstance(make, str) else make, guarded)


def _guarded(pattern: str, make: Make) -> Rule:
    return _rule(pattern, make, guarded=True)


# ── from a match to checks ───────────────────────────────────────────────────────────────────────────────────────────

_UNITS = frozenset(("words", "sentences", "paragraphs", "characters", "lines"))


def _number(text: str) -> int:
    return 1 if text.lower() in ("a single", "single") else read_number(text)


def _unit(text: str) -> str:
    plural = text.lower().removesuffix("s") + "s"
    return plural if plural in _UNITS else "items"


def _bounded(kind: str, shift: int = 0) -> Make:
    def make(match: re.Match[str]) -> Iterator[Check]:
        if _unit(match[2]) != "lines":
            yield Check.of(f"{kind}_{_unit(match[2])}", n=_number(match[1]) + shift)

    return make


def _between(match: re.Match[str]) -> Iterator[Check]:
    low, high, unit = _number(match[1]), _number(match[2]), _unit(match[3])
    if unit == "words":
        yield Check.of("words_between", low=low, high=high)
    elif unit != "lines":
        yield Check.of(f"min_{unit}", n=low)
        yield Check.of(f"max_{unit}", n=high)


def _exact(tolerance: float) -> Make:
    """Read a number of words with a tolerance from six words on, and all other numbers exactly."""

    def make(match: re.Match[str]) -> Iterator[Check]:
        n, unit = _number(match[1]), _unit(match[2])
        if unit == "words" and tolerance and n > 5:
            yield Check.of("words_between", low=round(n * (1 - tolerance)), high=round(n * (1 + tolerance)))
        elif unit != "characters":
            yield Check.of(f"exact_{unit}", n=n)

    return make


def _listing(match: re.Match[str]) -> Iterator[Check]:
    if 2 <= _number(match[1]) <= 60:
        yield Check.of("exact_items", n=_number(match[1]))


def _bullets(match: re.Match[str]) -> Iterator[Check]:
    yield Check.of("bullet_list")
    if match[1]:
        yield Check.of("exact_items", n=_number(match[1]))


def _counted(name: str) -> Make:
    return lambda match: [Check.of(name, n=_number(match[1]))]


def _phrase(name: str) -> Make:
    return lambda match: [Check.of(name, text=text) for text in map(_clean, match.groups("")) if text]


def _words(name: str) -> Make:
    """Read a list of words: those in quotes if there are any, else parts between commas, "and" and "or"."""

    def make(match: re.Match[str]) -> Iterator[Check]:
        text = " or ".join(filter(None, match.groups()))
        parts = re.findall(r"""["']([^"'\x00]{1,80})["']""", text) or re.split(r",| and | or |/|\[|\]", text)
        words = tuple(dict.fromkeys(filter(None, map(_clean, parts))))
        if words and all(len(word.split()) <= 8 for word in words):
            yield Check.of(name, words=words)

    return make


def _clean(phrase: str) -> str:
    return " ".join(phrase.strip(" .,;:!?\x00").split())[:MAX_PHRASE_CHARS].replace('"', "").strip()


def _times(match: re.Match[str]) -> Iterator[Check]:
    """Read "use the word "x" at least 3 times"; a number without a bound is a minimum."""
    word, bound, n = _clean(match[1].strip("\"'")), (match[2] or "").lower(), _number(match[3])
    if word and bound in ("at most", "no more than", "less than", "fewer than"):
        yield Check.of("limits_word", word=word, n=n - bound.endswith(("less than", "fewer than")))
    elif word:
        yield Check.of("uses_word", word=word, n=n)


def _language(match: re.Match[str]) -> Iterator[Check]:
    """A translation must contain the language, since other text may introduce it; other answers are written in it."""
    is_translation = re.search(r"translat|convert|how do you", match[0], re.IGNORECASE)
    yield Check.of("contains_language" if is_translation else "in_language", language=_CODES[match[1].lower()])


def _json(match: re.Match[str]) -> Iterator[Check]:
    """JSON is asked of the answer itself unless a program is to write it."""
    if not wants_code(TextView(match.string)):
        yield Check.of("json_only")


# ── how people state constraints ─────────────────────────────────────────────────────────────────────────────────────

_N = rf"(\d{{1,3}}(?:,\d{{3}})?|\d{{1,5}}|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))}|a single|single)"
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
_CODES = {label.lower(): code for code, label in LANGUAGES.items()} | {
    "mandarin": "zh",
    "farsi": "fa",
    "filipino": "tl",
}
_LANGUAGE = "|".join(sorted(_CODES, key=len, reverse=True))
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
_IN = "in|as|using|use|with|into"
_INCLUDE = r"\b(?:include|use|mention|contain|containing|including|using|incorporate)s?(?: all)?(?: of)? (?:the )?"
_TERMS = r"(?:following )?(?:words?|phrases?|terms?|keywords?)(?: such as| like)?:?"
_WITH_TEXT = (
    r"(?: [\w']+){0,5}? with(?:(?: the| this)?(?: exact)?(?: words?| phrase| sentence| letter| line| text)?:? "
    rf"{_QUOTED}| the (?:word|phrase) (\w[\w'-]{{0,40}}))"
)
_TEXT_KIND = (
    "essay|story|summary|article|description|response|answer|poem|post|blog|report|explanation|review|email|bio|"
    "speech|introduction|overview"
)
_LIST_VERB = (
    r"\b(?:list|give|name|provide|write|suggest|generate|tell|share|recommend|create|propose|come up with|make|show|"
    r"what are|describe|top|best)(?: me| us)?(?: a list of| an? )?(?: the)?(?: top| best| at)? "
)
RULES = (
    _guarded(rf"\bbetween {_N}(?: \w+)? (?:and|to) {_N_UNIT}", _between),
    _guarded(rf"\b{_N} ?(?:-|to) ?{_N_UNIT}", _between),
    _rule(
        rf"\b(?:no|not|n't|never)(?: \w+){{0,4}} (?:more than|over|exceed(?:ing)?|longer than|above) {_N_UNIT}",
        _bounded("max"),
    ),
    _guarded(
        r"\b(?:at most|up to|(?:a )?max(?:imum)?(?: of)?|within|cap(?:ped)? at|limit(?:ed)?(?: \w+){0,4} to)"
        rf" {_N_UNIT}",
        _bounded("max"),
    ),
    _guarded(rf"\b{_N_UNIT} (?:or (?:less|fewer)|max(?:imum)?|at most|limit|tops)\b", _bounded("max")),
    _guarded(rf"\b(?:under|below|less than|fewer than|shorter than) {_N_UNIT}", _bounded("max", -1)),
    _guarded(rf"\b(?:at least|(?:a )?min(?:imum)?(?: of)?|(?:no|not) (?:less|fewer) than) {_N_UNIT}", _bounded("min")),
    _guarded(rf"\b(?:more than|over|longer than) {_N_UNIT}", _bounded("min", 1)),
    _guarded(rf"\b{_N}(?:\+| or more) {_UNIT}\b", _bounded("min")),
    _guarded(rf"\b{_N_UNIT} (?:or more|minimum|at least)\b", _bounded("min")),
    _guarded(rf"\bexactly {_N_UNIT}", _exact(0)),
    _rule(
        rf"\b(?:{_IN})(?: \w+){{0,2}}? (?:{_N} )?(?:short |concise |key |brief )?"
        r"bullet(?:ed)?(?:[ -]{0,2}(?:points?|lists?|form|format|style))?s?\b",
        _bullets,
    ),
    _guarded(rf"\b(?:about|around|approximately|approx\.?|roughly|circa|~) ?{_N_UNIT}", _exact(TOLERANCE)),
    _guarded(
        r"\b(?:in|with|using|of|only|just|be|into|to|write|containing) (?:only |just |about |around )?"
        rf"{_N}[ -](words?|sentences?|paragraphs?|lines?)\b",
        _exact(TOLERANCE),
    ),
    _guarded(rf"\b{_N}[ -](word|sentence|paragraph|line)s?\b (?:\w+ ){{0,2}}(?:{_TEXT_KIND})", _exact(TOLERANCE)),
    _rule(rf"{_LIST_VERB}{_N} (?:[\w-]+ ){{0,3}}?(?:{_LISTED})\b", _listing),
    _rule(rf"\b(?:{_IN})(?: \w+){{0,2}}? (?:numbered|ordered) (?:list|points|steps)\b", "numbered_list"),
    _rule(
        r"\b(?:in|as|into|using|create|make|draw|generate|give me|with|build)(?: \w+)? (?:a |an )?(?:\w+ )?"
        r"(?:tables?(?: format| form)?|tabular (?:form|format))\b(?! of contents| lamp| tennis)",
        "table",
    ),
    _rule(r"\b(?:in|as|return|output|respond with|reply with|using|valid)(?: only)?(?: an?| valid)? json\b", _json),
    _rule(r"\b(?:all|only|entirely in|in)(?: \w+){0,2}? lower[- ]?case\b|\bno capital letters\b", "all_lowercase"),
    _rule(
        r"\b(?:in|using|use)(?: \w+){0,3}? (?:all caps|all capital letters|all uppercase|only capital letters"
        r"|capital letters only|upper ?case letters)\b",
        "all_uppercase",
    ),
    _rule(rf"{_NO} commas\b", "no_commas"),
    _rule(rf"{_NO} emojis?\b", "no_emoji"),
    _rule(rf"{_NO} (?:bullet points|bullets|bulleted lists?|lists)\b", "no_bullet_list"),
    _rule(rf"{_NO} markdown\b|\bin plain text\b", "plain_text"),
    _rule(rf"{_NO} exclamation (?:marks|points)\b", "no_exclamation_marks"),
    _rule(rf"{_NO} contractions\b", "no_contractions"),
    _rule(
        r"\b(?:wrap|put|enclose|surround)\b[^.\x00]{0,60}? (?:in|with|inside) double quot(?:ation marks|es)\b",
        "in_quotes",
    ),
    _rule(r"\bdouble (?:angular|angle) brackets\b", "bracketed_title"),
    _rule(
        rf"\b(?:highlight|italicize)\b(?: at least)? {_N} (?:sections?|passages?|parts?|phrases?|words?)",
        _counted("min_highlights"),
    ),
    _rule(rf"\bat least {_N} placeholders?\b", _counted("min_placeholders")),
    _rule(
        r"\bseparated? (?:them )?(?:by|with|using)(?: the)?[ \w]{0,30}?:? ([*\-=#]{3,10})(?![*\-=#])",
        _phrase("separated_by"),
    ),
    _rule(r"\b(?:with|use|using|include|add)(?: \w+){0,2}? (?:sub)?(?:headings|headers)\b", "headings"),
    _rule(
        rf"{_SAY}\b(?:in|into|to) (?:the )?({_LANGUAGE})\b(?! (?:class|speaker|people|learner|history|culture))"
        rf"(?!,? (?:and |or )?(?:{_LANGUAGE})\b)",
        _language,
    ),
    _rule(
        r"\b(?:answer|respond|reply|say)(?: only| just)?(?: with)?(?: a)?(?: simple)? [\"']?yes[\"']? or [\"']?no\b",
        "yes_or_no",
    ),
    _rule(r"\bend(?:s|ing)?\b(?: \w+){0,4}? with a question\b(?! mark)", "ends_with_question"),
    _guarded(rf"\b(?:start|begin)(?:s|ning|ing)?\b{_WITH_TEXT}", _phrase("starts_with")),
    _guarded(rf"\b(?:end|finish|conclude|close)(?:s|ing)?\b{_WITH_TEXT}", _phrase("ends_with")),
    _rule(
        r"\b(?:use|include|mention|contain|repeat)(?: the)? (?:word|phrase|keyword|name) "
        r"([\"'][^\"'\x00]{1,60}[\"']|[\w-]{1,30})(?: \w+){0,2}? "
        rf"(at least|at most|no more than|less than|fewer than|exactly)? ?{_N} times?\b",
        _times,
    ),
    _rule(
        rf"\bletter [\"']?(\w)[\"']?(?: \w+){{0,3}}? at least {_N} times?\b",
        lambda match: [Check.of("uses_letter", letter=match[1], n=_number(match[2]))],
    ),
    _rule(rf"{_NOT}{_USE} (?:any )?(?:the )?{_TERMS} ((?:[\"'\[]|\w)[^.?!;\x00]{{0,160}})", _words("avoids_words")),
    _rule(
        r"\b(?:do not|don't|never|without|avoid|must not|should not) "
        rf"(?:mention|mentioning|include|including|use|using|say|saying) {_QUOTED}",
        _words("avoids_words"),
    ),
    _rule(
        r"\b(?:do not|don't|never|without|avoid) mention(?:ing)? (?:the |any |of )?"
        r"((?!that\b|how\b|what\b|it\b|this\b|anything\b|your|you\b|i\b)[a-z][\w'-]{2,30}(?: [\w'-]{2,30})?)"
        r"(?= ?[.,;!?\x00]| and | or |$)(?:(?:,| and| or) ([a-z][\w'-]{2,30})(?= ?[.,;!?\x00]|$))?",
        _words("avoids_words"),
    ),
    _rule(
        rf"{_INCLUDE}{_TERMS} ([\"'\[][^.?!;\x00]{{1,200}}|(?:[\w-]+(?:, (?:and |or )?| and | or )){{1,9}}[\w-]+)",
        _words("includes_words"),
    ),
    _rule(
        r"\b(?:add|include|end with|write)\b[^.\x00]{0,40}? (?:postscript|p\.s\.)",
        lambda _: [Check.of("includes_words", words=("P.S.",))],
    ),
    _rule(r"\brepeat (?:the|this|my) (?:request|question|prompt|sentence)\b", "restates_question"),
    _rule(r"\bstep[ -]by[ -]step\b", "gives_steps"),
    _rule(
        r"\b(?:give|with|provide|include|show)(?: me)?(?: an?| some| any| concrete| specific){0,2} examples?\b",
        "gives_example",
    ),
    _rule(
        r"\b(?:cite|provide|include|with)(?: your| the| some)?(?: \w+)? (?:sources?|references|citations)\b",
        "names_source",
    ),
    _rule(r"\b(?:write|speak|told|tell|written)\b[^.\x00]{0,40}? in (?:the )?first[ -]person\b", "first_person"),
)
"""Applied in this order. Text that one rule matched is hidden from the rules after it."""


# ── reading a prompt ─────────────────────────────────────────────────────────────────────────────────────────────────

_STRAIGHT = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-", "\x00": " "}
)
_FENCE = re.compile(r"```(?:[^`]|`(?!``))*+(?:```)?+")
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,8}>.*$", re.MULTILINE)
_LONG_QUOTE = re.compile(r'"[^"]{60,}+"')
_PASTED = re.compile(
    r"\b(?:following|this|these|below|above|given|provided|translate|summari[sz]e|rewrite|rephrase|paraphrase|"
    r"proofread|correct|edit|improve|revise|analy[sz]e|grammar)\b[^\n]{0,160}:[ \t]*\n",
    re.IGNORECASE,
)
_OF_EACH = re.compile(
    r"\b(?:each|every|per)\b[^.\x00]{0,24}$"
    r"|\b(?:the|these|those|all|my|his|her|their|following|above|previous) $"
    r"|\b(?:paragraphs?|sentences?|lines?|bullets?|items?|stanzas?|verses?|chapters?|names?|titles?)"
    r"(?: (?:must|should|may|can|will|have|has|be|is|are|of|that|which|with)){0,3} $",
    re.IGNORECASE,
)
_APIECE = re.compile(
    r" ?(?:each|per|apiece|of (?:the|this|that) (?:text|article|passage|story|paper))\b", re.IGNORECASE
)


def prompt_constraints(prompt: Prompt) -> tuple[Rubric, ...]:
    """Return the constraints of a conversation's last user turn."""
    return constraints_in(last_user_turn(prompt))


def last_user_turn(prompt: Prompt) -> str:
    """Return the content of the last user turn, or of the last turn without a user; empty without turns."""
    said = [turn.content for turn in prompt if turn.role == "user"] or [turn.content for turn in prompt]
    return said[-1] if said else ""


@lru_cache(maxsize=512)
def constraints_in(text: str) -> tuple[Rubric, ...]:
    """Return the constraints of one user turn as rubrics with checks, in the order of the rules, at most twelve."""
    zone = instruction_zone(text)
    found: dict[Check, None] = {}
    for rule in RULES:
        checks, zone = _apply(rule, zone)
        found.update(dict.fromkeys(checks))
    found.update(dict.fromkeys(_code_language(text)))
    return tuple(rubric_for(check) for check in found if not problem_with(check))[:MAX_CONSTRAINTS]


def _apply(rule: Rule, zone: str) -> tuple[list[Check], str]:
    """Return the checks that a rule finds, and the zone with its matches hidden from the rules after it."""
    checks: list[Check] = []
    for match in list(rule.pattern.finditer(zone)):
        before = zone[max(0, match.start() - GUARD_CHARS) : match.start()]
        if rule.guarded and (_OF_EACH.search(before) or _APIECE.match(zone[match.end() :])):
            continue
        checks.extend(rule.make(match))
        zone = zone[: match.start()] + "\x00" * (match.end() - match.start()) + zone[match.end() :]
    return checks, zone


def _code_language(text: str) -> tuple[Check, ...]:
    """Read "in Python" where code is asked for."""
    view = TextView(text[: 2 * EDGE_CHARS])
    language = asked_code_language(view) if wants_code(view) else None
    if language is None:
        return ()
    said = re.search(rf"\b(?:in|using|with) {re.escape(CODE_LANGUAGES[language])}(?!\w)", view.text, re.IGNORECASE)
    return (Check.of("code_in", language=language),) if said else ()


def instruction_zone(text: str) -> str:
    """Return the part of a user turn where instructions stand, with straight quotes and single spaces."""
    if len(text) > 2 * EDGE_CHARS:
        text = f"{text[:EDGE_CHARS]}\n\n{text[-EDGE_CHARS:]}"
    bare = _BLOCK_QUOTE.sub(" ", _FENCE.sub(" ", text.translate(_STRAIGHT)))
    bare = _LONG_QUOTE.sub(' "" ', _without_pasted(bare))
    sentences = sentences_of(bare)
    if len(bare.split()) > SHORT_TURN_WORDS:
        sentences = sentences[:EDGE_SENTENCES] + sentences[EDGE_SENTENCES:][-EDGE_SENTENCES:]
    return " ".join(" . ".join(sentences).split())


def _without_pasted(text: str) -> str:
    """Cut what follows a lead such as "Rewrite this text:"; a last paragraph after at least two others is kept."""
    match = _PASTED.search(text)
    if match is None:
        return text
    after = [part for part in re.split(r"\n[ \t]*+\n", text[match.end() :]) if part.strip()]
    return text[: match.end()] + ("\n" + after[-1] if len(after) > 2 else "")
