"""Explicit constraints read out of a prompt ("in three bullet points", "under 100 words", "as JSON") as checks.

Only what the user says in the last turn is read, and of that only where instructions stand: all of a short turn, the
first and the last three sentences of a long one. Quoted passages, code, block quotes, and what follows a lead such as
"Summarize the following text:" are taken for pasted material and left out. Some constraints are missed for it, but few
are invented.
"""

from __future__ import annotations

import re
from functools import lru_cache

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.judges.rules.constraint_rules import RULES, Rule
from svr_async.judges.rules.intent import asked_code_language, wants_code
from svr_async.judges.rules.lexicon import CODE_LANGUAGES
from svr_async.judges.rules.registry import problem_with, rubric_for
from svr_async.judges.rules.text import TextView, sentences_of

MAX_CONSTRAINTS = 12
SHORT_TURN_WORDS = 150
EDGE_CHARS = 3_000
EDGE_SENTENCES = 3

_STRAIGHT = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-", "\x00": " "},
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
GUARD_CHARS = 48


def prompt_constraints(prompt: Prompt) -> tuple[Rubric, ...]:
    """Return the constraints of a conversation's last user turn."""
    return constraints_in(last_user_turn(prompt))


def last_user_turn(prompt: Prompt) -> str:
    """Return the content of the last user turn, or of the last turn where no user speaks; empty for no turn."""
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
    """Return the checks that a rule finds, and the zone with what it matched blanked out for the rules after it."""
    checks: list[Check] = []
    for match in list(rule.pattern.finditer(zone)):
        if rule.guarded and _is_about_parts(zone, match):
            continue
        checks.extend(rule.make(match))
        zone = zone[: match.start()] + "\x00" * (match.end() - match.start()) + zone[match.end() :]
    return checks, zone


def _is_about_parts(zone: str, match: re.Match[str]) -> bool:
    """Whether a count is about parts of the answer ("each bullet under 20 words") or about given material."""
    before = zone[max(0, match.start() - GUARD_CHARS) : match.start()]
    return bool(_OF_EACH.search(before) or _APIECE.match(zone[match.end() :]))


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
