"""What a prompt asks for, as far as words show it: code, a choice, comfort, its key words."""

from __future__ import annotations

import re
from collections import Counter

from svr_async.judges.rules.lexicon import CODE_LANGUAGES, DISTRESS, FEELINGS, STOPWORDS
from svr_async.judges.rules.text import TextView, kept

MAX_KEYWORDS = 40
_CODE_NOUNS = (
    " code", " function", " script", " program", " implement", " debug", " refactor", " regex", " query", " class ",
    " snippet", " algorithm", " unit test", " html page", " stylesheet", " macro", " compile", " web app",
)  # fmt: skip
_CODE_VERBS = (
    " write ",
    " create ",
    " give me",
    " generate ",
    " make ",
    " fix ",
    " show ",
    " rewrite",
    " convert ",
    " implement",
    " build ",
    " how ",
)
_OPTION = re.compile(r"^[ \t]{0,8}\(?([A-Ha-h])[.):][ \t]+\S", re.MULTILINE)
_NAMES = {label.lower(): tag for tag, label in CODE_LANGUAGES.items() if tag not in ("c", "r", "go", "swift", "json")}
_NAMED_LANGUAGE = re.compile(
    r"(?<![\w#+])("
    + "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
    + r"|golang)(?![A-Za-z_#+])",
    re.IGNORECASE,
)

_SUFFIXES = ("ing", "ed", "es", "s")


@kept
def wants_code(prompt: TextView) -> bool:
    """Whether a prompt asks for code: it names a programming language or a program, and asks to write or mend it."""
    if prompt.layout.code:
        return True
    text = prompt.head.plain
    named = any(word in text for word in _CODE_NOUNS) or asked_code_language(prompt) is not None
    return named and any(word in text for word in _CODE_VERBS)


@kept
def asked_code_language(prompt: TextView) -> str | None:
    """Return the one programming language that a prompt names; None for none or several."""
    named = {_NAMES.get(name.lower(), "go") for name in _NAMED_LANGUAGE.findall(prompt.head.text)}
    return named.pop() if len(named) == 1 else None


@kept
def offered_options(prompt: TextView) -> tuple[str, ...]:
    """Return the letters of a multiple-choice prompt's options, in capitals; empty if it is none."""
    letters = [letter.upper() for letter in _OPTION.findall(prompt.head.text)]
    expected = [chr(ord("A") + i) for i in range(len(letters))]
    return tuple(letters) if 2 <= len(letters) <= 8 and letters == expected else ()


@kept
def keywords(prompt: TextView) -> tuple[str, ...]:
    """Return a prompt's content words in order of first use, at most forty, without plural s."""
    counts = Counter(stem(word) for word in prompt.head.lower_words if len(word) > 2 and word not in STOPWORDS)
    return tuple(counts)[:MAX_KEYWORDS]


@kept
def stems(view: TextView) -> frozenset[str]:
    """Return the distinct stems of a text's words."""
    return frozenset(map(stem, view.head.vocabulary))


def stem(word: str) -> str:
    """Cut an English word's commonest endings: enough to match "risks" with "risk"."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def in_distress(prompt: TextView) -> bool:
    """Whether the user speaks of harming themselves or of despair."""
    return any(phrase in prompt.head.plain for phrase in DISTRESS)


def speaks_of_feelings(prompt: TextView) -> bool:
    """Whether the user tells how they feel."""
    return any(phrase in prompt.head.plain for phrase in FEELINGS)
