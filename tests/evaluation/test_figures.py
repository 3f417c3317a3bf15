"""Figures as files: what is drawn of which runs, that it is labelled, repeats to the byte and stands in the page."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import combinations
from math import dist
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from made_bank_page import bank
from made_run import made_items, made_manifest, write_run

from svr_async.commands.main import run as run_command
from svr_async.commands.main import svr as group
from svr_async.core.integrity import Integrity
from svr_async.evaluation.frontier import Frontier, Point, Setting
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.reports.bank_figures import bank_figures, layout
from svr_async.reports.figure_files import draw
from svr_async.reports.figure_model import Axis, Bars, Figure, Grid, Plane, Series, Trace
from svr_async.reports.frontier_figure import frontier_figures
from svr_async.reports.run_figures import abstention, run_figures

pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'svr-async[figures]'")
report = partial(run_command, group, "svr")
SIMULATED = {"judge": {**made_manifest()["judge"], "marks": ["simulated"]}}


def another(folder: Path, judge: str) -> Run:
    """Write a run of the same pairs by another judge and read it."""
    manifest = {"judge": {**SIMULATED["judge"], "name": judge}}
    return RunFolder.load(write_run(folder, manifest=manifest, metrics={"judge": judge, "judge_label": judge}))


def texts(svg: bytes) -> list[str]:
    """Return the texts of a figure, which stand as comments before their outlines."""
    ET.fromstring(svg)
    return [unescape(text.strip()) for text in re.findall(r"<!--(.*?)-->", svg.decode(), re.DOTALL)]


def test_a_run_is_drawn_into_files_and_into_its_page(tmp_path: Path) -> None:
    """A run of the rules judge on the sample: SVG and PNG in two themes, both marks in each, and no date."""
    run, page = str(tmp_path / "run"), tmp_path / "page.html"
    command = ["eval", "rubricbench", "--sample", "--limit", "14", "--judge", "rules", "--out", run, "-q"]
    assert report(command) == 0
    assert report(["report", run, "--figures", str(tmp_path / "figures"), "--out", str(page)]) == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    themes = ("activation", "activation-dark")  # too few pairs for a share of them, and one domain
    assert set(files) == {f"{name}.{kind}" for name in themes for kind in ("svg", "png")}
    for name in themes:
        assert "OFFLINE RULES · SAMPLE DATA" in texts(files[f"{name}.svg"])
        assert b"dc:date" not in files[f"{name}.svg"]
        assert files[f"{name}.png"].startswith(b"\x89PNG")
    html = page.read_text()
    assert "default-src &#39;none&#39;; img-src data:; script-src &#39;sha256-" in html
    assert re.search(r'alt="Which rubrics are chosen where.*\[OFFLINE RULES\] \[SAMPLE DATA\]', html)
    assert html.count(b64encode(files["activation.svg"]).decode()) == 1
    assert html.count(b64encode(files["activation-dark.svg"]).decode()) == 1


def test_without_the_flag_the_page_shows_and_allows_no_image(tmp_path: Path) -> None:
    """Nothing of figures is in a page that was not asked for them."""
    assert report(["report", str(write_run(tmp_path / "a")), "--out", str(tmp_path / "page.html")]) == 0
    html = (tmp_path / "page.html").read_text()
    assert "img-src" not in html
    assert "<img" not in html


def test_several_runs_have_the_figures_that_compare_them(tmp_path: Path) -> None:
    """Accuracy, domains, unsure pairs, cost, rubrics by domain, and agreement only where a bank is the same."""
    first = RunFolder.load(write_run(tmp_path / "a", manifest=SIMULATED))
    second = another(tmp_path / "b", "later")
    found = {figure.name: figure for figure in run_figures([first, second])}
    assert set(found) == {"accuracy", "domains", "abstention", "cost", "activation", "agreement"}
    assert {figure.marks for figure in found.values()} == {("SIMULATED",)}
    bars = found["accuracy"].panels[0]
    assert isinstance(bars, Bars)
    assert bars.series[0].values == (100 * first.metrics["accuracy"],) * 2
    third = replace(second, metrics={**second.metrics, "bank": "another"})
    assert "agreement" not in {figure.name for figure in run_figures([first, third])}


def test_unsure_pairs_are_left_out_by_their_margin_alone(tmp_path: Path) -> None:
    """At the right end all pairs with a verdict are answered; pairs of one |margin| are never parted."""

    def coarse(item: Item) -> Item:
        return item if not item.margin else replace(item, margin=0.5 if abs(item.margin) < 1 else 1.0)

    items = [coarse(item) for item in made_items()]
    run = RunFolder.load(write_run(tmp_path / "a", items=items))
    told = [item for item in items if item.margin]
    sure = [item for item in told if item.margin == 1.0]
    points, ends = abstention(run)
    expected = [
        (len(some) / len(items), sum(item.correct is True for item in some) / len(some)) for some in (sure, told)
    ]
    assert points == tuple(pytest.approx((100 * x, 100 * y)) for x, y in expected)
    assert all(low < y < high for (_, y), (low, high) in zip(points, ends, strict=True))


def test_a_bank_has_its_training_and_a_map() -> None:
    """Rounds are drawn as measured; like rubrics lie nearer to each other than unlike ones; twice the same places."""
    found = {figure.name: figure for figure in bank_figures(bank(rubrics=5, marks=frozenset({Integrity.SIMULATED})))}
    assert set(found) == {"training", "map"}
    assert {figure.marks for figure in found.values()} == {("SIMULATED",)}
    like = [f"cites a source for every claim {word}" for word in ("made", "given", "stated")]
    unlike = [f"code compiles without errors {word}" for word in ("today", "always", "soon")]
    places = layout([*like, *unlike])
    assert places == layout([*like, *unlike])
    inside = [dist(a, b) for side in (places[:3], places[3:]) for a, b in combinations(side, 2)]
    assert max(inside) < min(dist(a, b) for a in places[:3] for b in places[3:])
    assert layout(["", " ", "…", "?"]) == [(0.0, 0.0)] * 4


def test_a_frontier_names_its_best_plans(tmp_path: Path) -> None:
    """The best for their cost are joined and numbered, each number told below; marks are those of the runs."""
    run = RunFolder.load(write_run(tmp_path / "a", manifest=SIMULATED))
    points = tuple(
        Point(
            setting=Setting(kind=kind, judges=("small",)),
            missing=0,
            right=right,
            calls=1,
            tokens=10,
            usd=cost,
            best=True,
        )
        for kind, cost, right in (("once", 0.1, (True, False)), ("both", 0.2, (True, True)))
    )
    found = Frontier(n_pairs=2, points=points, left_out=(), held_out=None, priced=True)
    (figure,) = frontier_figures([run], found)
    assert figure.marks == ("SIMULATED",)
    assert figure.notes[:2] == ("1  small, once", "2  small, both orders")
    plane = figure.panels[0]
    assert isinstance(plane, Plane)
    assert plane.traces[0].points == ((0.1, 50.0), (0.2, 100.0))
    assert not list(frontier_figures([run], replace(found, points=())))


def test_texts_of_others_are_drawn_as_they_are() -> None:
    """Formulas, ends of comments, letters that the font lacks, and markup; all kinds of panels repeat to the byte."""
    hostile = ("$x^2$ & <script>", "--> <b>", "評価", "\\frac{1}{2}$")
    panels = (
        Bars(
            names=hostile, series=(Series(name=hostile[0], values=(1.0, None, -2.0, 3.0)),), axis=Axis(name=hostile[1])
        ),
        Plane(traces=(Trace(name=hostile[1], points=()),), x=Axis(name=hostile[2]), y=Axis(name=hostile[3])),
        Grid(rows=hostile, columns=hostile, values=((0.5, None, 0.0, 1.0),) * 4),
    )
    odd = Figure(name="odd", title=hostile[0], panels=panels, marks=("SIMULATED",), notes=hostile)
    files = draw(odd).files
    assert files == draw(odd).files
    told = texts(files["odd.svg"])
    assert "SIMULATED" in told
    assert "$x^2$ & <script>" in told
    assert b"<script" not in re.sub(rb"<!--.*?-->", b"", files["odd.svg"], flags=re.DOTALL)


def test_what_cannot_be_drawn_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A place that is a file, and a machine without matplotlib: one line, how to mend it, and no page."""
    run, page = str(write_run(tmp_path / "a")), tmp_path / "page.html"
    (tmp_path / "file").write_text("")
    command = ["report", run, "--out", str(page), "--figures"]
    assert report([*command, str(tmp_path / "file")]) != 0
    assert "choose another place with --figures" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report([*command, str(tmp_path / "figures")]) == 2
    told = capsys.readouterr().err
    assert "--figures needs the package matplotlib" in told
    assert "pip install 'svr-async[figures]'" in told
    assert not page.exists()
    assert not (tmp_path / "figures").exists()
