"""The figures of a bank's report as inline SVG: lines over epochs, values by round, amounts; as safe as `charts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from svr_async.evaluation.wording import MINUS, percent
from svr_async.reports.charts import circle, height_of, level_line, segment, svg, upright

TOP, HEIGHT = 18, 150  # of a line plot, in pixels
GUTTER = 8.0  # percent of its width, for the labels of the gridlines
MOST_TICKS = 16  # with more epochs than this, not every one is numbered
ROUND_TOP, ROUND_HEIGHT = 24, 56  # of a plot over rounds, in pixels
MOST_LABELS = 6  # with more rounds than this, only the first and the last value are written
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A line of a plot: (place, value) from left to right; `kind` is the class that gives its colour."""

    kind: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Lines over `slots` equal places, between `low` and `high`; `marked` is the point that counts, and its `error`.

    `borders` are places before which a thin upright line is drawn; `ticks` are the numbers below the places, epochs
    from 0 or pairs. `bars` are intervals: (place, low, high).
    """

    slots: int
    low: float
    high: float
    traces: tuple[Trace, ...]
    marked: tuple[int, float] | None = None
    error: float = 0.0
    bars: tuple[tuple[int, float, float], ...] = ()
    borders: tuple[int, ...] = ()
    ticks: tuple[int, ...] = ()
    shares: bool = False


def line_plot(plot: Plot) -> Markup:
    """Draw lines over epochs with three gridlines, small dots, and the marked point large with its error."""
    levels = (plot.low, (plot.low + plot.high) / 2, plot.high)
    shapes = [level_line("grid", _y(plot, value)) for value in levels]
    if plot.shares and plot.low < 0.5 < plot.high:
        shapes.append(level_line("half", _y(plot, 0.5)))
    shapes += [upright("border", _x(plot, place - 0.5), TOP, TOP + HEIGHT) for place in plot.borders]
    shapes += [upright("whisker", _x(plot, place), _y(plot, high), _y(plot, low)) for place, low, high in plot.bars]
    for trace in plot.traces:
        shapes += _trace(plot, trace)
    shapes += _marked(plot)
    shapes += [f'<text x="0" y="{_y(plot, value) - 4}">{_word(plot, value)}</text>' for value in levels]
    return svg("curve", TOP + HEIGHT + 24, [*shapes, *_ticks(plot)])


def round_axis(spans: Sequence[tuple[int, float, float]]) -> Markup:
    """Name the rounds below a line plot; `spans` are (round, first, last) as shares of the width."""
    middles = [(number, GUTTER + (100 - GUTTER) * (first + last) / 2) for number, first, last in spans]
    return svg("ticks", 16, [_text(f"round {number}", middle, 11) for number, middle in middles])


def round_plot(rows: Sequence[tuple[str, Values]], digits: int = 0) -> Markup:
    """Draw up to two rows of (mark class, value by round), each value written at its mark."""
    known = [value for _, values in rows for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    n_rounds = max((len(values) for _, values in rows), default=0)
    shapes: list[str] = []
    for mark, values in rows:
        spots = [
            (100 * (i + 0.5) / n_rounds, round(ROUND_TOP + ROUND_HEIGHT * (1 - (v - low) / ((high - low) or 1.0)), 1))
            if v is not None
            else None
            for i, v in enumerate(values)
        ]
        known_spots = [spot for spot in spots if spot is not None]
        shapes += [segment("join", one, other) for one, other in pairwise(known_spots)]
        shapes += [circle(mark, x, y, 4.5) for x, y in known_spots]
        shapes += _values(rows, mark, spots, digits)
    base = ROUND_TOP + ROUND_HEIGHT + 40
    shapes += [_text(str(i + 1), 100 * (i + 0.5) / n_rounds, base) for i in range(n_rounds)]
    return svg("rounds", base + 4, shapes)


def share_bar(value: float, largest: float) -> Markup:
    """Draw an amount from the left, `largest` filling the width."""
    width = 0.0 if largest <= 0 else min(100.0, max(0.0, 100 * value / largest))
    return svg("amount", 8, [f'<rect class="amount" x="0" y="0" width="{width:.2f}%" height="8" rx="2"/>'])


def hundredfold(rows: Sequence[object], name: str) -> list[float | None]:
    """Return an attribute of each row, a fraction, in percent; None stays None."""
    return [None if value is None else 100 * value for value in (getattr(row, name) for row in rows)]


def _values(
    rows: Sequence[tuple[str, Values]], mark: str, spots: Sequence[tuple[float, float] | None], digits: int
) -> Iterator[str]:
    """Yield the numbers of one row: above its marks, or below where the other row's mark is higher."""
    own = dict(rows)[mark]
    for i, spot in enumerate(spots):
        value = own[i]
        if spot is None or value is None or not (len(own) <= MOST_LABELS or i in {0, len(own) - 1}):
            continue
        others = [other for name, values in rows if name != mark and (other := values[i]) is not None]
        below = any(other > value or (other == value and mark == "dot") for other in others)
        yield _text(f"{value:,.{digits}f}".replace("-", MINUS), spot[0], spot[1] + (18 if below else -9), "value")


def _trace(plot: Plot, trace: Trace) -> list[str]:
    spots = [(_x(plot, place), _y(plot, value)) for place, value in trace.points]
    radius = 1.5 if trace.kind == "thread" else 2.5
    dots = [circle(trace.kind, x, y, radius) for x, y in spots]
    return [*(segment(trace.kind, one, other) for one, other in pairwise(spots)), *dots]


def _marked(plot: Plot) -> list[str]:
    if plot.marked is None:
        return []
    x, value = _x(plot, plot.marked[0]), plot.marked[1]
    bar = upright("whisker", x, _y(plot, value + plot.error), _y(plot, value - plot.error))
    return [bar, circle("dot", x, _y(plot, value))]


def _ticks(plot: Plot) -> Iterator[str]:
    """Number the places; where they are many, only some."""
    every = -(-max(1, len(plot.ticks)) // MOST_TICKS)
    for place, epoch in enumerate(plot.ticks):
        if epoch % every == 0:
            yield _text(f"{epoch:,}", _x(plot, place), TOP + HEIGHT + 18)


def _x(plot: Plot, place: float) -> float:
    return GUTTER + (100 - GUTTER) * (place + 0.5) / max(1, plot.slots)


def _y(plot: Plot, value: float) -> float:
    return height_of((value - plot.low) / ((plot.high - plot.low) or 1.0), TOP, HEIGHT)


def _word(plot: Plot, value: float) -> str:
    """Return the label of a gridline; all three have the digits that the one in the middle needs."""
    middle = 50 * (plot.low + plot.high)
    return percent(value, 0) if plot.shares else f"{value:.{2 if abs(middle - round(middle)) < 1e-6 else 3}f}"


def _text(text: str, x: float, y: float, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.2f}%" y="{y}" text-anchor="middle">{text}</text>'
