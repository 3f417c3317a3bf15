"""`svr report --frontier`: what it draws is what `svr eval` would give, and it sends nothing."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimConfig, SimServer
from rig import run_metrics, serving, svr_here, write_bank, write_bench
from test_plan_flags import RUBRICS, name_judges

N = 60


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, SimServer]]:
    """Judge planted pairs with two judges in both orders and a third in one; return the folder and the endpoint."""
    folder, before = tmp_path_factory.mktemp("judged"), Path.cwd()
    os.chdir(folder)
    try:
        with serving(SimConfig()) as sim:
            write_bench(folder / "bench.jsonl", N)
            name_judges(folder, sim.base_url)
            write_bank(folder / "bank")
            (folder / "rubrics.txt").write_text("\n".join(RUBRICS))
            for judge, order in (("small", "both"), ("big", "both"), ("mid", "hash")):
                assert evaluate("--judge", judge, "--order", order, "--audit", 0, out=judge) == 0
            yield folder, sim
    finally:
        os.chdir(before)


def evaluate(*args: object, out: str) -> int:
    """Run `svr eval` with the fixed rubrics."""
    fixed = ("eval", "rubricbench", "--data", "bench.jsonl", "--rubrics", "rubrics.txt", "-q", "--out", out)
    return svr_here(*fixed, *args)


def drawn(*runs: str) -> dict[str, Any]:
    """Draw the frontier of runs as JSON."""
    assert svr_here("report", *runs, "--frontier", "--out", "frontier.json") == 0
    found: dict[str, Any] = orjson.loads(Path("frontier.json").read_bytes())
    return found


def test_every_kind_of_point_is_what_an_evaluation_gives(judged: tuple[Path, SimServer]) -> None:
    """For one point of each kind, a run with the flags shown has the same accuracy and needs no call."""
    _, sim = judged
    before = sim.stats()["calls"]
    points = drawn("small", "big", "mid")["points"]
    assert sim.stats()["calls"] == before
    chosen = {point["kind"]: point for point in points}
    assert set(chosen) == {"run", "escalate", "jury"}
    for number, point in enumerate(chosen.values()):
        assert evaluate(*point["flags"].split(), "--audit", 0, "--offline", out=f"again-{number}") == 0
        found = run_metrics(f"again-{number}")
        assert found["accuracy"] == pytest.approx(point["accuracy"], abs=1e-6)
        if point["kind"] != "escalate":  # which costs the mean price of a pair for each close one
            assert found["cost_usd"] == pytest.approx(point["usd"], abs=1e-5)
    assert sim.stats()["calls"] == before


def test_the_page_and_the_table_are_files_of_their_own(
    judged: tuple[Path, SimServer], capsys: pytest.CaptureFixture[str]
) -> None:
    """HTML into the first run's folder by default, CSV by suffix, JSON on the screen; `svr eval` can write the page."""
    assert svr_here("report", "small", "big", "--frontier") == 0
    assert "nothing was sent" in capsys.readouterr().out
    page = Path("small/frontier.html").read_text()
    assert "SIMULATED" in page
    assert "looks better here than it will be on other pairs" in page
    assert svr_here("report", "small", "--frontier", "--out", "frontier.csv") == 0
    rows = csv.DictReader(Path("frontier.csv").read_text().splitlines())
    assert {row["judges"] for row in rows} == {"small"}
    capsys.readouterr()
    assert svr_here("report", "small", "--frontier", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["n_pairs"] == N


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("small", "short"), "differ in their pairs"),
        (("small", "direct"), "differ in their method"),
        (("longest",), "asked no judge"),
        (("small", "--out", "frontier.txt"), "no format for a frontier"),
        (("nowhere",), "no such run"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(
    judged: tuple[Path, SimServer], capsys: pytest.CaptureFixture[str], args: tuple[str, ...], says: str
) -> None:
    """One line says what differs; nothing is written."""
    plain = ("eval", "rubricbench", "--data", "bench.jsonl", "-q")
    assert evaluate("--judge", "big", "--limit", 5, out="short") == 0
    assert svr_here(*plain, "--judge", "big", "--audit", 0, "--out", "direct") == 0
    assert svr_here(*plain, "--method", "longest", "--out", "longest") == 0
    capsys.readouterr()
    assert svr_here("report", *args, "--frontier") == 2
    printed = capsys.readouterr().err
    assert says in printed
    assert printed.count("\n") == 1
