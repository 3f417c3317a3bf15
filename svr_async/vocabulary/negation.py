"""Rubrics that deny something, put in the positive: readers of single statements are weak at a "not"."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DENIALS = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\b(do|does|did|is|are|was|were|has|have|can|could|should|must|may|will|would) not\b", r"\1"),
        (r"\b(do|does|did|is|are|was|were|has|have|could|should|must|would)n['’]t\b", r"\1"),
        (r"\bcannot\b", "can"),
        (r"\bnever (?=\w)", ""),
        (r"\b(has|have|holds?|contains?|includes?|makes?|leaves?|gives?|uses?|shows?|adds?) no\b", r"\1 any"),
    )
)
_DENIES = re.compile(
    r"\b(not|no|never|cannot|nothing|none|nobody|avoids?|without|lacks?|free of|\w+n['’]t)\b", re.IGNORECASE
)
_SCOPE = re.compile(
    r"[,;:]|\b(and|but|unless|if|when|where|while|because|so|than|except|only|other|yet|although|nor|neither)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Positive:
    """A text without its denial; with `turned`, what is true of it is false of the rubric."""

    text: str
    turned: bool


def positive(text: str) -> Positive:
    """Return a rubric in the positive where one "not" denies all of it; as it is where that is not beyond doubt.

    A second denial, a clause, an "and" or a comparison makes the reach of the "not" a matter of reading: such a text
    is left alone, and so is one that is free of "not" whatever it means ("avoids", "leaves unsaid").
    """
    if len(_DENIES.findall(text)) != 1 or _SCOPE.search(text):
        return Positive(text, turned=False)
    for pattern, instead in _DENIALS:
        found, count = pattern.subn(instead, text, count=1)
        if count:
            return Positive(found, turned=True)
    return Positive(text, turned=False)
