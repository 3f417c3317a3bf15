"""Every table rebuilt over small planted data against a simulated endpoint: resumed, from the cache, as announced."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_files import write_benchmarks
from endpoint import SimServer
from rig import write_bank, write_bench

from svr_async.errors import BudgetError
from svr_async.judges.limits import JudgeLimits
from svr_async.reproduction.paper import load_recipes, plan_of
from svr_async.reproduction.reproduce import Reproduction, build, count, reproduce
from svr_async.reproduction.runner import Absent, ReproSettings, Runner
from svr_async.reproduction.table import PaperTable
from svr_async.simulation.world import World

SIZES: Mapping[str, Mapping[str, int]] = {
    "rewardbench": {"alpacaeval-easy": 2, "mt-bench-hard": 2, "refusals-offensive": 2, "math-prm": 1, "hep-go": 1},
    "rewardbench2": dict.fromkeys(("Factuality", "Precise IF", "Math", "Safety", "Focus"), 1),
    "rmbench": dict.fromkeys(("chat", "code", "math", "safety-refuse", "safety-response"), 1),
}
PAIRS = 10
WITHOUT_RRD = [one.label for one in load_recipes().tables if not any(run.method == "rrd" for run in one.runs)]
ABSENT = "gpt-4o-mini"  # the one role whose judge is left unreachable


def quiet(_: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, sim: SimServer) -> ReproSettings:
    """Return the settings of a reproduction over a few pairs of each benchmark, with a bank in every bank's place."""
    folder = tmp_path_factory.mktemp("small")
    data = {"rubricbench": write_bench(folder / "rubricbench.jsonl", PAIRS)}
    data |= write_benchmarks(World(), folder, SIZES)
    bank, url = str(write_bank(folder / "bank")), sim.base_url
    own = {"skywork": f"rm:{url.removesuffix('/v1')}", "rm-r1": f"{url}#sim-weak", "rubric-arm": f"{url}#sim-strong"}
    own |= dict.fromkeys(("rubric-arm-proposer", "gpt-4o", "gemini-2.5-pro", "qwen3-8b"), f"{url}#sim-weak")
    return ReproSettings(
        out=folder / "out",
        data=data,
        judges=own | {ABSENT: "http://127.0.0.1:9/v1#unreachable"},
        banks=dict.fromkeys(load_recipes().banks, bank),
        base_url=url,
        limits=JudgeLimits(cache=folder / "cache", give_up_after_s=2.0),
    )


@pytest.fixture(scope="module")
def named(small: ReproSettings) -> Mapping[str, int]:
    """Return the calls that a dry run of everything names, by run, before anything is judged."""
    found = count(small, WITHOUT_RRD, quiet)
    total = found.as_json()["total"]
    assert "in all, shared runs once" in found.in_words()
    assert total["completion_tokens"] <= total["max_completion_tokens"]
    assert not (small.out / "runs").exists()
    parts = found.as_json()["parts"]
    assert sum(part["calls"] for part in parts.values()) == found.as_json()["total"]["calls"]
    return {name: part["calls"] for name, part in parts.items()}


@pytest.fixture(scope="module")
def done(small: ReproSettings, named: Mapping[str, int]) -> Reproduction:
    """Rebuild all but what RRD is part of: by the shipped settings it asks some 300 questions a prompt."""
    with pytest.raises(BudgetError):
        reproduce(replace(small, limits=replace(small.limits, max_calls=5)), WITHOUT_RRD, quiet)
    return reproduce(small, WITHOUT_RRD, quiet)


def bytes_of(out: Path) -> str:
    """Return a digest of all that is written of the tables."""
    files = sorted(path for pattern in ("report.*", "tables/*") for path in out.glob(pattern))
    assert len(files) > 3
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def table(done: Reproduction, label: str) -> PaperTable:
    """Return a table by its label."""
    return next(one for one in done.tables if one.recipe.label == label)


def test_every_table_is_built_and_marked(done: Reproduction) -> None:
    """All are there with numbers of ours, labelled simulated, and every row names its judge or why it is missing."""
    assert [one.recipe.label for one in done.tables] == WITHOUT_RRD
    for one in done.tables:
        assert "SIMULATED" in one.marks or one.recipe.label == "fig:training_dynamics", one.recipe.label
        for row in one.rows:
            assert row.judged or row.absent, (one.recipe.label, row.names)
    assert "SIMULATED" in done.page.read_text()


def test_an_unreachable_judge_is_absent(done: Reproduction) -> None:
    """Its cells keep the printed number alone, its row the reason, and so does the average of its column."""
    found = table(done, "tab:model_transfer")
    row = next(row for row in found.rows if row.names == ("GPT-4o-mini",))
    assert "cannot connect to 127.0.0.1:9" in row.absent
    assert [(cell.ours, cell.printed) for cell in row.cells] == [(None, 56.1), (None, 51.8), (None, 80.3)]
    assert found.rows[-1].absent
    assert all(cell.ours is None for cell in found.rows[-1].cells)
    other = next(row for row in found.rows if row.names == ("GPT-OSS-120B",))
    assert all(cell.ours is not None for cell in other.cells)


def test_the_calls_made_are_those_that_were_counted(
    done: Reproduction, small: ReproSettings, named: Mapping[str, int], sim: SimServer
) -> None:
    """Over a stopped run and its continuation, each counted call of a reachable judge was paid once."""
    del done
    again = count(small, WITHOUT_RRD, quiet).as_json()["parts"]
    assert {name for name, part in again.items() if part["calls"]} == {name for name in named if ABSENT in name}
    assert sum(calls for name, calls in named.items() if ABSENT not in name) == sim.stats()["paid"]


def test_a_second_time_asks_nothing_and_writes_the_same_bytes(done: Reproduction, small: ReproSettings) -> None:
    """In the same folder nothing is judged; in a new one all comes from the cache, with no socket opened."""
    whole = bytes_of(small.out)
    same = reproduce(small, WITHOUT_RRD, quiet)
    assert (same.calls, bytes_of(small.out)) == (0, whole)
    offline = replace(small, out=small.out.with_name("again"), limits=replace(small.limits, offline=True))
    again = reproduce(offline, ["gap", "ablation", "error_overlap"], quiet)
    assert again.calls == 0
    for one in again.tables:
        for ending in ("md", "tex", "csv"):
            name = f"tables/{one.recipe.short}.{ending}"
            assert (offline.out / name).read_bytes() == (small.out / name).read_bytes(), name
    del done


def test_a_run_without_a_verdict_is_absent(small: ReproSettings, tmp_path: Path) -> None:
    """From an empty cache alone nothing is scored: every row keeps the printed number and says why."""
    offline = replace(small, out=tmp_path, limits=JudgeLimits(cache=tmp_path / "cache", offline=True))
    found = reproduce(offline, ["error_overlap", "model_transfer"], quiet)
    cells = [(cell.ours, row.absent) for one in found.tables for row in one.rows for cell in row.cells]
    assert {ours for ours, _ in cells} == {None}
    assert any("not one pair got a verdict" in why for _, why in cells)


def test_one_judging_serves_every_k(done: Reproduction) -> None:
    """The row of k = 6 is what the bank's own run with six rubrics decides, but for the company in the call."""
    found = table(done, "fig:topk_sensitivity")
    assert [row.names[0] for row in found.rows] == ["1", "2", "4", "6", "8", "10", "12"]
    assert [row.cells[1].ours for row in found.rows] == [1, 2, 4, 6, 8, 10, 12]
    overall = table(done, "fig:gap").rows[-1].cells[0].ours
    assert found.rows[3].cells[0].ours == overall  # the simulated judge minds no company


def test_the_overlap_counts_every_pair_once(done: Reproduction) -> None:
    """The four counts are all pairs, the net by source adds up to their difference."""
    counts = [row.cells[0].ours or 0 for row in table(done, "tab:error_overlap").rows]
    assert sum(counts) == PAIRS
    net = sum(row.cells[0].ours or 0 for row in table(done, "tab:domain_net_advantage").rows)
    assert net == counts[1] - counts[2]


def test_without_any_run_all_tables_are_absent_with_reasons(tmp_path: Path) -> None:
    """Printed numbers stand alone, and every row says why ours are missing."""
    runner = Runner(settings=ReproSettings(out=tmp_path), plan=plan_of(["all"]), say=quiet)
    runner.runs = dict.fromkeys(runner.plan.runs, Absent(why="no judge"))
    runner.banks = dict.fromkeys(runner.plan.banks, Absent(why="no judge"))
    for recipe in runner.plan.tables:
        found = build(recipe, runner)
        assert {cell.ours for row in found.rows for cell in row.cells} == {None}, recipe.label
        assert all(row.absent for row in found.rows), recipe.label
