"""Figures of a bank's report: true to scale, inside their frame, every value written, numbers only."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from svr_async.reports import curve_charts
from svr_async.reports.curve_charts import Plot, Trace

shares = st.floats(0, 1)


def nodes(markup: Markup, name: str, tag: str | None = None) -> list[ET.Element[str]]:
    """Return the shapes of a class in a figure."""
    return [node for node in ET.fromstring(str(markup)) if node.get("class") == name and tag in {None, node.tag}]


def plot(values: list[float], **changes: Any) -> Plot:
    """Return a plot of one line over its values."""
    points = tuple(enumerate(values))
    return Plot(
        **{"slots": len(values), "low": 0.0, "high": 1.0, "traces": (Trace(kind="dev", points=points),), **changes}
    )


@given(st.lists(shares, min_size=1, max_size=40), st.floats(0, 0.5))
@settings(deadline=None)
def test_lines_are_true_to_scale_and_stay_in_the_frame(values: list[float], error: float) -> None:
    """Higher is higher, later is further right, and no shape, whisker or tick leaves the drawing."""
    best = max(range(len(values)), key=values.__getitem__)
    drawn = curve_charts.line_plot(
        plot(values, marked=(best, values[best]), error=error, ticks=tuple(range(len(values))))
    )
    height = float(ET.fromstring(str(drawn)).attrib["height"])
    dots = nodes(drawn, "dev", "circle")
    assert len(dots) == len(values)
    assert len(nodes(drawn, "dev", "line")) == len(values) - 1
    xs = [float(dot.attrib["cx"].rstrip("%")) for dot in dots]
    assert xs == sorted(xs)
    assert all(curve_charts.GUTTER < x < 100 for x in xs)
    for dot, value in zip(dots, values, strict=True):
        assert float(dot.attrib["cy"]) == pytest.approx(curve_charts.TOP + (1 - value) * curve_charts.HEIGHT, abs=0.01)
    for node in ET.fromstring(str(drawn)):
        for key in ("y", "y1", "y2", "cy"):
            assert 0 <= float(node.get(key, 0)) <= height
    assert len(nodes(drawn, "dot")) == 1
    assert len(nodes(drawn, "tick")) <= curve_charts.MOST_TICKS


def test_one_half_is_drawn_only_for_shares_and_inside_the_range() -> None:
    """The line of a coin flip stands where accuracy is plotted around it."""
    assert nodes(curve_charts.line_plot(plot([0.4, 0.6], shares=True)), "half")
    assert not nodes(curve_charts.line_plot(plot([0.4, 0.6])), "half")
    assert not nodes(curve_charts.line_plot(plot([0.7], low=0.6, high=0.8, shares=True)), "half")


def test_a_plot_without_height_or_mark_is_drawn() -> None:
    """Nothing is divided by zero, and nothing is marked that was not taken."""
    drawn = curve_charts.line_plot(plot([0.5, 0.5], low=0.5, high=0.5))
    assert not nodes(drawn, "dot")


def test_each_value_by_round_is_written_once_and_unknown_ones_are_left_out() -> None:
    """Six rounds at most are all written; of more the first and the last."""
    drawn = curve_charts.round_plot([("ring", [1.0, None, 3.0]), ("dot", [2.0, 2.0, 3.0])], 1)
    assert [node.text for node in nodes(drawn, "value")] == ["1.0", "3.0", "2.0", "2.0", "3.0"]
    many = curve_charts.round_plot([("dot", [float(n) for n in range(9)])])
    assert [node.text for node in nodes(many, "value")] == ["0", "8"]
    assert not nodes(curve_charts.round_plot([("dot", [None, None])]), "value")


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=6))
@settings(deadline=None)
def test_values_by_round_never_cover_each_other(rows: list[tuple[float, float]]) -> None:
    """Where two values share a round, the higher one's number stands above and the lower one's below."""
    drawn = curve_charts.round_plot([("ring", [a for a, _ in rows]), ("dot", [b for _, b in rows])], 2)
    by_place: dict[str, list[float]] = {}
    for node in nodes(drawn, "value"):
        by_place.setdefault(node.attrib["x"], []).append(float(node.attrib["y"]))
    assert all(abs(first - second) > 12 for first, second in by_place.values())


@pytest.mark.parametrize(("value", "largest", "width"), [(1, 2, 50), (3, 2, 100), (-1, 2, 0), (1, 0, 0)])
def test_an_amount_fills_its_share(value: int, largest: int, width: int) -> None:
    """The largest fills the width; nothing is drawn outside it."""
    bar = nodes(curve_charts.share_bar(value, largest), "amount")[0]
    assert float(bar.attrib["width"].rstrip("%")) == width


def test_the_figures_hold_numbers_only() -> None:
    """Nothing in a figure can load or run anything."""
    text = str(curve_charts.line_plot(plot([0.1, 0.9]))) + str(curve_charts.round_axis([(1, 0.0, 1.0)]))
    assert not re.search(r"href|url\(|script|on\w+=|style=", text)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.45, 0.8, ["0.450", "0.625", "0.800"]), (0.4, 0.8, ["0.40", "0.60", "0.80"])],
)
def test_gridlines_are_labelled_with_the_digits_that_the_middle_needs(
    low: float, high: float, labels: list[str]
) -> None:
    """A gridline stands where its label says; all three labels have as many digits."""
    drawn = curve_charts.line_plot(plot([0.5], low=low, high=high))
    assert [node.text for node in ET.fromstring(str(drawn)) if node.tag == "text"][:3] == labels
