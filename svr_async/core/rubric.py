"""Rubrics: one criterion each, with an optional check that a program can decide."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FACETS = (
    "correctness", "format", "coverage", "grounding", "tool_use", "coherence",
    "safety", "style", "language", "conciseness", "reasoning",
)  # fmt: skip
IMPORTANCES = ("critical", "major", "minor")
MAX_RUBRIC_CHARS = 512

CheckValue = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """The name of a check in the registry of `judges.rules`, with its arguments: data, never code."""

    name: str
    args: tuple[tuple[str, CheckValue], ...] = ()

    @classmethod
    def of(cls, name: str, **args: CheckValue) -> Check:
        """Build a check from keyword arguments, in sorted order."""
        return cls(name, tuple(sorted(args.items())))

    def to_json(self) -> dict[str, Any]:
        """Return the check as plain JSON values."""
        return {"name": self.name, "args": {k: list(v) if isinstance(v, tuple) else v for k, v in self.args}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Check:
        """Read `{"name": …, "args": {…}}`; ValueError on anything else."""
        name, args = value.get("name"), value.get("args") or {}
        if not isinstance(name, str) or not isinstance(args, Mapping):
            raise ValueError(f'a check is {{"name": text, "args": object}}, not {value!r}')
        return cls.of(name, **{str(k): _check_value(v) for k, v in args.items() if v is not None})  # None in Arrow rows


def _check_value(value: Any) -> CheckValue:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if isinstance(value, str | int | float | bool):
        return value
    raise ValueError(f"a check's argument is a text, a number, a flag or a list of texts, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """One criterion. Its `id` is a hash of its text, so that the same criterion has the same id everywhere."""

    text: str
    facet: str = ""
    importance: str = ""
    grounding: str = ""
    check: Check | None = None
    id: str = field(default="")

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("a rubric needs a text")
        if not self.id:
            object.__setattr__(self, "id", rubric_id(self.text))


def rubric_id(text: str) -> str:
    """Return the stable id of a rubric text: case, spacing and Unicode form do not matter."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return "r" + hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=6).hexdigest()


_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")


def split_rubrics(text: str) -> tuple[str, ...]:
    """Split a block of criteria, one a line, into texts without bullets or numbers (RubricBench's `rubrics`)."""
    lines = (_BULLET.sub("", line).strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


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
class Statement:
    """A statement about a response; `turned` if it says the opposite of its rubric."""

    text: str
    turned: bool = False

    def chance(self, stated: float | None) -> float | None:
        """Return the rubric's probability, given that of the statement."""
        return 1 - stated if self.turned and stated is not None else stated


def positive(text: str) -> Statement:
    """Return a rubric in the positive if one "not" denies all of it; unchanged in case of doubt.

    A second denial, a clause, an "and" or a comparison makes the scope of the "not" ambiguous: such a text is not
    changed, nor is one without "not" ("avoids", "leaves unsaid").
    """
    if len(_DENIES.findall(text)) != 1 or _SCOPE.search(text):
        return Statement(text)
    for pattern, instead in _DENIALS:
        found, count = pattern.subn(instead, text, count=1)
        if count:
            return Statement(found, turned=True)
    return Statement(text)
