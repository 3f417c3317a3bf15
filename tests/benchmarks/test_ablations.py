"""The ablation table: what it reads, compares and shows; and that without HTTP the judge says the same."""

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from svr_async.core.pair import prompt_text
from svr_async.judges.questions import read_induced
from svr_async.simulation.author import Author
from svr_async.simulation.brain import Simulator
from svr_async.simulation.calibration import calibrate_items
from svr_async.simulation.config import SimConfig
from svr_async.simulation.models import MODELS
from svr_async.simulation.world import World, preset

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"


@pytest.fixture(scope="module")
def ablations() -> Iterator[ModuleType]:
    """Return the script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("ablations")


@pytest.fixture(scope="module")
def local(ablations: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a tiny varied world whose runs need no server."""
    world = World(preset("varied", 5))
    test = list(world.pairs(120, "test"))
    return ablations.Local.of(world, tmp_path_factory.mktemp("local"), 20, test, ablations.JUDGE)


def keep(plan: Any, seed: int, name: str, marks: list[bool]) -> None:
    """Write the items of a made-up run."""
    folder = plan.folder(seed) / "runs" / name
    folder.mkdir(parents=True)
    rows = [json.dumps({"id": f"p{number}", "correct": mark}) for number, mark in enumerate(marks)]
    (folder / "items.jsonl").write_text("\n".join(rows), "utf-8")


def test_the_table_compares_each_part_with_the_full_bank(ablations: ModuleType, tmp_path: Path) -> None:
    """Accuracies are by seed and in the mean, p is exact over the pairs of all seeds, and it says SIMULATED."""
    plan = ablations.Plan(world="varied", seeds=[1, 2], out=tmp_path, n_train=30, n_test=60)
    for seed in plan.seeds:
        keep(plan, seed, "direct", [True, False] * 30)
        keep(plan, seed, "svr", [True] * 48 + [False] * 12)
        keep(plan, seed, "no-support", [True] * 40 + [False] * 20)
    lines = ablations.table(plan).splitlines()
    assert lines[0].startswith("SIMULATED, varied world")
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    assert "| 80.0 | 80.0 | 80.0 |" in rows["trained bank, top 6"]
    assert rows["− support"].endswith("| 66.7 | 66.7 | 66.7 | < 0.0001 (−16 +0) |")
    assert "− probe" not in rows
    assert "the bank covers" in lines[-1]


def test_the_local_author_writes_what_the_endpoint_writes(ablations: ModuleType, local: Any) -> None:
    """Induction of both kinds and probes are those of the endpoint of the same world and seed."""
    endpoint = Simulator(SimConfig(seed=5, world=local.world.config))
    _, author = endpoint._minds[ablations.JUDGE]
    mine = importlib.import_module("ablations_local").LocalAuthor(Author(local.world, MODELS[ablations.JUDGE]))
    for pair in local.train:
        prompt = prompt_text(pair.prompt)
        assert asyncio.run(mine.probe(pair)).value == author.probe(prompt, pair.chosen)
        for contrastive in (True, False):
            rows = author.induce(prompt, pair.chosen, pair.rejected if contrastive else None)
            said = json.dumps({"contrastive_rubrics": rows})
            assert asyncio.run(mine.induce(pair, contrastive=contrastive)).value == read_induced(said)


def test_the_local_yardsticks_are_the_calibrated_ones(ablations: ModuleType, local: Any) -> None:
    """The direct judge and the human rubrics decide as calibration says."""
    local.yardsticks()
    shares = {}
    for name in ("direct", "oracle"):
        rows = [json.loads(line) for line in (local.folder / "runs" / name / "items.jsonl").read_bytes().splitlines()]
        assert [row["id"] for row in rows] == [item.pair.id for item in local.test]
        shares[name] = sum(row["correct"] for row in rows) / len(rows)
    expected = calibrate_items(local.world, local.test, model=ablations.JUDGE)
    assert shares == pytest.approx({"direct": expected.direct, "oracle": expected.human})
