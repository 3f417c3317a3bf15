"""Output as plain data: lines, headings and tables, printed by a terminal or as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from svr_async.core.safetext import capped, visible


@dataclass(frozen=True, slots=True)
class Line:
    """A line after its short label, if any; `wrapped` breaks it between words; `loud` marks a warning."""

    text: str
    label: str = ""
    wrapped: bool = False
    loud: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A line after an empty one."""

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
    """Return a setting or a number as text."""
    if isinstance(value, list | tuple):
        return " ".join(map(plain_word, value)) or "none"
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def in_words(values: Mapping[str, Any]) -> str:
    """Return named values as one line."""
    return ", ".join(f"{name} {plain_word(value)}" for name, value in values.items())


MOST_CHARS = 2_000  # of a text in a cell or a line
NO_MATH = "tex2jax_ignore mathjax_ignore"  # in a notebook two dollar signs start a formula
RULE = "border-bottom:1px solid rgba(128,128,128,.35)"
CELL = "padding:.15em .8em .15em 0;vertical-align:top;text-align:"


def sheet_html(sheet: Sheet) -> str:
    """Return lines, headings and tables as one block of HTML."""
    return f'<div class="{NO_MATH}" style="max-width:70em">{"".join(map(_part, sheet))}</div>'


def _part(part: Line | Heading | Grid) -> str:
    if isinstance(part, Grid):
        return _table(part)
    if isinstance(part, Heading):
        return f'<div style="margin-top:.6em"><b>{_text(part.text)}</b></div>'
    label = f'<span style="opacity:.65">{_text(part.label)}</span> ' if part.label else ""
    text = f"<b>{_text(part.text)}</b>" if part.loud else _text(part.text)
    return f'<div style="white-space:pre-wrap">{label}{text}</div>'


def _table(grid: Grid) -> str:
    numbers = range(1, len(grid.heads) - grid.texts)
    sides = ["right" if place in numbers else "left" for place in range(len(grid.heads))]
    rows = "".join(_row("td", row, sides) for row in grid.rows)
    head = f'<thead style="{RULE}">{_row("th", grid.heads, sides)}</thead>'
    return f'<table style="border-collapse:collapse;margin:.3em 0">{head}<tbody>{rows}</tbody></table>'


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    styled = [f'<{tag} style="{CELL}{side};background:none">' for side in sides]
    return f"<tr>{''.join(f'{start}{_text(cell)}</{tag}>' for start, cell in zip(styled, cells, strict=True))}</tr>"


def _text(text: str) -> str:
    """Return a text escaped for HTML, with hidden characters shown."""
    shown, more = capped(visible(text), MOST_CHARS)
    return escape(shown) + (f" … {more:,} more characters" if more else "")
