"""The family's benchmark: one tiny draw is trained on and decided, is not trained on again, and has its table."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks/worlds"
DRAW = 124  # of the draws with all properties
SIZES = ["--pairs", "120", "--test", "60"]
FIRST_DRAWS = "0b949da11db5cb9f"
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
    """All ways decide the same pairs, the rounds are recorded, and one file remains."""
    assert (row["draw"], row["pairs"], row["test"]) == (DRAW, 120, 60)
    assert all(0 < row[name] < 1 and (60 * row[name]) % 1 == pytest.approx(0) for name in family.WAYS)
    assert row["direct"] < row["truth"]
    assert [one["round"] for one in row["rounds"]] == list(range(1, len(row["rounds"]) + 1))
    assert [path for path in plan.out.rglob("*") if path.is_file()] == [plan.path(DRAW)]
    assert family.run_draw(plan, DRAW) == row


def test_a_second_run_trains_nothing_and_prints_the_table(plan: Any, row: Any) -> None:
    """The command reads back the results, changed by hand or not, and shows them as SIMULATED, by property."""
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
    assert rows["types: 2–8"] == rows["type words: 75–100 %"] == rows["all"]
    assert rows[str(DRAW)][0].startswith("2 types, words 100%, common 30%, template 3")


@pytest.fixture(scope="module")
def drawn(family: ModuleType) -> ModuleType:
    """Return the module of the drawn worlds."""
    return importlib.import_module("drawn")


def test_the_first_draws_never_change(drawn: ModuleType) -> None:
    """A digest of pairs and human rubrics of ten development draws: results before and after a change compare."""
    digest = hashlib.sha256()
    for number in range(10):
        world = drawn.DrawnWorld(drawn.drawn(number))
        for item in (*world.pairs(3), *world.pairs(3, drawn.TEST)):
            digest.update(repr((item, world.human_rubrics(item))).encode())
    assert digest.hexdigest()[:16] == FIRST_DRAWS


@pytest.mark.parametrize("number", [100, 101, 103, 202, 8005])
def test_rubrics_of_every_property_are_recognised(drawn: ModuleType, number: int) -> None:
    """Each wording of a criterion, an absence, or two things at once names it, with any beginning."""
    world = drawn.DrawnWorld(drawn.drawn(number))
    for criterion in range(len(world.criteria)):
        for text in world.criteria[criterion].predicates:
            assert world.read_rubric(f"The response {text}.").criterion == criterion
            assert world.read_rubric(f"A good response {text}.").criterion in (criterion, *world.doubles)
    for place, (a, b) in enumerate(world.doubles):
        met = [world.read_response(item.pair.chosen).met for item in world.pairs(20)]
        number = 2 * world.half + place
        assert all((bits >> number & 1) == (bits >> a & bits >> b & 1) for bits in met)
