"""Plots as files: their content, their labels, and the same bytes each time."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from made_run import made_items, made_manifest, write_run

from svr_async.commands.main import run as run_command
from svr_async.commands.main import svr as group
from svr_async.evaluation.frontier import Frontier, Point
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import abstention, summaries_of
from svr_async.reports.drawing import Figure, Series, dots, files_of, plane
from svr_async.reports.figures import run_figures
from svr_async.reports.frontier import frontier_figure

report = partial(run_command, group, "svr")
SIMULATED = {"judge": {**made_manifest()["judge"], "marks": ["simulated"]}}


def texts(svg: bytes) -> list[str]:
    """Return the texts of a figure, which stand as comments before their outlines."""
    ET.fromstring(svg)
    return [unescape(text.strip()) for text in re.findall(r"<!--(.*?)-->", svg.decode(), re.DOTALL)]


def test_figures_of_a_run_are_files_with_its_marks(tmp_path: Path) -> None:
    """SVG for light and dark pages and PNG of each figure, marked as the run is, without a date."""
    run = str(write_run(tmp_path / "run", manifest=SIMULATED))
    assert report(["report", run, "--figures", str(tmp_path / "f"), "--out", str(tmp_path / "page.html")]) == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "f").iterdir()}
    names = ("abstention", "domains")
    assert set(files) == {f"{name}{end}" for name in names for end in (".svg", "-dark.svg", ".png")}
    for name in names:
        assert "SIMULATED" in texts(files[f"{name}.svg"])
        assert b"dc:date" not in files[f"{name}.svg"]
        assert b"#1d5f82" not in files[f"{name}-dark.svg"]
        assert files[f"{name}.png"].startswith(b"\x89PNG")


def test_several_runs_have_the_figures_that_compare_them(tmp_path: Path) -> None:
    """Accuracy of each, domains, unsure pairs and cost; nothing of fewer than twenty pairs."""
    runs = [
        Run.load(write_run(tmp_path / name, manifest=SIMULATED, metrics={"usage": {"prompt_tokens": tokens}}))
        for name, tokens in (("a", 1000), ("b", 9000))
    ]
    found = {figure.name: figure for figure in run_figures(summaries_of(runs))}
    assert set(found) == {"accuracy", "domains", "abstention", "cost"}
    assert {figure.marks for figure in found.values()} == {("SIMULATED",)}
    values = [value for _, value in found["accuracy"].panels[0].series[0].points]
    assert values == [100 * runs[0].metrics["accuracy"]] * 2
    few = Run.load(write_run(tmp_path / "few", items=made_items(n=12)))
    assert not list(run_figures([few.summary]))


def test_unsure_pairs_are_left_out_by_their_margin_alone() -> None:
    """At the right end all pairs with a verdict are answered; pairs of one |margin| are never parted."""

    def coarse(item: Item) -> Item:
        return item if not item.margin else replace(item, margin=0.5 if abs(item.margin) < 1 else 1.0)

    items = [coarse(item) for item in made_items()]
    known = [item for item in items if item.margin]
    sure = [item for item in known if item.margin == 1.0]
    found = abstention(items)
    expected = [
        (len(some) / len(items), sum(item.correct is True for item in some) / len(some)) for some in (sure, known)
    ]
    assert [(one.answered, one.accuracy) for one in found] == [pytest.approx(one) for one in expected]
    assert all(one.ci95.low < one.accuracy < one.ci95.high for one in found)


def test_a_frontier_names_its_best_plans(tmp_path: Path) -> None:
    """The best for their cost are joined and numbered; marks are those of the runs."""
    run = Run.load(write_run(tmp_path / "a", manifest=SIMULATED))
    points = tuple(
        Point(kind="run", judges=("small",), orders=orders, tokens=10, best=True, right=right, usd=cost)
        for orders, cost, right in (("", 0.1, (True, False)), (" --order both", 0.2, (True, True)))
    )
    figure = frontier_figure([run.summary], Frontier(n_pairs=2, points=points, priced=True))
    assert figure.marks == ("SIMULATED",)
    assert figure.notes[:2] == ("1  small", "2  small, both orders")
    assert figure.panels[0].series[0].points == ((0.1, 50.0), (0.2, 100.0))


def test_texts_of_others_are_drawn_as_they_are() -> None:
    """Formulas, ends of comments, letters that the font lacks, and markup; all kinds of panels repeat to the byte."""
    hostile = ("$x^2$ & <script>", "--> <b>", "評価", "\\frac{1}{2}$")
    panels = (
        dots(hostile, [Series(name=hostile[0], points=((0.0, 1.0), (2.0, -2.0)))], hostile[1], level=0.0),
        plane([Series(name=hostile[1], points=())], hostile[2], hostile[3]),
    )
    odd = Figure(name="odd", title=hostile[0], panels=panels, marks=("SIMULATED",), notes=hostile)
    files = files_of(odd)
    assert files == files_of(odd)
    assert {"SIMULATED", "$x^2$ & <script>"} <= set(texts(files["odd.svg"]))
    assert b"<script" not in re.sub(rb"<!--.*?-->", b"", files["odd.svg"], flags=re.DOTALL)
