"""Penalties for length and for decoration, relative to a group or to an anchor.

    length   P · (ln(1 + c_i) − mean ln(1 + c))     c: characters; e times the usual length costs P
    style    P · (d_i − mean d)                     d: Markdown marks a word, at most 1

The mean is over the group, so that what is taken off sums to zero in it; against an anchor it is the anchor's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_MARK = re.compile(r"^[^\S\n]*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s|\|)|\*\*|__|```", re.MULTILINE)


def length_of(text: str) -> float:
    """Return ln(1 + characters)."""
    return math.log1p(len(text))


def style_of(text: str) -> float:
    """Return Markdown marks (headings, list items, table rows, bold, fences) a word, at most 1."""
    words = len(text.split())
    return min(1.0, len(_MARK.findall(text)) / words) if words else 0.0


def above_mean(values: Sequence[float]) -> list[float]:
    """Return how far each value is above their mean."""
    mean = sum(values) / len(values) if values else 0.0
    return [value - mean for value in values]
