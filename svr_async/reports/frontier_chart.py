"""The figure of a frontier as inline SVG: accuracy over cost, a dot a plan; as safe as `charts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from svr_async.evaluation.wording import percent
from svr_async.reports.charts import circle, height_of, level_line, segment, svg, upright

TOP, HEIGHT = 26, 300  # in pixels
LEFT, RIGHT = 9.0, 97.0  # percent of the width
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)  # between gridlines, as shares
NEAR = (5.5, 18.0)  # percent of the width and pixels, within which two labels would touch


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One plan: its cost as a share of the dearest one's, its accuracy, and its `number` among the best, or 0."""

    kind: str
    x: float
    accuracy: float
    ci95: tuple[float, float]
    number: int = 0


def frontier_chart(dots: Sequence[Dot], costs: Sequence[tuple[float, str]]) -> Markup:
    """Draw all plans, those among the best larger, joined and numbered, with their intervals.

    `costs` are the ticks of the axis below: (share of the dearest plan's cost, words made of digits and a unit).
    """
    low, high, step = scale([dot.accuracy for dot in dots], [dot.ci95 for dot in dots if dot.number])
    levels = [low + i * step for i in range(round((high - low) / step) + 1)]
    shapes = [level_line("grid", _y(level, low, high)) for level in levels]
    best = [dot for dot in dots if dot.number]
    shapes += [_step(one, other, low, high) for one, other in pairwise(best)]
    shapes += [_dot(dot, low, high) for dot in dots if not dot.number]
    shapes += [shape for dot in best for shape in (_whisker(dot, low, high), _dot(dot, low, high))]
    shapes += _numbers(best, low, high)
    shapes += [f'<text x="0" y="{_y(level, low, high) - 4}">{percent(level, 0)}</text>' for level in levels]
    base = TOP + HEIGHT + 20
    shapes += [f'<text x="{_x(x):.2f}%" y="{base}" text-anchor="{_anchor(x)}">{words}</text>' for x, words in costs]
    return svg("frontier", TOP + HEIGHT + 26, shapes)


def scale(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return (low, high, step) of an axis of at most seven gridlines that holds all values and intervals."""
    ends = [*values, *(end for pair in intervals for end in pair)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    step = next((one for one in STEPS if (high - low) / one <= 5), STEPS[-1])
    first, last = int(low / step), -int(-high / step // 1)
    return max(0.0, first * step), min(1.0, max(last, first + 1) * step), step


def _numbers(best: Sequence[Dot], low: float, high: float) -> list[str]:
    """Number the best above their whiskers, or below where one would touch a number; one with no room has none."""
    shapes: list[str] = []
    placed: list[tuple[float, float]] = []
    for dot in best:
        x, (bottom, top) = _x(dot.x), dot.ci95
        spots = ((x, _y(top, low, high) - 7), (x, _y(bottom, low, high) + 16))
        spot = next((spot for spot in spots if not any(_touch(spot, other) for other in placed)), None)
        if spot is None:
            continue
        shapes.append(f'<text class="value" x="{x:.2f}%" y="{spot[1]}" text-anchor="middle">{dot.number}</text>')
        placed.append(spot)
    return shapes


def _touch(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < NEAR[0] and abs(one[1] - other[1]) < NEAR[1]


def _dot(dot: Dot, low: float, high: float) -> str:
    kind, radius = (f"{dot.kind} best", 5.5) if dot.number else (dot.kind, 3.5)
    return circle(kind, _x(dot.x), _y(dot.accuracy, low, high), radius)


def _whisker(dot: Dot, low: float, high: float) -> str:
    bottom, top = dot.ci95
    return upright("whisker", _x(dot.x), _y(top, low, high), _y(bottom, low, high))


def _step(one: Dot, other: Dot, low: float, high: float) -> str:
    first, second = ((_x(dot.x), _y(dot.accuracy, low, high)) for dot in (one, other))
    return segment("join", first, second)


def _anchor(x: float) -> str:
    return "end" if x > 0.9 else "middle"


def _x(share: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(1.0, max(0.0, share))


def _y(level: float, low: float, high: float) -> float:
    return height_of((level - low) / ((high - low) or 1.0), TOP, HEIGHT)
