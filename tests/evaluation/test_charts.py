"""Figures place what they draw where the numbers say, inside the frame, and hold nothing but numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from svr_async.reports import charts

shares = st.floats(0, 1)


def shapes(markup: Markup, name: str) -> list[ET.Element[str]]:
    """Return the shapes of a class in a figure."""
    return [node for node in ET.fromstring(str(markup)) if node.get("class") == name]


def percent_of(node: ET.Element[str], key: str) -> float:
    """Return a percentage attribute as a number."""
    return float(node.attrib[key].removesuffix("%"))


@given(shares, shares, shares)
@settings(deadline=None)
def test_an_interval_track_is_true_to_scale(value: float, one: float, other: float) -> None:
    """The dot is at the value and the band spans the interval, in percent of the width."""
    low, high = sorted((one, other))
    track = charts.interval_track(value, (low, high))

    assert percent_of(shapes(track, "dot")[0], "cx") == pytest.approx(100 * value, abs=0.01)
    band = shapes(track, "span")[0]
    assert percent_of(band, "x") == pytest.approx(100 * low, abs=0.01)
    assert percent_of(band, "width") == pytest.approx(100 * (high - low), abs=0.02)
    assert percent_of(shapes(track, "half")[0], "x1") == 50


def test_an_unknown_accuracy_draws_no_dot() -> None:
    """Nothing known, nothing drawn but the track."""
    track = charts.interval_track(None, None)

    assert shapes(track, "dot") == shapes(track, "span") == []


@pytest.mark.parametrize(("value", "name", "x"), [(0.5, "to-a", 25), (-0.5, "to-b", 50), (2.0, "to-a", 0)])
def test_a_diverging_bar_points_to_the_favoured_side(value: float, name: str, x: int) -> None:
    """Towards A to the left, towards B to the right, never beyond its half."""
    bar = shapes(charts.diverging_bar(value, 1.0), name)[0]

    assert percent_of(bar, "x") == x
    assert percent_of(bar, "width") <= 50


@pytest.mark.parametrize(("value", "largest"), [(0.0, 1.0), (0.0, 0.0)])
def test_no_contribution_draws_no_bar(value: float, largest: float) -> None:
    """Zero is an empty bar, and nothing is divided by it."""
    markup = charts.diverging_bar(value, largest)

    assert shapes(markup, "to-a") == shapes(markup, "to-b") == []


def test_a_stacked_bar_fills_its_width() -> None:
    """Shares of a whole lie end to end; empty ones are left out."""
    parts = shapes(charts.stacked_bar([("right", 0.75), ("tied", 0.0), ("wrong", 0.25)]), "wrong")

    assert percent_of(parts[0], "x") + percent_of(parts[0], "width") == pytest.approx(100)


@given(st.lists(st.tuples(shares, shares, shares), min_size=2, max_size=5))
@settings(deadline=None)
def test_a_calibration_plot_stays_in_its_frame(rows: list[tuple[float, float, float]]) -> None:
    """Every shape lies inside the drawing, and higher accuracy is drawn higher."""
    bins = []
    for i, row in enumerate(rows):
        low, middle, high = sorted(row)
        bins.append(charts.Bin(low=i, high=i + 1, n=9, accuracy=middle, ci95=(low, high)))
    plot = charts.calibration_plot(bins)
    height = float(ET.fromstring(str(plot)).attrib["height"])
    dots = shapes(plot, "dot")

    assert len(dots) == len(bins)
    assert all(0 <= float(node.attrib["cy"]) <= height for node in dots)
    assert all(0 < percent_of(node, "cx") < 100 for node in dots)
    best = max(range(len(bins)), key=lambda i: bins[i].accuracy)
    assert float(dots[best].attrib["cy"]) == min(float(node.attrib["cy"]) for node in dots)


def test_a_dumbbell_joins_ring_and_dot() -> None:
    """The ring is the first accuracy, the dot the second, a line between."""
    track = charts.dumbbell_track(0.8, 0.6)

    assert percent_of(shapes(track, "ring")[0], "cx") == 80
    assert percent_of(shapes(track, "dot")[0], "cx") == 60
    link = shapes(track, "link")[0]
    assert (percent_of(link, "x1"), percent_of(link, "x2")) == (60, 80)


def test_large_margins_need_no_decimals() -> None:
    """A baseline's margins are counts of characters; their range stays short enough for a phone."""
    wide = charts.Bin(low=7.0, high=303.0, n=1, accuracy=1, ci95=(0, 1))

    assert charts.margin_range(wide) == "7–303"


def test_a_margin_range_of_one_value_is_one_number() -> None:
    """Both ends equal when rounded: shown once."""
    one = charts.Bin(low=1.0, high=1.001, n=1, accuracy=1, ci95=(0, 1))

    assert charts.margin_range(one) == "1.00"


def test_figures_hold_no_script_and_no_reference() -> None:
    """Nothing in a figure can load or run anything."""
    text = str(charts.percent_axis()) + str(charts.dumbbell_track(0.1, 0.9))

    assert not re.search(r"href|url\(|script|on\w+=|style=", text)
