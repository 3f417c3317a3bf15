"""Plots with matplotlib in one style: SVG for light and dark pages, PNG for documents.

A figure is drawn once, in light colours. Its dark version replaces every colour by the one for dark pages. The same
figure gives the same bytes.
"""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from svr_async.core.files import open_folder, write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Ends = tuple[float, float]
Kind = Literal["line", "band", "dots"]

WIDTH = 4.8  # inches: one column of a page, and a phone's width at 81 %
LINE = 0.165  # inches of a line of text
TEXT = 8.0  # points
DPI = 220  # of PNG, and of what texts are measured at
TITLE_CHARS, NOTE_CHARS, NAME_CHARS, LEGEND_CHARS = 56, 102, 34, 66
ROW, PLANE, LOW_PLANE, CELL, FOOT = 0.2, 2.3, 1.2, 0.3, 0.45  # inches: a dot's row, planes, a cell, an axis
SMALL, LARGE = 10.0, 120.0  # square points of a dot of size 0 and of size 1
MARKERS = "os^Dvp<>hX"  # by place, so that series differ in more than their colour
COLOURS: dict[str, tuple[str, str]] = {  # name: on a light page, on a dark page
    "ink": ("#1c1f24", "#e9e7e1"), "muted": ("#5b606a", "#a3a8b2"), "hair": ("#d5d2ca", "#3a404b"),
    "warn": ("#8a5a00", "#e0b25a"), "other": ("#9a9da3", "#6d737d"), "first": ("#1d5f82", "#7fb7d6"),
    "second": ("#a4551c", "#d99b6a"), "third": ("#0f766e", "#63c7bd"), "fourth": ("#7a4b8f", "#c6a3da"),
    "fifth": ("#8a6d00", "#d8c060"), "sixth": ("#9d3c7c", "#e59ac8"), "seventh": ("#3f8fa8", "#9fdbe6"),
}  # fmt: skip
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "muted")
METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points with optional intervals of y and labels, under one name in the legend.

    In `dots` x is the row of the name. `colour` is a name of COLOURS, without one the colour of its place. Hollow
    points are values that someone else published. `sizes` are between 0 and 1.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    intervals: tuple[Ends | None, ...] = ()
    sizes: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    colour: str = ""
    kind: Kind = "line"
    hollow: bool = False
    dashed: bool = False

    def interval(self, place: int) -> Ends | None:
        """Return the interval of a point."""
        return self.intervals[place] if self.intervals else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: its height in inches, how it is painted, and the series that the legend names."""

    height: float
    paint: Callable[[Axes], None]
    series: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Panels from top to bottom, with a title, the marks of the judge, and notes below."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    marks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """A description for readers who do not see the figure."""
        marks = "".join(f" [{mark}]" for mark in self.marks)
        names = "; ".join(dict.fromkeys(one.name for panel in self.panels for one in panel.series if one.name))
        return f"{self.title}{marks}{f': {names}' if names else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A drawn figure for a page: addresses that hold the SVG for light and for dark pages."""

    figure: Figure
    light: str
    dark: str


def image(figure: Figure) -> Image:
    """Draw a figure for a page, which shows title, marks and notes itself."""
    light = _drawn(figure, ("svg",), bare=True)["svg"]
    return Image(figure=figure, light=_address(light), dark=_address(_in_dark(light)))


def write_figures(folder: Path, figures: Sequence[Figure]) -> None:
    """Write NAME.svg, NAME-dark.svg and NAME.png of each figure into a folder, which is created if missing."""
    open_folder(folder, "--figures")
    for figure in figures:
        for name, data in files_of(figure).items():
            write_atomic(folder / name, data)


def files_of(figure: Figure) -> dict[str, bytes]:
    """Return the files of a figure by their names."""
    drawn = _drawn(figure, ("svg", "png"))
    dark = _in_dark(drawn["svg"])
    return {f"{figure.name}.svg": drawn["svg"], f"{figure.name}-dark.svg": dark, f"{figure.name}.png": drawn["png"]}


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _in_dark(svg: bytes) -> bytes:
    for light, dark in COLOURS.values():
        svg = svg.replace(light.encode(), dark.encode())
    return svg


def _light(name: str) -> str:
    return COLOURS[name][0]


def _drawn(figure: Figure, kinds: Sequence[str], *, bare: bool = False) -> dict[str, bytes]:
    from matplotlib import rc_context

    found = {}
    with rc_context(_settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # shown as an empty box
        canvas = _canvas(figure, bare=bare)
        for kind in kinds:
            out = io.BytesIO()
            canvas.savefig(out, format=kind, metadata=METADATA[kind], transparent=True, dpi=DPI)
            found[kind] = out.getvalue()
    return found


def _settings() -> dict[Any, Any]:
    """Return matplotlib's settings: the fonts that it ships, letters as outlines, ids that do not change."""
    ink, muted, hair = map(_light, ("ink", "muted", "hair"))
    return {
        "svg.hashsalt": "svr-async", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": TEXT,
        "axes.labelsize": TEXT, "xtick.labelsize": TEXT - 0.5, "ytick.labelsize": TEXT - 0.5, "text.hinting": "none",
        "text.parse_math": False, "axes.unicode_minus": True, "text.color": ink, "axes.labelcolor": muted,
        "axes.edgecolor": hair, "xtick.color": hair, "xtick.labelcolor": muted, "ytick.color": hair,
        "ytick.labelcolor": ink, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
        "axes.axisbelow": True, "axes.grid": True, "grid.color": hair, "grid.linewidth": 0.6, "lines.linewidth": 1.5,
        "lines.markersize": 4,
    }  # fmt: skip


def _canvas(figure: Figure, *, bare: bool) -> Canvas:
    """Draw title, marks and legend above the panels and the notes below them; `bare` draws the legend only."""
    from matplotlib.figure import Figure as Canvas

    title = [] if bare else wrap(figure.title, TITLE_CHARS)
    marks = () if bare else figure.marks
    notes = [] if bare else [line for note in figure.notes for line in wrap(note, NOTE_CHARS)]
    rows = _legend_rows(figure)
    head = LINE * (1.15 * len(title) + bool(marks) + len(rows)) + (0.14 if title or rows else 0.04)
    foot = 0.85 * LINE * len(notes) + (0.06 if notes else 0)
    heights = [panel.height for panel in figure.panels]
    height = head + foot + sum(heights)
    canvas = Canvas(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    engine: Any = canvas.get_layout_engine()
    engine.set(rect=(0.0, foot / height, 1.0, 1 - (head + foot) / height), w_pad=0.06, h_pad=0.04)
    top = height - 0.05
    canvas.text(0.012, top / height, "\n".join(title), fontsize=TEXT + 2, weight="bold", va="top", linespacing=1.15)
    top -= 1.15 * LINE * len(title)
    if marks:
        words = " · ".join(marks)
        canvas.text(0.012, top / height, words, fontsize=TEXT - 0.5, weight="bold", va="top", color=_light("warn"))
        top -= LINE
    for row in rows:
        _legend(canvas, row, top / height)
        top -= LINE
    for line, text in enumerate(reversed(notes)):
        spot = (0.05 + 0.85 * LINE * line) / height
        canvas.text(0.012, spot, text, fontsize=TEXT - 1.5, color=_light("muted"))
    axes = canvas.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for place, panel in zip(axes, figure.panels, strict=True):
        panel.paint(place)
    _fix_layout(canvas)
    return canvas


def _fix_layout(canvas: Canvas) -> None:
    """Fix the layout to a ten-thousandth: the solver's last digits differ between calls."""
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    for axes in canvas.axes:
        left, foot, width, height = (round(float(value), 4) for value in axes.get_position().bounds)
        axes.set_position((left, foot, width, height))


def _legend_rows(figure: Figure) -> list[list[tuple[str, dict[str, Any]]]]:
    """Return the legend's lines of (name, mark), each as full as possible; empty for a single series."""
    entries = {one.name: _mark(one, place) for panel in figure.panels for place, one in _placed(panel.series)}
    entries.pop("", None)
    rows: list[list[tuple[str, dict[str, Any]]]] = []
    room = 0
    for name, mark in entries.items() if len(entries) > 1 else ():
        width = min(len(name), LEGEND_CHARS) + 5
        if not rows or width > room:
            rows.append([])
            room = LEGEND_CHARS
        rows[-1].append((name if len(name) <= LEGEND_CHARS else f"{name[: LEGEND_CHARS - 1]}…", mark))
        room -= width
    return rows


def _legend(canvas: Canvas, row: Sequence[tuple[str, dict[str, Any]]], y: float) -> None:
    from matplotlib.lines import Line2D

    canvas.legend(
        [Line2D([], [], linestyle="", **mark) for _, mark in row], [name for name, _ in row], loc="upper left",
        bbox_to_anchor=(0.0, y), ncols=len(row), frameon=False, fontsize=TEXT - 0.5, borderpad=0.0, borderaxespad=0.3,
        handletextpad=0.2, columnspacing=1.2,
    )  # fmt: skip


def _placed(series: Sequence[Series]) -> list[tuple[int, Series]]:
    """Return each series with its place among those without a colour."""
    found, place = [], 0
    for one in series:
        found.append((place, one))
        place += not one.colour
    return found


def _mark(one: Series, place: int) -> dict[str, Any]:
    shade = _light(one.colour or PLACES[place % len(PLACES)])
    if one.hollow:
        return {"marker": "D", "markerfacecolor": "none", "markeredgecolor": shade, "markeredgewidth": 1.0}
    face = {"markerfacecolor": "none"} if one.dashed else {}
    return {"marker": "o" if one.colour else MARKERS[place % len(MARKERS)], "color": shade, **face}


def dots(
    names: Sequence[str], series: Sequence[Series], label: str, *, level: float | None = None, digits: int = 1
) -> Panel:
    """Return a row for each name with a dot and its interval for each series; the axis is zoomed to the data.

    The x of a point is the place of its name. `level` is a dashed line, drawn where it is near the data.
    """
    solid = max(1, sum(not one.hollow for one in series))
    heights = [max(0.62 * ROW * solid, 0.13 * len(wrap(name, NAME_CHARS))) + 0.1 for name in names]

    def paint(axes: Axes) -> None:
        number = 0
        for place, one in _placed(series):
            shift = 0.0 if one.hollow else 0.6 * (number - (solid - 1) / 2) / solid
            number += not one.hollow
            mark = _mark(one, place)
            for i, (row, value) in enumerate(one.points):
                if (ends := one.interval(i)) is not None:
                    axes.hlines(row + shift, *ends, color=mark.get("color"), linewidth=1.6, alpha=0.55)
                axes.plot((value,), (row + shift,), linestyle="", **{**mark, "markersize": 5})
                if solid == 1 and not one.hollow:
                    text = f"{value:,.{digits}f}".replace("-", "−")
                    axes.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=TEXT - 1)
        axes.set_yticks(range(len(names)), ["\n".join(wrap(name, NAME_CHARS)) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(label)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        low, high = axes.get_xlim()
        if level is not None and low - (high - low) / 2 <= level <= high + (high - low) / 2:  # near the data
            axes.axvline(level, color=_light("muted"), linewidth=0.8, linestyle=(0, (4, 3)), zorder=1.5)

    return Panel(height=sum(heights) + FOOT, paint=paint, series=tuple(series))


def plane(
    series: Sequence[Series],
    x: str,
    y: str,
    *,
    ticks: Sequence[float] = (),
    labels: Sequence[str] = (),
    log: bool = False,
    low: bool = False,
) -> Panel:
    """Return lines, bands and dots over two axes zoomed to the data.

    `ticks` are the only numbers of the x axis, with `labels` in their place. With `log` equal steps of x are factors.
    """

    def paint(axes: Axes) -> None:
        for place, one in _placed(series):
            _trace(axes, one, place)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.tick_params(axis="y", labelcolor=_light("muted"))
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(lambda _, __: "")
        axes.xaxis.set_major_formatter(_number)
        axes.yaxis.set_major_formatter(_number)
        if ticks:
            axes.set_xticks(ticks, labels or None)
        for one in series:
            _labels(axes, one)

    return Panel(height=(LOW_PLANE if low else PLANE) + (FOOT if x else 0.25), paint=paint, series=tuple(series))


def _number(value: float, _: float) -> str:
    """Return the number at a tick, thousands separated, without rounding noise."""
    return f"{round(value, 9):,}".removesuffix(".0").replace("-", "−")


def _trace(axes: Axes, one: Series, place: int) -> None:
    if not one.points:
        return
    xs, ys = zip(*one.points, strict=True)
    mark = _mark(one, place)
    shade = mark.get("color") or mark["markeredgecolor"]
    known = [(x, ends) for i, x in enumerate(xs) if (ends := one.interval(i)) is not None]
    if known:
        places, (lows, highs) = [x for x, _ in known], zip(*(ends for _, ends in known), strict=True)
        if one.kind == "band":
            axes.fill_between(places, lows, highs, color=shade, alpha=0.18, linewidth=0)
        else:
            axes.vlines(places, lows, highs, color=shade, linewidth=0.9)
    if one.kind == "dots":
        areas = [SMALL + (LARGE - SMALL) * size for size in one.sizes] or 18.0
        axes.scatter(xs, ys, s=areas, color=shade, marker=mark["marker"], alpha=0.75, linewidth=0)
    else:
        dash = (0, (4, 2)) if one.dashed or one.hollow else "-"
        axes.plot(xs, ys, linestyle=dash, **{**({} if one.kind == "band" else mark), "color": shade})


def _labels(axes: Axes, one: Series) -> None:
    """Write the labels of points; along a line above its intervals, and only those that have room."""
    import numpy as np

    share, last = axes.transScale + axes.transLimits, np.full(2, -1.0)
    along = one.kind == "line"
    for i, (x, y) in enumerate(one.points if one.labels else ()):
        place = (x, (one.interval(i) or (y, y))[1] if along else y)
        spot = share.transform(place)
        if along and bool((abs(spot - last) < (TEXT / (72 * WIDTH), TEXT / (72 * PLANE))).all()):
            continue
        last = spot
        where = {"xytext": (0, 2), "ha": "center"} if along else {"xytext": (4, 3)}
        axes.annotate(one.labels[i], place, textcoords="offset points", fontsize=TEXT - 1, weight="bold", **where)
