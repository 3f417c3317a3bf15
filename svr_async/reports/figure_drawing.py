"""A figure drawn with matplotlib: title, marks and legend above, panels below each other, notes at the foot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from svr_async.reports.figure_model import Bars, Ends, Figure, Grid, Panel, Plane, Role, Series, Trace, places
from svr_async.reports.figure_style import DPI, MARKERS, TEXT, WIDTH, Theme, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

LINE = 0.165  # inches of a line of text
TITLE_CHARS, NOTE_CHARS, NAME_CHARS = 56, 102, 34
LEGEND_WIDTH = 66  # characters of a line of the legend
BAR, GAP = 0.17, 0.12  # inches of a bar, and between groups of them
PLANE, LOW_PLANE, CELL = 2.3, 1.2, 0.3  # inches of a plane, of one among others, and of a line of a grid
FOOT = 0.45  # inches below a panel, for its axis
SMALL, LARGE = 10.0, 120.0  # square points of a dot of size 0 and of size 1


def drawn(figure: Figure, theme: Theme) -> Canvas:
    """Return a figure ready to be written, as wide as a column and as high as it needs."""
    from matplotlib.figure import Figure as Canvas

    title, notes = wrap(figure.title, TITLE_CHARS), _noted(figure)
    rows = _legend_rows(figure)
    head = LINE * (1.15 * len(title) + bool(figure.marks) + len(rows)) + 0.14
    foot = 0.85 * LINE * len(notes) + (0.06 if notes else 0)
    heights = [_height(panel, alone=len(figure.panels) == 1) for panel in figure.panels]
    height = head + foot + sum(heights)
    canvas = Canvas(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    _frame(canvas, (0.0, foot / height, 1.0, 1 - (head + foot) / height))
    _head(canvas, figure, title, rows, theme)
    for line, text in enumerate(reversed(notes)):
        canvas.text(0.012, (0.05 + 0.85 * LINE * line) / height, text, fontsize=TEXT - 1.5, color=theme.muted)
    axes = canvas.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for place, panel in zip(axes, figure.panels, strict=True):
        DRAWN[type(panel)](place, panel, theme)
    _settle(canvas)
    return canvas


def _settle(canvas: Canvas) -> None:
    """Lay the panels out once for all formats, to a ten-thousandth: the solver's last digits differ between calls."""
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    for axes in canvas.axes:
        left, foot, width, height = (round(float(value), 4) for value in axes.get_position().bounds)
        axes.set_position((left, foot, width, height))


def _frame(canvas: Canvas, rect: tuple[float, float, float, float]) -> None:
    engine: Any = canvas.get_layout_engine()
    engine.set(rect=rect, w_pad=0.06, h_pad=0.04)


def _noted(figure: Figure) -> list[str]:
    return [line for note in figure.notes for line in wrap(note, NOTE_CHARS)]


def _height(panel: Panel, *, alone: bool) -> float:
    if isinstance(panel, Plane):
        return (PLANE if alone else LOW_PLANE) + (FOOT if panel.x.name else 0.25)
    if isinstance(panel, Grid):
        return CELL * len(panel.rows) + FOOT + 0.1
    bars = max(1, sum(one.role != "printed" for one in panel.series))
    lines = (len(wrap(name, NAME_CHARS)) for name in panel.names)
    return FOOT + sum(max(BAR * bars, 0.13 * n) + GAP for n in lines)


def _legend_rows(figure: Figure) -> list[list[tuple[str, Role, int]]]:
    """Return the legend in lines, each as full as it can be."""
    rows: list[list[tuple[str, Role, int]]] = []
    room = 0
    for entry in figure.legend:
        width = min(len(entry[0]), LEGEND_WIDTH) + 5
        if not rows or width > room:
            rows.append([])
            room = LEGEND_WIDTH
        rows[-1].append(entry)
        room -= width
    return rows


def _head(
    canvas: Canvas, figure: Figure, title: Sequence[str], rows: Sequence[Sequence[tuple[str, Role, int]]], theme: Theme
) -> None:
    height = canvas.get_figheight()
    top = height - 0.05
    canvas.text(0.012, top / height, "\n".join(title), fontsize=TEXT + 2, weight="bold", va="top", linespacing=1.15)
    top -= 1.15 * LINE * len(title)
    if figure.marks:
        words = " · ".join(figure.marks)
        canvas.text(0.012, top / height, words, fontsize=TEXT - 0.5, weight="bold", va="top", color=theme.warn)
        top -= LINE
    for row in rows:
        _legend(canvas, row, theme, top / height)
        top -= LINE


def _legend(canvas: Canvas, row: Sequence[tuple[str, Role, int]], theme: Theme, y: float) -> None:
    """Draw a line of the legend; every entry by itself, so that all begin where the one before ends."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="", **_mark(theme, role, place)) for _, role, place in row]
    names = [_cut(name, LEGEND_WIDTH) for name, *_ in row]
    canvas.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0.0, y), ncols=len(row), frameon=False, fontsize=TEXT - 0.5,
        borderpad=0.0, borderaxespad=0.3, handletextpad=0.2, columnspacing=1.2,
    )  # fmt: skip


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _mark(theme: Theme, role: Role, place: int) -> dict[str, Any]:
    """Return how a value is marked: a hollow diamond for a printed one, by its place where it has no role."""
    shade = colour(theme, role, place)
    if role == "printed":
        return {"marker": "D", "markerfacecolor": "none", "markeredgecolor": shade, "markeredgewidth": 1.0}
    if role == "train":
        return {"marker": "o", "color": shade, "markerfacecolor": "none"}
    return {"marker": "o" if role else MARKERS[place % len(MARKERS)], "color": shade}


def bars(axes: Axes, panel: Bars, theme: Theme) -> None:
    """Draw groups of bars downwards, with whiskers, and each value at the end of its bar."""
    solid = [one for one in panel.series if one.role != "printed"]
    thick = BAR / (BAR * max(1, len(solid)) + GAP)
    for number, (series, place) in enumerate(zip(solid, places(solid), strict=True)):
        shift = (number - (len(solid) - 1) / 2) * thick
        for row in range(len(panel.names)):
            _bar(axes, panel, series, row, shift, 0.84 * thick, colour(theme, _role(series, row), place), theme)
    for series in panel.series:
        if series.role == "printed":
            spots = [(value, row) for row, value in enumerate(series.values) if value is not None]
            axes.plot(*zip(*spots, strict=True) if spots else ((), ()), linestyle="", **_mark(theme, "printed", 0))
    axes.set_yticks(range(len(panel.names)), ["\n".join(wrap(name, NAME_CHARS)) for name in panel.names])
    axes.set_ylim(len(panel.names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(*_limits(panel))
    if panel.axis.ticks:
        axes.set_xticks(panel.axis.ticks)
    axes.set_xlabel(panel.axis.name)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    for level in (panel.level, 0.0 if panel.signed else None):
        if level is not None:
            axes.axvline(level, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 3)) if level else "-", zorder=1.5)


def _role(series: Series, row: int) -> Role:
    return series.roles[row] if series.roles else series.role


def _bar(
    axes: Axes, panel: Bars, series: Series, row: int, shift: float, thick: float, shade: str, theme: Theme
) -> None:
    value = series.values[row]
    if value is None:
        return
    y, ends = row + shift, _ends(series, row)
    axes.barh(y, value, height=thick, color=shade, linewidth=0, alpha=0.85)
    low, high = ends or (value, value)
    if ends is not None:
        axes.plot(ends, (y, y), color=theme.ink, linewidth=0.9, marker="|", markersize=3.5)
    left = panel.signed and value < 0
    spot = (_clear(panel, row, min(low, 0.0) if left else max(high, 0.0), left=left), y)
    axes.annotate(
        f"{value:,.{panel.digits}f}".replace("-", "−"), spot, xytext=(-4 if left else 4, 0),
        textcoords="offset points", va="center", ha="right" if left else "left", fontsize=TEXT - 1.5,
    )  # fmt: skip


def _clear(panel: Bars, row: int, at: float, *, left: bool) -> float:
    """Return where a value is written: past the printed one where its diamond would lie on it."""
    low, high = _limits(panel)
    room = (high - low) * (-1 if left else 1)
    printed = [one.values[row] for one in panel.series if one.role == "printed"]
    inside = [one for one in printed if one is not None and -0.02 <= (one - at) / room <= 0.1]
    return inside[0] + 0.012 * room if inside else at


def _ends(part: Series | Trace, place: int) -> Ends | None:
    return part.intervals[place] if part.intervals else None


def _limits(panel: Bars) -> Ends:
    """Return the axis' limits with room for the values beside the bars."""
    held = [(value, _ends(one, i)) for one in panel.series for i, value in enumerate(one.values) if value is not None]
    lows = [min(value, *(ends or (value,))) for value, ends in held]
    highs = [max(value, *(ends or (value,))) for value, ends in held]
    low, high = panel.axis.limits or (min([0.0, *lows]), max([0.0, *highs]))
    room = 0.15 * ((high - low) or 1.0)
    return low - (1.3 * room if panel.signed and min([0.0, *lows]) < 0 else 0.0), high + room


def plane(axes: Axes, panel: Plane, theme: Theme) -> None:
    """Draw lines and dots, with whiskers or bands."""
    for trace, place in zip(panel.traces, places(panel.traces), strict=True):
        _trace(axes, trace, place, theme)
    for set_label, set_limits, set_ticks, axis in (
        (axes.set_xlabel, axes.set_xlim, axes.set_xticks, panel.x),
        (axes.set_ylabel, axes.set_ylim, axes.set_yticks, panel.y),
    ):
        set_label(axis.name)
        if axis.ticks:
            set_ticks(axis.ticks)
        if axis.limits:
            set_limits(*axis.limits)
    axes.tick_params(axis="y", labelcolor=theme.muted)
    if panel.level is not None:
        axes.axhline(panel.level, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1.5)
    if panel.bare:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
        axes.margins(0.08)
    else:
        axes.grid()
        if panel.x.log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(lambda _, __: "")
        for numbers in (axes.xaxis, axes.yaxis):
            numbers.set_major_formatter(_number)
    for trace in panel.traces:
        _labels(axes, trace)


def _number(value: float, _: float) -> str:
    """Return the number at a tick, thousands separated, without what floats add to it."""
    return f"{round(value, 9):,}".removesuffix(".0").replace("-", "−")


def _trace(axes: Axes, trace: Trace, place: int, theme: Theme) -> None:
    if not trace.points:
        return
    xs, ys = zip(*trace.points, strict=True)
    shade = colour(theme, trace.role, place)
    known = [(x, ends) for i, x in enumerate(xs) if (ends := _ends(trace, i)) is not None]
    if trace.band and known:
        lows, highs = zip(*(ends for _, ends in known), strict=True)
        axes.fill_between([x for x, _ in known], lows, highs, color=shade, alpha=0.18, linewidth=0)
    elif known:
        axes.vlines([x for x, _ in known], *zip(*(ends for _, ends in known), strict=True), color=shade, linewidth=0.9)
    dashed = (0, (4, 2)) if trace.role in {"train", "printed"} else "-"
    if trace.joined:
        mark = {} if trace.band else _mark(theme, trace.role, place)
        axes.plot(xs, ys, linestyle=dashed, **{**mark, "color": shade})
    else:
        areas = [SMALL + (LARGE - SMALL) * size for size in trace.sizes] or 18.0
        marker = _mark(theme, trace.role, place)["marker"]
        axes.scatter(xs, ys, s=areas, color=shade, marker=marker, alpha=0.75, linewidth=0)


def _labels(axes: Axes, trace: Trace) -> None:
    """Write labels beside dots; along a line above the whiskers, and only those that have room beside the last one."""
    share, last = axes.transScale + axes.transLimits, np.full(2, -1.0)
    for i, (x, y) in enumerate(trace.points if trace.labels else ()):
        place = (x, (_ends(trace, i) or (y, y))[1] if trace.joined else y)
        spot = share.transform(place)
        if trace.joined and bool((abs(spot - last) < (TEXT / (72 * WIDTH), TEXT / (72 * PLANE))).all()):
            continue
        last = spot
        beside = {"xytext": (0, 2), "ha": "center"} if trace.joined else {"xytext": (4, 3)}
        axes.annotate(trace.labels[i], place, textcoords="offset points", fontsize=TEXT - 1, weight="bold", **beside)


def grid(axes: Axes, panel: Grid, theme: Theme) -> None:
    """Draw a heat map with each share written into its cell, in percent."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("share", theme.ends)
    top = max((value for row in panel.values for value in row if value is not None), default=0.0) or 1.0
    cells = [[float("nan") if value is None else value for value in row] for row in panel.values]
    axes.imshow(cells, cmap=shades, vmin=0.0, vmax=top, aspect="auto")
    for y, row in enumerate(panel.values):
        for x, value in enumerate(row):
            text = "–" if value is None else f"{100 * value:.0f}"
            over = theme.over[value is not None and value > 0.55 * top]
            axes.text(x, y, text, ha="center", va="center", fontsize=TEXT - 1.5, color=over)
    axes.set_yticks(range(len(panel.rows)), ["\n".join(wrap(_cut(row, 78), 40)) for row in panel.rows])
    axes.set_xticks(
        range(len(panel.columns)), ["\n".join(wrap(column, 10, break_long_words=False)) for column in panel.columns]
    )
    axes.tick_params(length=0, labelsize=TEXT - 1.5, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)


DRAWN: Mapping[type[Panel], Callable[[Axes, Any, Theme], None]] = {Bars: bars, Plane: plane, Grid: grid}
