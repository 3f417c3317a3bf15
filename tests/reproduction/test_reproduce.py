"""Every table rebuilt over small planted data against a simulated endpoint: resumed, from the cache, as announced."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_files import write_benchmarks
from rig import serving, write_bank, write_bench

from svr_async.errors import BudgetError
from svr_async.judges.limits import JudgeLimits
from svr_async.reproduction.dry_run import part_name
from svr_async.reproduction.recipes import load_recipes, plan_of
from svr_async.reproduction.reproduce import Reproduction, count, reproduce
from svr_async.reproduction.runner import Absent, Runner
from svr_async.reproduction.settings import ReproSettings
from svr_async.reproduction.table import PaperTable
from svr_async.reproduction.tables import build
from svr_async.simulation.server import SimServer
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
        judges=own | {ABSENT: "http://127.0.0.1:9/v1#nobody"},
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
    return next(one for one in done.tables if one.label == label)


def test_every_table_is_built_and_marked(done: Reproduction) -> None:
    """All are there with numbers of ours, labelled simulated, and every row says who judged or why nobody did."""
    assert [one.label for one in done.tables] == WITHOUT_RRD
    for one in done.tables:
        assert "SIMULATED" in one.marks or one.label == "fig:training_dynamics", one.label
        for row in one.rows:
            assert row.judged or row.absent, (one.label, row.names)
    assert "SIMULATED" in done.page.read_text()


def test_a_judge_that_cannot_be_reached_is_absent_and_not_made_up(done: Reproduction) -> None:
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


def test_rrd_alone_is_assumed_where_all_banks_are_there(small: ReproSettings) -> None:
    """How many rubrics a prompt's samples give is known from replies alone: its calls are marked, and it says so."""
    found = count(small, ["cost"], quiet)
    (name,) = (part_name(part) for part, one in found.parts.items() if one.assumed)
    assert "rrd" in name
    told = found.in_words()
    assert re.search(r"in all.* ?~ +[\d,]+ calls", told)
    assert "~ with --method rrd, assumed: 5 rubrics proposed a prompt" in told


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
            name = f"tables/{one.short}.{ending}"
            assert (offline.out / name).read_bytes() == (small.out / name).read_bytes(), name
    del done


def test_tables_with_figures_have_the_same_bytes_a_second_time(
    done: Reproduction, small: ReproSettings, tmp_path: Path
) -> None:
    """Figures are drawn from kept runs into files, and into the page, byte for byte as the time before."""
    del done
    told = []
    for name in ("first", "second"):
        found = reproduce(replace(small, figures=tmp_path / name), ["topk_sensitivity"], quiet)
        assert found.calls == 0
        files = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        told.append((files, found.page.read_bytes(), (small.out / "report.md").read_bytes()))
    assert told[0] == told[1]
    assert set(told[0][0]) == {f"topk_sensitivity{ending}" for ending in (".svg", "-dark.svg", ".png")}
    assert b"data:image/svg+xml" in told[0][1]


def test_a_run_without_one_verdict_is_absent_and_not_nought(small: ReproSettings, tmp_path: Path) -> None:
    """From an empty cache alone nothing is scored: every row keeps the printed number and says why."""
    offline = replace(small, out=tmp_path, limits=JudgeLimits(cache=tmp_path / "cache", offline=True))
    found = reproduce(offline, ["error_overlap", "model_transfer"], quiet)
    cells = [(cell.ours, row.absent) for one in found.tables for row in one.rows for cell in row.cells]
    assert {ours for ours, _ in cells} == {None}
    assert any("not one pair got a verdict" in why for _, why in cells)


def test_twelve_columns_and_their_mean(done: Reproduction) -> None:
    """A method that was judged on all three benchmarks has every column, and the plain mean of the twelve."""
    found = table(done, "tab:rmbenches")
    row = next(row for row in found.rows if row.names == ("OSS",))
    values = [cell.ours for cell in row.cells[:13]]
    assert all(value is not None for value in values)
    known = [value for value in values if value is not None]
    assert known[12] == pytest.approx(sum(known[:12]) / 12)
    assert [row.names[0] for row in found.rows if row.absent] == []


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


def test_activations_are_those_of_the_run(done: Reproduction) -> None:
    """Each pair activates six rubrics of this bank, and each of its rubrics is in one domain."""
    *parts, total = table(done, "tab:bank_distribution").rows
    assert total.cells[5].ours == 6 * PAIRS
    assert sum(row.cells[0].ours or 0 for row in parts) == total.cells[0].ours == 12


def test_without_any_run_all_tables_are_absent_with_reasons(tmp_path: Path) -> None:
    """Printed numbers stand alone, and every row says why ours are missing."""
    runner = Runner(settings=ReproSettings(out=tmp_path), plan=plan_of(["all"]), say=quiet)
    runner.runs = dict.fromkeys(runner.plan.runs, Absent(why="no judge"))
    runner.banks = {bank.name: Absent(why="no judge") for bank in runner.plan.banks}
    for recipe in runner.plan.tables:
        found = build(recipe, runner)
        assert {cell.ours for row in found.rows for cell in row.cells} == {None}, recipe.label
        assert all(row.absent for row in found.rows), recipe.label


def test_files_are_for_people_papers_and_programs(done: Reproduction, small: ReproSettings) -> None:
    """LaTeX has booktabs, CSV a cell a row, HTML the best in bold, no script and no request."""
    del done
    assert r"\toprule" in (small.out / "tables" / "gap.tex").read_text()
    rows = (small.out / "tables" / "gap.csv").read_text().splitlines()
    assert rows[0].startswith("table,row,column,unit,ours,low,high,printed,differs,judged")
    assert len(rows) == 6
    page = (small.out / "report.html").read_text()
    assert "<script" not in page
    assert re.search(r'class="ours best">\d+\.\d+<', page)
    assert "default-src" in page


def test_a_model_that_is_not_served_is_absent(small: ReproSettings, tmp_path: Path) -> None:
    """Its one refused call ends its own row, and no other."""
    with serving() as server:
        settings = replace(
            small,
            out=tmp_path / "out",
            base_url=server.base_url,
            limits=JudgeLimits(cache=tmp_path / "cache", give_up_after_s=2.0),
            judges={"gpt-5.4": f"{server.base_url}#none-such", "skywork": "rm:http://127.0.0.1:9"},
        )
        found = reproduce(settings, ["gap"], quiet).tables[0]
    absent = {row.names[0]: row.absent for row in found.rows if row.absent}
    assert set(absent) == {"Direct pairwise judge", "Scalar RM"}
    assert "none-such" in absent["Direct pairwise judge"]
