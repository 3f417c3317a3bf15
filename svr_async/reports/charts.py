"""The report's figures as inline SVG: positions in percent, so that they fit any width and text keeps its size.

Only numbers reach the markup here; texts beside a figure are in the template, which escapes them. Colours come
from the classes of the style sheet. Screen readers skip the figures: their numbers stand in the tables around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from svr_async.evaluation.wording import percent

_TRACK_PX = 22
_PLOT_TOP, _PLOT_PX = 22, 150  # of the calibration chart: first gridline, height between 100 % and 0 %
_GUTTER = 8.0  # percent of its width, for the labels of the gridlines


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """One group of items with margins of like size: |margin| from `low` to `high`."""

    low: float
    high: float
    n: int
    accuracy: float
    ci95: tuple[float, float]


def interval_track(value: float | None, ends: tuple[float, float] | None) -> Markup:
    """Draw an accuracy and its interval on a track from 0 to 100 %, with the line of a coin flip at 50 %."""
    shapes = [_line("axis", 0, 100), _upright("half", 50)]
    if ends is not None:
        low, high = _clip(ends[0]), _clip(ends[1])
        shapes.append(
            f'<rect class="span" x="{low:.2f}%" y="{_TRACK_PX / 2 - 5}" width="{high - low:.2f}%" height="10" rx="5"/>'
        )
    if value is not None:
        shapes.append(_dot("dot", value))
    return svg("track", _TRACK_PX, shapes)


def dumbbell_track(first: float, second: float) -> Markup:
    """Draw two accuracies on one track from 0 to 100 %: a ring for the first, a dot for the second."""
    low, high = sorted((100 * first, 100 * second))
    shapes = [
        _line("axis", 0, 100),
        _upright("half", 50),
        _line("link", low, high),
        _dot("ring", first),
        _dot("dot", second),
    ]
    return svg("track", _TRACK_PX, shapes)


def percent_axis() -> Markup:
    """Draw the labels 0, 50 and 100 % for the tracks above them."""
    labels = ((0, "start"), (50, "middle"), (100, "end"))
    shapes = [f'<text x="{x}%" y="11" text-anchor="{anchor}">{percent(x / 100, 0)}</text>' for x, anchor in labels]
    return svg("ticks", 16, shapes)


def diverging_bar(value: float, largest: float) -> Markup:
    """Draw a signed contribution: towards A to the left, towards B to the right, `largest` filling its half."""
    width = 0.0 if largest <= 0 else min(50.0, 50 * abs(value) / largest)
    side = "to-a" if value > 0 else "to-b"
    x = 50 - width if value > 0 else 50.0
    bar = f'<rect class="{side}" x="{x:.2f}%" y="4" width="{width:.2f}%" height="14" rx="2"/>' if width else ""
    return svg("diverging", _TRACK_PX, [bar, _upright("zero", 50)])


def stacked_bar(parts: Sequence[tuple[str, float]]) -> Markup:
    """Draw shares of a whole side by side; each part is (class, share of 1)."""
    shapes, x = [], 0.0
    for name, share in parts:
        width = 100 * share
        if width > 0:
            shapes.append(f'<rect class="{name}" x="{x:.3f}%" y="0" width="{width:.3f}%" height="14"/>')
        x += width
    return svg("stacked", 14, shapes)


def calibration_plot(bins: Sequence[Bin]) -> Markup:
    """Draw accuracy with its interval for each bin of rising |margin|, joined by a line."""
    xs = [_GUTTER + (100 - _GUTTER) * (i + 0.5) / len(bins) for i in range(len(bins))]
    grid = [level_line("half" if level == 0.5 else "grid", _y(level)) for level in (0.0, 0.5, 1.0)]
    spots = [(x, _y(entry.accuracy)) for x, entry in zip(xs, bins, strict=True)]
    joins = [segment("join", one, other) for one, other in pairwise(spots)]
    marks = [shape for x, entry in zip(xs, bins, strict=True) for shape in _bin_marks(x, entry)]
    labels = [f'<text x="0" y="{_y(level) - 4}">{percent(level, 0)}</text>' for level in (0.0, 0.5, 1.0)]
    return svg("calibration", _PLOT_TOP + _PLOT_PX + 26, [*grid, *joins, *marks, *labels])


def _bin_marks(x: float, entry: Bin) -> tuple[str, str, str, str]:
    low, high = entry.ci95
    return (
        upright("whisker", x, _y(low), _y(high)),
        circle("dot", x, _y(entry.accuracy)),
        f'<text class="value" x="{x:.2f}%" y="{_y(high) - 7}" text-anchor="middle">{100 * entry.accuracy:.0f}</text>',
        f'<text x="{x:.2f}%" y="{_PLOT_TOP + _PLOT_PX + 20}" text-anchor="middle">{margin_range(entry)}</text>',
    )


def margin_range(entry: Bin) -> str:
    """Return the range of |margin| of a bin, as `0.12–0.31`; one number where both ends read the same."""
    digits = 2 if entry.high < 10 else 1 if entry.high < 100 else 0
    low, high = f"{entry.low:.{digits}f}", f"{entry.high:.{digits}f}"
    return low if low == high else f"{low}–{high}"


def _y(level: float) -> float:
    return height_of(level, _PLOT_TOP, _PLOT_PX)


def height_of(share: float, top: float, height: float) -> float:
    """Return the y in pixels of a share of a plot's height, 0 at its foot."""
    return round(top + (1 - min(1.0, max(0.0, share))) * height, 2)


def circle(kind: str, x: float, y: float, radius: float = 5) -> str:
    """Draw a dot at x percent and y pixels."""
    return f'<circle class="{kind}" cx="{x:.2f}%" cy="{y}" r="{radius}"/>'


def upright(kind: str, x: float, top: float, bottom: float) -> str:
    """Draw a line at x percent from one y to another."""
    return f'<line class="{kind}" x1="{x:.2f}%" x2="{x:.2f}%" y1="{top}" y2="{bottom}"/>'


def segment(kind: str, one: tuple[float, float], other: tuple[float, float]) -> str:
    """Draw a line between two places, each in percent and pixels."""
    return f'<line class="{kind}" x1="{one[0]:.2f}%" x2="{other[0]:.2f}%" y1="{one[1]}" y2="{other[1]}"/>'


def level_line(kind: str, y: float) -> str:
    """Draw a gridline."""
    return f'<line class="{kind}" x1="0" x2="100%" y1="{y}" y2="{y}"/>'


def _clip(share: float) -> float:
    return 100 * min(1.0, max(0.0, share))


def _line(name: str, x1: float, x2: float) -> str:
    return segment(name, (x1, _TRACK_PX / 2), (x2, _TRACK_PX / 2))


def _upright(name: str, x: float) -> str:
    return f'<line class="{name}" x1="{x}%" x2="{x}%" y1="0" y2="100%"/>'


def _dot(name: str, value: float) -> str:
    return circle(name, _clip(value), _TRACK_PX / 2)


def svg(name: str, height: int, shapes: Sequence[str]) -> Markup:
    """Return a figure of shapes made of numbers and fixed words, as wide as its place."""
    inner = "".join(shapes)
    return Markup(f'<svg class="{name}" width="100%" height="{height}" aria-hidden="true">{inner}</svg>')  # noqa: S704  (numbers and fixed words only)
