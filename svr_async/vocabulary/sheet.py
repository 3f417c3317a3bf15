"""What is shown to a person, as plain data: lines, headings and tables, which a terminal prints without markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """A line, behind its short label if it has one; `wrapped` between words, below its label; `loud` is a warning."""

    text: str
    label: str = ""
    wrapped: bool = False
    loud: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A line of its own, after an empty one."""

    text: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its first column and the last `texts` are text, the others numbers."""

    heads: Sequence[str]
    rows: Iterable[Sequence[str]]
    texts: int = 1


Part = Line | Heading | Grid
Sheet = Iterator[Part]


def plain_word(value: Any) -> str:
    """Return a setting or a number as people read it."""
    if isinstance(value, list | tuple):
        return " ".join(map(plain_word, value)) or "none"
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def in_words(values: Mapping[str, Any]) -> str:
    """Return named values in a line."""
    return ", ".join(f"{name} {plain_word(value)}" for name, value in values.items())
