"""A line chart with logarithmic axes as an SVG file, in plain text: no plotting library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 20, 50
COLOURS = (
    "#1b6e4b",
    "#555555",
    "#8a8a8a",
    "#3b6fb6",
    "#b5651d",
    "#7b3fa0",
    "#b03050",
    "#2a9d8f",
    "#c9a227",
    "#6d597a",
    "#e07a5f",
    "#0077b6",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A named line of (x, y) points, both positive."""

    name: str
    points: list[tuple[float, float]]
    bold: bool = False


def svg(lines: list[Line], *, x_label: str, y_label: str) -> str:
    """Return the chart; where lines end, their names stand beside them."""
    xs = sorted({x for line in lines for x, _ in line.points})
    ys = [y for line in lines for _, y in line.points]
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))

    def place(x: float, y: float) -> tuple[float, float]:
        across = _share(x, xs[0], xs[-1]) * (WIDTH - LEFT - RIGHT)
        return LEFT + across, HEIGHT - BOTTOM - _share(y, low, high) * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(place, xs, low, high), _labels(x_label, y_label)]
    heights = _apart([place(*line.points[-1])[1] for line in lines])
    for number, (line, height) in enumerate(zip(lines, heights, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        spots = [place(*point) for point in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        width = 3 if line.bold else 1.5
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        weight = ' font-weight="bold"' if line.bold else ""
        name = escape(line.name)
        parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{height + 4:.1f}" fill="{colour}"{weight}>{name}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>\n"])


def _share(value: float, low: float, high: float) -> float:
    """Return where a value lies between two others on a logarithmic scale, from 0 to 1."""
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def _grid(place, xs: list[float], low: float, high: float) -> str:
    parts = []
    level = low
    while level <= high:
        x, y = place(xs[0], level)
        parts.append(f'<path d="M{x} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4:.1f}" text-anchor="end">{level:,.0f}</text>')
        level *= 10
    for value in xs:
        x, y = place(value, low)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{value:,.0f}</text>')
    return "\n".join(parts)


def _labels(x_label: str, y_label: str) -> str:
    middle = (LEFT + WIDTH - RIGHT) / 2
    below = f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>'
    return (
        f'{below}<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )


def _apart(heights: list[float], least: float = 14.0) -> list[float]:
    """Move names that would cover each other apart, in the order of their lines."""
    moved = list(heights)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    for upper, lower in pairwise(order):
        moved[lower] = max(moved[lower], moved[upper] + least)
    return moved
