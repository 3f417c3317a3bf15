"""`svr report --frontier`: what it draws is what `svr eval` would give, and it sends nothing."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import run_metrics, serving, svr_here, write_bank, write_bench
from test_plan_flags import RUBRICS, name_judges

from svr_async.evaluation.frontier import Point, Setting
from svr_async.reports import frontier
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer

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


def flags_of(point: dict[str, Any]) -> list[str]:
    """Return the flags of `svr eval` that the page shows for a point."""
    facts = {name: point[name] for name in ("kind", "rule", "audit_below", "escalate_below")}
    setting = Setting(judges=tuple(point["judges"]), **facts)
    return frontier.flags_of(Point(setting=setting, missing=0, right=(), calls=0, tokens=0, usd=None)).split()


def test_every_kind_of_point_is_what_an_evaluation_gives(judged: tuple[Path, SimServer]) -> None:
    """For one point of each kind, a run with the flags shown has the same accuracy and cost, and needs no call."""
    _, sim = judged
    before = sim.stats()["calls"]
    points = drawn("small", "big", "mid")["points"]
    assert sim.stats()["calls"] == before
    chosen = {point["kind"]: point for point in points}
    assert set(chosen) == {"once", "both", "audit", "escalate", "jury"}
    for number, point in enumerate(chosen.values()):
        assert evaluate(*flags_of(point), "--offline", out=f"again-{number}") == 0
        found = run_metrics(f"again-{number}")
        assert found["accuracy"] == pytest.approx(point["accuracy"], abs=1e-6)
        assert found["cost_usd"] == pytest.approx(point["usd"], abs=1e-5)
        assert found["calls"]["cache_hits"] == point["calls"]
    assert sim.stats()["calls"] == before


def test_points_without_replies_are_left_out_and_counted(judged: tuple[Path, SimServer]) -> None:
    """The judge that saw one order has no point with both; how many pairs are missing is told."""
    found = drawn("mid")
    assert [point["kind"] for point in found["points"]] == ["once"]
    assert {point["kind"] for point in found["left_out"]} == {"audit", "both"}
    assert next(point for point in found["left_out"] if point["kind"] == "both")["missing"] == N


def test_a_run_with_thresholds_of_its_own_is_drawn_as_far_as_it_goes(judged: tuple[Path, SimServer]) -> None:
    """A run that asked the second order and the second judge for close pairs only gives the points up to there."""
    assert evaluate("--judge", "small", "--audit-below", "0.8", "--cache", "own-cache", out="own") == 0
    found = drawn("own")
    drawn_to = [point["audit_below"] for point in found["points"] if point["kind"] == "audit"]
    left_from = [point["audit_below"] for point in found["left_out"] if point["kind"] == "audit"]
    assert min(left_from) > 0.8
    assert 0 < max(drawn_to) < min(left_from)


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
        (("nowhere",), "not a run folder"),
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
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_changed_data_are_found_out(judged: tuple[Path, SimServer], capsys: pytest.CaptureFixture[str]) -> None:
    """Where the file is not the one that was judged, the frontier is refused, not drawn from other pairs."""
    Path("moved.jsonl").write_bytes(Path("bench.jsonl").read_bytes())
    plain = ("eval", "rubricbench", "--data", "moved.jsonl", "--rubrics", "rubrics.txt", "-q", "--judge", "small")
    assert svr_here(*plain, "--out", "moved") == 0
    Path("moved.jsonl").write_bytes(Path("bench.jsonl").read_bytes().replace(b"the", b"teh", 1))
    capsys.readouterr()
    assert svr_here("report", "moved", "--frontier") == 7
    assert "has changed since moved" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spelled", "other", "says"),
    [
        ('identity = "sim"', 'identity = "moved"', "put back the cache, or the judge's profile"),
        ("127.0.0.1", "localhost", "now it is at http://localhost:"),
    ],
)
def test_a_judge_that_is_another_by_now_is_named(
    judged: tuple[Path, SimServer], capsys: pytest.CaptureFixture[str], spelled: str, other: str, says: str
) -> None:
    """Where its profile gives other cache keys, no frontier is drawn: one line says what has no reply, and why."""
    profiles = Path("judges.toml").read_text()
    Path("judges.toml").write_text(profiles.replace('identity = "sim"', 'identity = "moved"').replace(spelled, other))
    try:
        assert svr_here("report", "small", "--frontier") == 7
    finally:
        Path("judges.toml").write_text(profiles)
    told = capsys.readouterr().err
    assert "has no reply of small to small" in told
    assert says in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "change", [{"limit": 5}, {"benchmark": None}, {"judge": ["small"]}, {"cache": {}}, {"unheard_of": 1}, None]
)
def test_a_manifest_that_was_tampered_with_is_refused(
    judged: tuple[Path, SimServer], capsys: pytest.CaptureFixture[str], change: dict[str, Any] | None
) -> None:
    """Settings of another type are refused with exit 7 and one line; a setting of a newer version is passed over."""
    assert evaluate("--judge", "small", "--limit", 6, out="tampered") == 0
    manifest = orjson.loads(Path("tampered/manifest.json").read_bytes())
    manifest["config"] = {} if change is None else manifest["config"] | change
    Path("tampered/manifest.json").write_bytes(orjson.dumps(manifest))
    capsys.readouterr()
    code = svr_here("report", "tampered", "--frontier")
    told = capsys.readouterr().err
    assert code == (0 if change == {"unheard_of": 1} else 7)
    assert told.count("\n") == (code != 0)


def test_a_run_of_an_unknown_method_is_refused(
    judged: tuple[Path, SimServer], capsys: pytest.CaptureFixture[str]
) -> None:
    """A method that this version does not have is not drawn as if the judge had been asked directly."""
    assert svr_here("eval", "rubricbench", "--data", "bench.jsonl", "-q", "--judge", "small", "--out", "newer") == 0
    manifest = orjson.loads(Path("newer/manifest.json").read_bytes())
    manifest["config"]["method"] = "newer"
    Path("newer/manifest.json").write_bytes(orjson.dumps(manifest))
    capsys.readouterr()
    assert svr_here("report", "newer", "--frontier") == 2
    assert "unknown method 'newer' — there are svr, uniform" in capsys.readouterr().err
