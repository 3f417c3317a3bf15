"""`svr eval` with juries, escalation and audits by margin: one judging path, whatever the way to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from endpoint import SimConfig, SimServer
from rig import own_cache, read_lines, run_items, run_metrics, serving, steady_metrics, write_bench, write_judges

from svr_async.commands.main import run
from svr_async.commands.main import svr as group

N = 30
JUDGES = {"small": ("gpt-oss-20b", 0.05), "mid": ("gpt-oss-120b", 0.15), "big": ("sim-strong", 0.5)}
RUBRICS = [
    "The answer names a figure or a date.",
    "The answer keeps to what was asked.",
    "The answer gives an example.",
    "The answer states a limit of what it says.",
]
PLAN = ("--judge", "small", "--audit-below", "0.6", "--escalate-to", "big", "--escalate-below", "0.6")
Run = Callable[..., int]


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve a flawless simulated endpoint for all tests of this module."""
    with serving() as server:
        yield server


def name_judges(folder: Path, base_url: str) -> None:
    """Write a judges.toml with three priced judges behind one endpoint."""
    own_cache(folder)
    tables = [
        f'[{name}]\nmodel = "{model}"\nbase_url = "{base_url}"\nkey_env = ""\nidentity = "sim"\n'
        f"price = [{price}, {price / 2}, {4 * price}]\n"
        for name, (model, price) in JUDGES.items()
    ]
    write_judges(folder, "\n".join(tables))


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sim: SimServer) -> Run:
    """Return a function that runs `svr eval` with a fixed list of rubrics; it returns the exit code."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    name_judges(tmp_path, sim.base_url)
    (tmp_path / "rubrics.txt").write_text("\n".join(RUBRICS))
    fixed = ("eval", "rubricbench", "--data", "bench.jsonl", "--rubrics", "rubrics.txt", "-q")

    def call(*args: object, out: str = "run") -> int:
        return run(group, "svr", [*fixed, "--out", out, *map(str, args)])

    return call


# --- the same bytes, whatever happens --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan", [PLAN, ("--jury", "small,mid,big"), ("--jury", "small,mid,big", "--jury-rule", "majority")]
)
def test_neither_concurrency_nor_faults_show_in_the_results(
    evaluate: Run, tmp_path: Path, plan: tuple[str, ...]
) -> None:
    """One call at a time, many, from the cache alone, or against faults: the same items byte for byte."""
    for number, concurrency in enumerate((1, 64)):
        assert evaluate(*plan, "--concurrency", concurrency, "--cache", f"m{number}", out=f"r{number}") == 0
    assert evaluate(*plan, "--cache", "m1", "--offline", out="offline") == 0
    assert run_items("r0") == run_items("r1") == run_items("offline")
    assert steady_metrics(Path("r0"))["accuracy"] == steady_metrics(Path("offline"))["accuracy"]
    assert run_metrics("offline")["calls"]["sent"] == 0
    with serving(SimConfig(fault_rate=0.3, faults=("500", "cut", "empty"))) as rough:
        name_judges(tmp_path, rough.base_url)
        assert evaluate(*plan, "--cache", "rough", out="rough") == 0
    assert run_items("rough") == run_items("r0")


def test_one_budget_is_that_of_all_judges(evaluate: Run) -> None:
    """With dollars for a part of the run, what both judges cost together stays near the budget."""
    assert evaluate(*PLAN, "--cache", "whole", out="whole") == 0
    budget = run_metrics("whole")["cost_usd"] / 2
    assert evaluate(*PLAN, "--budget", budget, "--concurrency", "2") == 4
    assert 0 < run_metrics()["paid_usd"] < 1.2 * budget


# --- what items and metrics say --------------------------------------------------------------------------------------


def test_only_close_pairs_are_judged_again(evaluate: Run, sim: SimServer) -> None:
    """Both orders and the second judge come where the margin is small, and items say which."""
    assert evaluate(*PLAN) == 0
    rows = read_lines(Path("run/items.jsonl"))
    for row in rows:
        first = next(vote for vote in row["votes"] if vote["part"] == "first")
        escalated = [vote for vote in row["votes"] if vote["part"] == "escalation"]
        assert bool(escalated) is (abs(first["margin"]) < 0.6)
        assert row["judge"] == ("big" if escalated else "small")
        assert ("escalated" in row["flags"]) is bool(escalated)
        assert row["margin"] == (escalated[0] if escalated else first)["margin"]
        assert sum(rubric["contribution"] for rubric in row["rubrics"]) == pytest.approx(row["margin"], abs=1e-6)
        asked = [2 if vote["order"] == "both" else 1 for vote in row["votes"]]
        assert len(row["requests"]) == sum(asked)
    found = run_metrics()
    assert found["calls"]["sent"] == sum(len(row["requests"]) for row in rows) < 3 * N
    assert found["votes"]["escalated"] == sum(len(row["votes"]) == 2 for row in rows) > 0
    assert (found["order"]["policy"], found["order"]["audit_below"]) == ("both", 0.6)
    assert found["cost_usd"] == pytest.approx(sum(block["cost_usd"] for block in found["judges"].values()), abs=2e-6)


def test_a_jury_of_judges_of_every_kind(evaluate: Run) -> None:
    """Two models and the rules: votes of all, contributions that add up to the mean, labels that say what they are."""
    assert evaluate("--jury", "small,big,rules") == 0
    rows = read_lines(Path("run/items.jsonl"))
    for row in rows:
        assert [vote["judge"] for vote in row["votes"]] == ["small", "big", "rules"]
        heard = [vote["margin"] for vote in row["votes"] if vote["margin"] is not None]
        assert row["margin"] == pytest.approx(sum(heard) / len(heard), abs=1e-8)
        assert {rubric["judge"] for rubric in row["rubrics"]} <= {"small", "big", "rules"}
    label = run_metrics()["judge_label"]
    assert "small (SIMULATED endpoint)" in label
    assert "a jury, mean of margins" in label
    judge = orjson.loads(Path("run/manifest.json").read_bytes())["judge"]
    assert judge["marks"] == ["simulated"]
    assert [one["marks"] for one in judge["judges"]] == [["simulated"], ["simulated"], ["offline_rules"]]


# --- before any call -------------------------------------------------------------------------------------------------


def test_a_dry_run_gives_the_worst_case_and_then_what_is_left(
    evaluate: Run, capsys: pytest.CaptureFixture[str], sim: SimServer
) -> None:
    """Without replies every further call is counted, as perhaps not needed; with them it is exact, and 0 at last."""
    before = sim.stats()["calls"]
    assert evaluate(*PLAN, "--dry-run", "--json") == 0
    worst = orjson.loads(capsys.readouterr().out)
    assert (worst["calls"], worst["maybe_calls"], worst["judges"]["small"]["calls"]) == (4 * N, 3 * N, 2 * N)
    assert 0 < worst["usd"] < worst["max_usd"]
    assert sim.stats()["calls"] == before
    assert evaluate("--judge", "small", "--order", "both", out="first") == 0
    capsys.readouterr()
    assert evaluate(*PLAN, "--dry-run", "--json") == 0
    exact = orjson.loads(capsys.readouterr().out)
    assert exact["judges"]["small"]["calls"] == 0
    assert evaluate(*PLAN) == 0
    needed = run_metrics()["judges"]["big"]["calls"]["sent"]
    surely = exact["judges"]["big"]["calls"] - exact["judges"]["big"]["maybe_calls"]
    assert surely <= needed <= exact["judges"]["big"]["calls"] == 2 * surely
    capsys.readouterr()
    assert evaluate(*PLAN, "--dry-run") == 0
    assert "0 calls" in capsys.readouterr().out
