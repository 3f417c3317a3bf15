"""A sheet as HTML for a notebook: escaped, no scripts, no colours of its own, so that it suits dark and light."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from svr_async.vocabulary.safetext import capped, visible
from svr_async.vocabulary.sheet import Grid, Heading, Line, Sheet

MOST_CHARS = 2_000  # of a text in a cell or a line
NO_MATH = "tex2jax_ignore mathjax_ignore"  # in a notebook two dollar signs would begin a formula
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
    return f"<tr>{''.join(_cells(tag, cells, sides))}</tr>"


def _cells(tag: str, cells: Sequence[str], sides: Sequence[str]) -> Iterator[str]:
    for cell, side in zip(cells, sides, strict=True):
        yield f'<{tag} style="{CELL}{side};background:none">{_text(cell)}</{tag}>'


def _text(text: str) -> str:
    """Return a text that is only a text, its hidden characters shown."""
    shown, more = capped(visible(text), MOST_CHARS)
    return escape(shown) + (f" … {more:,} more characters" if more else "")
