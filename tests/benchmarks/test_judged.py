"""What the benchmarks share: pairs judged once and kept, the simulated judge in process, the plain regression."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rig import engine_at, judge_at, writer
from stand_ins import UnaskedAuthor

from svr_async.core.pair import Order, PreferencePair, present, user_prompt
from svr_async.judges.model import ModelJudge
from svr_async.judges.rules.judge import RulesJudge
from svr_async.judges.rules.registry import grid_rubrics
from svr_async.simulation.config import SimConfig
from svr_async.simulation.models import MODELS
from svr_async.simulation.server import SimServer
from svr_async.simulation.world import World, WorldConfig
from svr_async.training.rounds.judge_calls import Crew

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"


@pytest.fixture(scope="module")
def scripts() -> Iterator[SimpleNamespace]:
    """Return the scripts as modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        names = ("judged", "scores", "sim_judge")
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})


async def test_the_judge_in_process_answers_as_the_simulated_endpoint_does(
    scripts: SimpleNamespace, tmp_path: Path
) -> None:
    """The same pairs and rubrics get the same verdicts in process and over HTTP, noise and all."""
    world = World(WorldConfig(seed=3))
    pairs = [item.pair for item in world.pairs(4, "train")]
    judge = scripts.sim_judge.SimJudge(world, MODELS["gpt-oss-120b"])
    async with (
        SimServer(SimConfig(seed=3)) as sim,
        judge_at(sim.base_url, tmp_path / "a") as asked,
        engine_at(sim.base_url, tmp_path / "b") as engine,
    ):
        for pair in pairs:
            rubrics = (await ModelJudge(engine, writer(sim.base_url)).induce(pair)).value
            assert rubrics
            for order in Order:
                shown = present(pair, order)
                found = [(await one.compare(shown, rubrics, overall=False)).value for one in (judge, asked)]
                rows = [comparisons.rows for comparisons in found if comparisons is not None]
                assert [(r.rubric_id, r.delta) for r in rows[0]] == [(r.rubric_id, r.delta) for r in rows[1]]


def test_pairs_are_judged_once_and_again_only_if_they_change(
    scripts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call reads the file of the first; another response is judged anew."""
    pairs = [
        PreferencePair(id=f"p{n}", prompt=user_prompt(f"Say {n}."), chosen="It is so. " * 9, rejected="So.")
        for n in range(3)
    ]
    crew = Crew(judge=RulesJudge(), author=UnaskedAuthor(), workers=2, rubrics_per_call=500)
    first = scripts.judged.judged_on_all(tmp_path, "made", pairs, crew)
    assert first.shape == (3, len(grid_rubrics()))
    assert (first[~np.isnan(first)] > 0).any()
    with monkeypatch.context() as patch:
        patch.setattr(scripts.judged.judge_calls, "judge_pools", None)
        np.testing.assert_array_equal(scripts.judged.judged_on_all(tmp_path, "made", pairs, crew), first)
    pairs[0] = PreferencePair(id="p0", prompt=pairs[0].prompt, chosen="So.", rejected="It is so. " * 9)
    again = scripts.judged.judged_on_all(tmp_path, "made", pairs, crew)
    np.testing.assert_array_equal(again[1:], first[1:])
    assert not np.array_equal(again[0], first[0], equal_nan=True)
