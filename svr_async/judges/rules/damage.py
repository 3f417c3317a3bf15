"""Deterministic damage: a copy of a good response that is worse in one way that a check can see.

It stands in for the adversarial probe where there is no model. Which damage is done depends on a hash of the pair's id
and on what the response offers: a list loses an item, code a bracket, a text its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from svr_async.core.pair import hashed_fraction

Damage = Callable[[str], str]
_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+\S[^\n]*\n?")
_NUMBER = re.compile(r"\d{1,9}")
_CODE_END = re.compile(r"[)\]}](?=\s*\n```)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def drop_an_item(text: str) -> str:
    """Take the last item out of a list of at least three."""
    items = list(_ITEM.finditer(text))
    return text[: items[-1].start()] + text[items[-1].end() :] if len(items) >= 3 else text


def change_a_number(text: str) -> str:
    """Make the last number one larger."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    last = found[-1]
    return f"{text[: last.start()]}{int(last[0]) + 1}{text[last.end() :]}"


def break_code(text: str) -> str:
    """Take the last closing bracket out of a code block."""
    found = list(_CODE_END.finditer(text))
    return text[: found[-1].start()] + text[found[-1].end() :] if found else text


def cut_short(text: str) -> str:
    """End in the middle of a sentence, about two thirds in."""
    words = text.split(" ")
    return " ".join(words[: 2 * len(words) // 3]).rstrip(" .!?\n") if len(words) >= 12 else text


def drop_the_end(text: str) -> str:
    """Take the last paragraph away."""
    paragraphs = text.rstrip().split("\n\n")
    return "\n\n".join(paragraphs[:-1]) if len(paragraphs) >= 3 else text


def repeat_itself(text: str) -> str:
    """Say the first sentences again at the end."""
    sentences = _SENTENCE_END.split(text.strip(), maxsplit=3)
    return f"{text.rstrip()}\n\n{' '.join(sentences[:3])}" if len(sentences) >= 3 else text


DAMAGES: tuple[Damage, ...] = (drop_an_item, change_a_number, break_code, cut_short, drop_the_end, repeat_itself)


def damaged(text: str, pair_id: str) -> str:
    """Return the response with one kind of damage; unchanged where none applies."""
    start = int(hashed_fraction("damage", pair_id) * len(DAMAGES))
    for damage in (*DAMAGES[start:], *DAMAGES[:start]):
        worse = damage(text)
        if worse != text:
            return worse
    return text
