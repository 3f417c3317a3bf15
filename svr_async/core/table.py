"""Readable results as plain data: labelled lines and tables, with writers for HTML and Markdown.

A terminal prints them with `commands.screen.show`. Whatever a text contains, every writer shows it as text.
`reports.writers` has LaTeX and CSV.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from svr_async.core.safetext import capped, visible

MOST_CHARS = 2_000  # of a text in a cell or a line of HTML
NO_MATH = "tex2jax_ignore mathjax_ignore"  # in a notebook two dollar signs would begin a formula
RULE = "border-bottom:1px solid rgba(128,128,128,.35)"
CELL = "padding:.15em .8em .15em 0;vertical-align:top;text-align:"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


@dataclass(frozen=True, slots=True)
class Line:
    """A line with an optional label; `wrapped` between words, below its label; `loud` is a warning."""

    text: str
    label: str = ""
    wrapped: bool = False
    loud: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts under heads, with a caption above and notes below.

    The first column and the last `texts` columns are text, the others numbers. Without heads only caption and notes
    are shown.
    """

    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = ""
    notes: Sequence[str] = ()
    texts: int = 0

    def sides(self) -> tuple[str, ...]:
        """Return `left` or `right` for each column."""
        last = len(self.heads) - self.texts
        return tuple("right" if 0 < place < last else "left" for place in range(len(self.heads)))


Part = Line | Table
Parts = Iterable[Part]


def warnings_of(texts: Iterable[str]) -> Iterator[Line]:
    """Yield each text as a warning."""
    yield from (Line(f"! {text}", wrapped=True, loud=True) for text in texts)


def plain_word(value: Any) -> str:
    """Return a setting or a number as people read it."""
    if isinstance(value, list | tuple):
        return " ".join(map(plain_word, value)) or "none"
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def in_words(values: Mapping[str, Any]) -> str:
    """Return named values in a line."""
    return ", ".join(f"{name} {plain_word(value)}" for name, value in values.items())


def to_html(parts: Parts) -> str:
    """Return lines and tables as one block of HTML, as a notebook shows it."""
    return f'<div class="{NO_MATH}" style="max-width:70em">{"".join(map(_part, parts))}</div>'


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return "".join(_table(part))
    label = f'<span style="opacity:.65">{_text(part.label)}</span> ' if part.label else ""
    text = f"<b>{_text(part.text)}</b>" if part.loud else _text(part.text)
    return f'<div style="white-space:pre-wrap">{label}{text}</div>'


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield f'<div style="margin-top:.6em"><b>{_text(table.caption)}</b></div>'
    if table.heads:
        sides = table.sides()
        rows = "".join(_row("td", row, sides) for row in table.rows)
        head = f'<thead style="{RULE}">{_row("th", table.heads, sides)}</thead>'
        yield f'<table style="border-collapse:collapse;margin:.3em 0">{head}<tbody>{rows}</tbody></table>'
    yield from (f'<div style="opacity:.65">{_text(note)}</div>' for note in table.notes)


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    styled = (
        f'<{tag} style="{CELL}{side};background:none">{_text(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(styled)}</tr>"


def _text(text: str) -> str:
    """Escape a text, with hidden characters shown and its end cut where it is very long."""
    shown, more = capped(visible(text), MOST_CHARS)
    return escape(shown) + (f" … {more:,} more characters" if more else "")


def to_markdown(table: Table) -> str:
    """Return a GitHub table under its caption."""
    rule = ["---:" if side == "right" else "---" for side in table.sides()]
    rows = [[markdown(cell) for cell in row] for row in (table.heads, *table.rows)]
    lines = [f"**{markdown(table.caption)}**", "", *(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))]
    if table.notes:
        lines += ["", *(f"- {markdown(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def markdown(text: str) -> str:
    """Escape a text for a Markdown table cell: one line, no markup, no HTML, hidden characters shown."""
    return _MARKDOWN.sub(r"\\\1", visible(text)).replace("\n", " ").replace("\t", " ")
