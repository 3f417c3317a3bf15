"""The family's benchmark: one tiny draw is trained on and decided, is not trained on again, and has its table."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from svr_async.simulation.calibration import calibrate_items
from svr_async.simulation.family import drawn
from svr_async.simulation.family_world import FamilyWorld

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"
DRAW = 124  # neither a development draw nor a report draw
SIZES = ["--pairs", "120", "--test", "60"]
pytestmark = pytest.mark.timeout(180)  # whichever test comes first waits for the training


@pytest.fixture(scope="module")
def family() -> Iterator[ModuleType]:
    """Return the script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("family")


@pytest.fixture(scope="module")
def plan(family: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the plan of one tiny draw."""
    return family.Plan(draws=[DRAW], pairs=120, test=60, out=tmp_path_factory.mktemp("family"))


@pytest.fixture(scope="module")
def row(family: ModuleType, plan: Any) -> Any:
    """Return what a tiny draw was found to give."""
    return family.run_draw(plan, DRAW)


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the cells of a table's rows by their first cell."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_a_draw_is_trained_on_and_decided_in_every_way(family: ModuleType, plan: Any, row: Any) -> None:
    """The yardsticks are those of calibration, bank and uniform weights decide the same pairs, one file is left."""
    world = FamilyWorld(drawn(DRAW))
    found = calibrate_items(world, list(world.pairs(60, "test")))
    assert (row["draw"], row["pairs"], row["test"]) == (DRAW, 120, 60)
    assert [row[name] for name in ("direct", "human", "truth", "all")] == [
        found.direct,
        found.human,
        found.human_true_weights,
        found.all_wordings,
    ]
    assert all(0 < row[name] < 1 and (60 * row[name]) % 1 == pytest.approx(0) for name in ("svr", "uniform"))
    assert [one["round"] for one in row["rounds"]] == list(range(1, len(row["rounds"]) + 1))
    assert [path for path in plan.out.rglob("*") if path.is_file()] == [plan.path(DRAW)]
    assert family.run_draw(plan, DRAW) == row


def test_a_second_run_trains_nothing_and_prints_the_table(plan: Any, row: Any) -> None:
    """The command reads back what is there, changed by hand or not, and shows it as SIMULATED, by property."""
    kept = plan.path(DRAW).read_bytes()
    plan.path(DRAW).write_text(json.dumps({**row, "svr": 0.875, "direct": 0.5, "truth": 1.0}))
    command = [sys.executable, str(SCRIPTS / "family.py"), "run", "--draws", str(DRAW), *SIZES, "--out", str(plan.out)]
    done = subprocess.run([*command, "--processes", "1"], capture_output=True, text=True, timeout=50, check=False)
    plan.path(DRAW).write_bytes(kept)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"draw {DRAW}: 0.75 of the way" in done.stdout
    assert "SIMULATED: 1 drawn worlds, 120 training pairs, 60 unseen pairs each, %" in done.stdout
    rows = rows_of(done.stdout)
    assert rows["all"][4] == "87.5"
    assert rows["all"][-2:] == ["0.75", "0.75"]
    assert rows["types: 2–8"] == rows["words tell: 75–100 %"] == rows["all"]
    assert rows[str(DRAW)][0].startswith("2 types, words 100%, common 30%, paraphrase 5")
